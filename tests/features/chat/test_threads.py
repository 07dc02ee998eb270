"""Conversations and what was said in them, over real HTTP: lists, pages, titles, deletion."""

import base64

import msgspec
import pytest

from coilclaw.features.chat.commands.memory import print_message
from coilclaw.features.chat.feature import chat_part
from coilclaw.features.chat.store.message_page import summarised
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import OWNER
from coilclaw.store.threads import MessageRow, add_message, ensure_thread
from tests.features.approvals.queue_home import approve, queue_home
from tests.features.chat.talking import Slow, events, messages, say, talking, until, when
from tests.server.parts import queue_part
from tests.server.site import served


def spoken(home, thread, *texts, role="user", label=OWNER, clock=None, **fields):
    """Write messages straight into a conversation."""
    clock = clock or home.app.clock

    def write(tx):
        ensure_thread(tx, clock, thread, "cli", texts[0])
        for number, text in enumerate(texts):
            row = MessageRow(
                message_id=f"msg_{thread}_{number}", thread_id=thread, turn_id=f"turn_{thread}", role=role,
                content=text, label=label, **fields,
            )  # fmt: skip
            add_message(tx, clock, row)

    home.app.db.write_now(write)


async def listed(site, **query):
    page = (await site.http.get("/v1/chat/threads", params=query)).json()
    return [each["thread_id"] for each in page["items"]], page["next_cursor"]


async def test_conversations_are_listed_by_when_they_were_last_touched(sample, clock):
    home = sample()
    for number in range(5):
        spoken(home, f"conv_{number}", f"about {number}", clock=clock)
    spoken(home, "conv_1x", "late", clock=clock)
    async with talking(home, running=False) as site:
        names, after = await listed(site, limit=4)
        rest, end = await listed(site, limit=4, cursor=after)
        assert names + rest == ["conv_1x", "conv_4", "conv_3", "conv_2", "conv_1", "conv_0"]
        assert end is None


async def test_the_list_says_what_continues(sample):
    home = sample()
    spoken(home, "conv_1", "a title", "the  last\nwords " + "and more " * 50)
    async with talking(home, running=False) as site:
        (thread,) = (await site.http.get("/v1/chat/threads")).json()["items"]
        assert (thread["title"], thread["channel"], thread["messages"]) == ("a title", "cli", 2)
        assert thread["last"]["role"] == "user"
        assert thread["last"]["text"].startswith("the last words and more")
        assert len(thread["last"]["text"]) <= 141
        assert (thread["running_turn_id"], thread["waiting_turns"], thread["waiting_approvals"]) == (None, 0, 0)
        assert (await site.http.get("/v1/chat/threads/conv_1")).json() == thread


async def test_only_what_the_owner_started_counts_as_a_conversation(sample):
    home = sample()
    spoken(home, "conv_own", "hello")

    def write(tx):
        clock = home.app.clock
        for thread, job in (("conv_job", "job_1"), ("conv_own", "job_2")):
            ensure_thread(tx, clock, thread, "panel", "x")
            tx.execute(
                "INSERT INTO jobs (job_id, thread_id, user_id, goal, state, budget_json, created_at, updated_at)"
                " VALUES (?, ?, 'owner', 'x', 'DONE', '{}', '2026', '2026')",
                (job, thread),
            )
            row = MessageRow(
                message_id=f"msg_{job}", thread_id=thread, turn_id="t", role="user", content="x", label=OWNER
            )
            add_message(tx, clock, row)
        for channel in ("schedule", "sop"):
            ensure_thread(tx, clock, f"conv_{channel}", channel, "x")

    home.app.db.write_now(write)
    async with talking(home, running=False) as site:
        assert (await listed(site, talks=True))[0] == ["conv_own"]
        assert sorted((await listed(site))[0]) == ["conv_job", "conv_own", "conv_schedule", "conv_sop"]


async def test_conversations_of_the_same_moment_are_each_listed_once(sample):
    from datetime import UTC, datetime

    home, moment = sample(), datetime(2026, 3, 1, tzinfo=UTC)
    for number in range(7):
        spoken(home, f"conv_{number}", "at once", clock=lambda: moment)
    async with talking(home, running=False) as site:
        seen, after = await listed(site, limit=3)
        while after is not None:
            more, after = await listed(site, limit=3, cursor=after)
            seen += more
        assert sorted(seen) == [f"conv_{number}" for number in range(7)]


@pytest.mark.parametrize(
    ("words", "found"), [("100%", ["conv_a"]), ("_", ["conv_b"]), ("DONE", ["conv_b", "conv_a"]), ("!", []), ("'", [])]
)
async def test_titles_are_searched_for_exactly_what_is_asked(sample, clock, words, found):
    home = sample()
    spoken(home, "conv_a", "100% done", clock=clock)
    spoken(home, "conv_b", "not_done", clock=clock)
    async with talking(home, running=False) as site:
        assert (await listed(site, q=words))[0] == found


@pytest.mark.parametrize(
    "place", [b"", b"nonsense", b"[]", b'["x",1e40]', b'["x",-1]', b'{"number":18446744073709551616}']
)
async def test_a_cursor_that_is_none_of_ours_is_refused(sample, place):
    home = sample()
    cursor = base64.urlsafe_b64encode(place).decode().rstrip("=")
    spoken(home, "conv_1", "hi")
    async with talking(home, running=False) as site:
        for path in ("/v1/chat/threads?cursor=", "/v1/chat/threads/conv_1/messages?before="):
            assert (await site.http.get(path + cursor)).json()["code"] == "BAD_CURSOR"


async def test_a_conversation_is_made_and_named(sample):
    home = sample()
    async with talking(home, running=False) as site:
        key = {"Idempotency-Key": "make it"}
        made = await site.http.post("/v1/chat/threads", json={"title": "tidy\x1b up"}, headers=key)
        assert (made.status_code, made.json()["title"], made.json()["channel"]) == (201, "tidy⟨U+001B⟩ up", "panel")
        home.app.db.write_now(lambda tx: tx.execute("DELETE FROM requests"))
        again = await site.http.post("/v1/chat/threads", json={"title": "tidy\x1b up"}, headers=key)
        assert again.json() == made.json()
        thread = made.json()["thread_id"]
        renamed = await site.http.patch(f"/v1/chat/threads/{thread}", json={"title": " better "})
        assert renamed.json()["title"] == "better"
        assert [kind for kind, _ in events(home, thread)] == ["thread_created", "thread_renamed"]
        for bad in ({"title": ""}, {"title": "x" * 201}, {"title": 1}, {"title": "x", "y": 1}):
            assert (await site.http.patch(f"/v1/chat/threads/{thread}", json=bad)).status_code == 400, bad
        assert (await site.http.patch(f"/v1/chat/threads/{thread}", json={"title": "  "})).status_code == 422
        assert (await site.http.patch("/v1/chat/threads/conv_none", json={"title": "x"})).status_code == 404


async def test_a_conversation_without_a_title_is_named_after_its_first_message(sample):
    async with talking(sample(), running=False) as site:
        posted = await say(site, "  water the plants\nplease")
        await say(site, "something else", posted["thread_id"])
        assert (await site.http.get("/v1/chat/threads")).json()["items"][0]["title"] == "water the plants"


async def test_messages_come_in_pages_both_ways(sample):
    home = sample()
    spoken(home, "conv_1", *[f"message {number}" for number in range(10)])
    async with talking(home, running=False) as site:
        path = "/v1/chat/threads/conv_1/messages"
        last = (await site.http.get(path, params={"limit": 4})).json()
        assert [each["content"][-1] for each in last["items"]] == ["6", "7", "8", "9"]
        middle = (await site.http.get(path, params={"limit": 4, "before": last["before"]})).json()
        assert [each["content"][-1] for each in middle["items"]] == ["2", "3", "4", "5"]
        first = (await site.http.get(path, params={"limit": 4, "before": middle["before"]})).json()
        assert [each["content"][-1] for each in first["items"]] == ["0", "1"]
        assert first["before"] is None
        onward = (await site.http.get(path, params={"limit": 3, "after": first["after"]})).json()
        assert [each["content"][-1] for each in onward["items"]] == ["2", "3", "4"]
        nothing = (await site.http.get(path, params={"after": last["after"]})).json()
        assert (nothing["items"], nothing["after"]) == ([], last["after"])
        both = await site.http.get(path, params={"after": last["after"], "before": last["before"]})
        assert both.status_code == 422


async def test_messages_say_whose_words_they_are_and_hide_nothing(sample):
    home = sample(environ={"COILCLAW_OPENROUTER_API_KEY": "x"})
    text = "my key is sk-proj-abcdefghijklmnopqrstuvwx0123456789 \u202etxt"
    spoken(home, "conv_1", "plain", text, label="untrusted:web")
    async with talking(home, running=False) as site:
        _, message = await messages(site, "conv_1")
        assert (message["label"], message["untrusted"]) == ("untrusted:web", True)
        assert "abcdefgh" not in message["content"]
        assert "\u202e" not in message["content"]


async def test_a_page_shows_the_beginning_of_long_messages_and_each_comes_whole_by_itself(sample):
    home = sample()
    home.app.redactor.register("KEY", "sup3r-s3cret-value-123456")
    text = "x" * 15_990 + " sup3r-s3cret-value-123456 " + "y" * 10_000
    spoken(home, "conv_1", "short", text)
    async with talking(home, running=False) as site:
        short, long = await messages(site, "conv_1")
        assert (short["cut"], long["cut"], len(long["content"])) == (False, True, 16_000)
        assert "sup3r" not in long["content"]
        path = "/v1/chat/threads/conv_1/messages/"
        whole = (await site.http.get(path + long["message_id"])).json()
        assert (whole["cut"], whole["content"][-10_000:]) == (False, "y" * 10_000)
        assert (await site.http.get(path + short["message_id"])).json() == short
        for other in (path + "msg_none", f"/v1/chat/threads/conv_2/messages/{short['message_id']}"):
            assert (await site.http.get(other)).status_code == 404


async def test_a_very_long_message_points_to_the_whole_of_it(sample):
    home = sample()
    spoken(home, "conv_1", "long " * 20_000)
    async with talking(home, running=False) as site:
        (message,) = await messages(site, "conv_1")
        assert message["cut"]
        assert message["artifact"]["size"] == 100_000
        content = await site.http.get(f"/v1/artifacts/{message['artifact']['artifact_id']}/content")
        assert content.text == "long " * 20_000


async def test_calls_of_before_are_matched_by_their_id(sample):
    """Answers that were kept before they named their actions."""
    from coilclaw.packets.chat import ProposedCall

    home = sample()
    spoken(home, "conv_1", "hi")
    calls = tuple(ProposedCall(call_id=name, tool="time", arguments="{}") for name in ("c1", "c2"))

    def write(tx):
        row = MessageRow(
            message_id="m2", thread_id="conv_1", turn_id="turn_9", role="assistant", content="", label="internal",
            tool_calls=calls,
        )  # fmt: skip
        add_message(tx, home.app.clock, row)

    home.app.db.write_now(write)
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.action import ToolCall

    conveyor, turn = home.conveyor(), Turn("turn_9", "conv_1", "chat")
    action = conveyor.intake.propose(ToolCall.of("time", {}, call_id="c2"), turn, "k")
    outcome = await conveyor.carry(action, turn, stored=False)
    async with talking(home, running=False) as site:
        first, second = (await messages(site, "conv_1"))[1]["calls"]
        assert (first["action_id"], first["status"]) == (None, None)
        assert (second["action_id"], second["receipt_id"]) == (outcome.action.action_id, outcome.receipt.id)


async def test_a_call_is_told_in_a_sentence_and_by_its_name_where_there_is_none(sample):
    from coilclaw.packets.chat import ProposedCall

    home = sample()
    spoken(home, "conv_1", "hi")
    wanted = {
        '{"path":"a\u202e.md","content":"four"}': "Write 4 bytes to a⟨U+202E⟩.md.",
        '{"path":1}': "file_write",
        "not JSON": "file_write",
    }
    calls = tuple(ProposedCall(call_id=f"c{n}", tool="file_write", arguments=text) for n, text in enumerate(wanted))

    def write(tx):
        row = MessageRow(
            message_id="m2", thread_id="conv_1", turn_id="turn_9", role="assistant", content="", label="internal",
            tool_calls=calls,
        )  # fmt: skip
        add_message(tx, home.app.clock, row)

    home.app.db.write_now(write)
    async with talking(home, running=False) as site:
        told = (await messages(site, "conv_1"))[1]["calls"]
        assert [call["summary"] for call in told] == list(wanted.values())


# Deleting


async def test_a_conversation_is_forgotten_and_its_receipts_stay(sample):
    home = sample()
    home.script({"tool_calls": [{"tool": "time", "args": {}}]}, {"text": "done"})
    async with talking(home) as site:
        posted = await say(site, "long " * 20_000)
        await until(site, posted["turn_id"])
        path = f"/v1/chat/threads/{posted['thread_id']}"
        assert (await site.http.delete(path)).status_code == 204
        assert (await site.http.get(path)).status_code == 404
        assert (await site.http.get(f"/v1/chat/turns/{posted['turn_id']}")).status_code == 404
        assert (await site.http.delete(path)).status_code == 404
        assert len(home.receipts()) == 1
        assert home.app.db.reader.execute("SELECT count(*) FROM artifacts").fetchone() == (0,)
        assert events(home, posted["thread_id"])[-1] == ("thread_deleted", {"messages": 4})


async def test_a_conversation_is_not_forgotten_while_it_continues(sample):
    home, model = sample(), Slow(([""], [("file_write", '{"path": "x", "content": "x"}')]), "it waits")
    async with talking(home, model=model) as site:
        posted = await say(site)
        path = f"/v1/chat/threads/{posted['thread_id']}"
        await when(lambda: model.at_once == 1)
        assert (await site.http.delete(path)).json()["code"] == "THREAD_BUSY"
        model.go(4)
        await until(site, posted["turn_id"])
        assert (await site.http.delete(path)).status_code == 409  # an action waits for the owner
        (call,) = (await messages(site, posted["thread_id"]))[1]["calls"]
        await home.approve(call["action_id"])
        assert (await site.http.delete(path)).status_code == 204


async def test_a_conversation_that_jobs_belong_to_stays_as_a_name_for_them(sample):
    from coilclaw.features.jobs.background import Background
    from coilclaw.features.jobs.job_requests import Request

    home = sample()
    desk = Background(home.app).desk()
    spoken(home, "conv_1", "hi")
    job = await desk.create(Request(goal="water the plants", thread_id="conv_1", channel="cli"))
    async with talking(home, running=False) as site:
        assert (await site.http.delete("/v1/chat/threads/conv_1")).status_code == 409
        await desk.cancel(job.job_id, "enough")
        assert (await site.http.delete("/v1/chat/threads/conv_1")).status_code == 204
        assert (await listed(site))[0] == []
        assert home.app.db.reader.execute("SELECT count(*) FROM jobs").fetchone() == (1,)


async def came_of_it(site, thread):
    """What the list says came of it, which is also what the conversation itself says."""
    (shown,) = (
        each for each in (await site.http.get("/v1/chat/threads")).json()["items"] if each["thread_id"] == thread
    )
    assert (await site.http.get(f"/v1/chat/threads/{thread}")).json() == shown
    return shown["came_of_it"]


async def test_what_came_of_it_is_told_once_nothing_of_the_turn_is_open_any_more(tmp_path):
    with queue_home(tmp_path) as q:
        turn = Turn("turn_conv_1", "conv_1", "chat")
        spoken(q.home, "conv_1", "write two notes", "They wait for you.", role="assistant")
        first, second = [await q.propose("file_write", turn=turn, path=f"{n}.md", content="x") for n in range(2)]
        async with served(q.home, queue_part, chat_part) as site:
            assert await came_of_it(site, "conv_1") is None
            await approve(site, first)
            await q.status(first, "EXECUTED")
            assert await came_of_it(site, "conv_1") is None
            await site.http.post(f"/v1/approvals/{second}/reject", json={"reason": "one is enough"})
            came = await came_of_it(site, "conv_1")
            assert (came["action_id"], came["status"], came["refusal"]) == (second, "REJECTED", "rejected")
            assert "1.md" in came["summary"]


async def test_what_was_said_since_is_the_last_word_again(tmp_path):
    with queue_home(tmp_path) as q:
        turn = Turn("turn_conv_1", "conv_1", "chat")
        spoken(q.home, "conv_1", "It waits for you.", role="assistant")
        action_id = await q.propose("file_write", turn=turn, path="a.md", content="x")
        async with served(q.home, queue_part, chat_part) as site:
            await approve(site, action_id)
            await q.status(action_id, "EXECUTED")
            assert (await came_of_it(site, "conv_1"))["status"] == "EXECUTED"

            def write(tx):
                row = MessageRow(
                    message_id="msg_later",
                    thread_id="conv_1",
                    turn_id="turn_2",
                    role="user",
                    content="and?",
                    label=OWNER,
                )
                add_message(tx, q.home.app.clock, row)

            q.home.app.db.write_now(write)
            assert await came_of_it(site, "conv_1") is None


async def test_a_summary_says_how_many_messages_it_stands_for_and_is_one_line_at_the_terminal(sample, capsys):
    home = sample()
    spoken(home, "conv_1", "first", "second")
    about = {"code": "SUMMARY", "summary": {"upto": "msg_conv_1_1", "count": 12, "owner": ["first"]}}
    row = MessageRow(
        message_id="msg_sum", thread_id="conv_1", turn_id="turn_1", role="system", content="They spoke of\ninvoices.",
        label="untrusted:web", metadata=about,
    )  # fmt: skip
    home.app.db.write_now(lambda tx: add_message(tx, home.app.clock, row))
    async with served(home, chat_part) as site:
        told = await messages(site, "conv_1")
    assert [(each["summarised"], each["untrusted"]) for each in told] == [(0, False), (0, False), (12, True)]
    print_message(row, summaries=False)
    assert capsys.readouterr().out.splitlines()[1:] == ["  12 earlier messages summed up (open with --summaries)"]
    print_message(row, summaries=True)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  12 earlier messages summed up", "  They spoke of", "  invoices.",
    ]  # fmt: skip
    damaged = msgspec.structs.replace(row, metadata={"code": "SUMMARY", "summary": {"count": "many"}})
    assert summarised(damaged) == 0
