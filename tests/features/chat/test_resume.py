"""A turn goes on when its last waiting call was answered: once, wherever that was, with what came of it."""

import asyncio
import json

import pytest

from coilclaw.features.chat.repl import Repl
from coilclaw.features.chat.turn_ends import waiting_words
from coilclaw.features.chat.turns import Turns
from coilclaw.packets.card import nobody
from coilclaw.packets.chat import ChatResponse, ProposedCall, ProviderCapabilities
from coilclaw.packets.errors import CoilclawError, UsageError
from coilclaw.store.actions import load_action, waiting_actions
from tests.features.chat.talking import events, messages, say, talking, until, when
from tests.held_box import HeldBox
from tests.home import Sample


def write(*names):
    return {"tool_calls": [{"tool": "file_write", "args": {"path": name, "content": name}} for name in names]}


def waiting(home):
    return [action.action_id for action in reversed(waiting_actions(home.app.db.reader, 10))]


async def reject(home, action_id, reason):
    action = load_action(home.app.db.reader, action_id)
    await home.app.approvals(home.app.conveyor(nobody)).reject(action, reason=reason)


async def test_write_one_then_another_is_two_approvals_and_one_request(sample):
    home = sample()
    home.script(write("x1"), write("x2"), {"text": "both are there"})
    async with talking(home) as site:
        posted = await say(site, "write x1, then x2")
        for name in ("x1", "x2"):
            await when(lambda: waiting(home))
            (action_id,) = waiting(home)
            assert not (home.workspace / name).exists()
            await home.approve(action_id)
            assert (home.workspace / name).read_text() == name
        turn = await until(site, posted["turn_id"], "ANSWERED")
        assert (turn["ending"], turn["answer"]) == ("answered", "both are there")
        assert [each["role"] for each in await messages(site, posted["thread_id"])].count("user") == 1
        started = [
            told.get("resumed", False) for kind, told in events(home, posted["turn_id"]) if kind == "turn_started"
        ]
        assert started == [False, True, True]
        sources = home.app.db.reader.execute("SELECT DISTINCT source, source_id FROM proposed_actions").fetchall()
        assert len(sources) == 1, "it goes on as the turn that it was"


class Silent:
    """A model that never says what its answers took."""

    name = "silent"
    capabilities = ProviderCapabilities(tool_calls=True, streaming=False, local=True)

    async def chat(self, request, on_text=None):
        call = ProposedCall(call_id="", tool="file_write", arguments='{"path": "x1", "content": ""}')
        calls = () if request.messages[-1].role == "tool" else (call,)
        return ChatResponse(final_text="x" * 8000, tool_calls=calls, provider=self.name, model="m")


async def test_a_turn_that_continues_has_spent_what_it_spent_before(sample):
    home = sample(agent__turn_token_budget=2000)
    async with talking(home, model=Silent()) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        await home.approve(*waiting(home))
        assert (await until(site, posted["turn_id"], "ANSWERED"))["ending"] == "budget"


async def test_a_no_goes_to_the_model_with_its_reason(sample):
    home = sample()
    home.script(write("x1"), {"text": "{last_tool_result}"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        await reject(home, *waiting(home), "not in this folder")
        turn = await until(site, posted["turn_id"], "ANSWERED")
        assert "not in this folder" in turn["answer"]


async def test_calls_of_one_answer_wait_together_and_the_model_hears_of_all_at_once(sample):
    home = sample()
    home.script(write("x1", "x2"), {"text": "{last_tool_result}"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        first, second = waiting(home)
        await home.approve(first)
        await asyncio.sleep(0.7)  # longer than the turns are looked at
        assert (await until(site, posted["turn_id"]))["state"] == "WAITING"
        await reject(home, second, "one is enough")
        turn = await until(site, posted["turn_id"], "ANSWERED")
        assert "one is enough" in turn["answer"]
        roles = [each["role"] for each in await messages(site, posted["thread_id"])]
        assert roles.count("assistant") == 2


async def test_the_owners_newer_words_win_and_the_calls_can_still_be_answered(sample):
    home = sample()
    home.script({"match": "never mind", "text": "another thing"}, write("x1"), {"text": "never said"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        later = await say(site, "never mind", posted["thread_id"])
        turn = await until(site, later["turn_id"])
        assert (turn["state"], turn["answer"]) == ("ANSWERED", "another thing")
        turn = await until(site, posted["turn_id"])
        assert (turn["state"], turn["ending"]) == ("ANSWERED", "pending")
        await home.approve(*waiting(home))
        await asyncio.sleep(0.7)
        assert (home.workspace / "x1").exists()
        told = await messages(site, posted["thread_id"])
        assert [each["content"] for each in told if each["role"] == "assistant"] == ["", "another thing"]
        assert told[-1]["role"] == "system"


async def test_a_call_that_nobody_answered_in_time_ends_the_turn_with_a_sentence(sample):
    home = sample()
    home.script(write("x1"), {"text": "never said"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        now = home.app.clock()
        approvals = home.app.approvals(home.app.conveyor(nobody))
        approvals._clock = lambda: now.replace(year=now.year + 1)
        assert len(await approvals.expire()) == 1
        turn = await until(site, posted["turn_id"], "STOPPED")
        assert turn["code"] == "EXPIRED"
        assert (
            "Nobody answered in time, so file_write did not run"
            in (await messages(site, posted["thread_id"]))[-1]["content"]
        )


async def test_an_open_prompt_says_that_a_turn_that_waited_expired(sample, capsys):
    home = sample()
    home.script(write("x1"), {"text": "never said"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        repl = Repl(home.app, posted["thread_id"], assume_yes=False)
        repl._waiting.add(posted["turn_id"])
        await repl._tell_ended()
        assert capsys.readouterr().out == ""
        approvals = home.app.approvals(home.app.conveyor(nobody))
        now = home.app.clock()
        approvals._clock = lambda: now.replace(year=now.year + 1)
        await approvals.expire()
        await until(site, posted["turn_id"], "STOPPED")
        await repl._tell_ended()
        await repl._tell_ended()
        assert capsys.readouterr().out.count("Nobody answered in time, so file_write did not run") == 1


async def test_estop_holds_a_turn_that_could_continue(sample):
    home = sample()
    home.script(write("x1"), {"text": "after all"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        home.app.estop.engage("test", "now")
        await reject(home, *waiting(home), "no")
        await asyncio.sleep(0.7)
        assert (await until(site, posted["turn_id"]))["state"] == "WAITING"
        home.app.estop.clear()
        assert (await until(site, posted["turn_id"], "ANSWERED"))["answer"] == "after all"


async def test_a_turn_continues_after_a_restart(tmp_path):
    home = Sample(tmp_path / "s")
    home.script(write("x1"))
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
    await home.approve(*waiting(home))
    home.close()
    home = Sample(tmp_path / "s")
    home.script({"text": "back again"})
    async with talking(home) as site:
        assert (await until(site, posted["turn_id"], "ANSWERED"))["answer"] == "back again"
    home.close()


async def test_of_many_who_could_resume_a_turn_one_does(sample):
    home = sample()
    home.script(write("x1"), {"text": "once"}, {"text": "twice"})
    async with talking(home) as site:
        stop = asyncio.Event()
        others = [Turns(home.app, home.app.conveyor(nobody)) for _ in range(3)]
        running = [asyncio.ensure_future(each.start(stop)) for each in others]
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        await home.approve(*waiting(home))
        assert (await until(site, posted["turn_id"], "ANSWERED"))["answer"] == "once"
        await asyncio.sleep(0.7)
        said = [each["content"] for each in await messages(site, posted["thread_id"]) if each["role"] == "assistant"]
        assert said == ["", "once"]
        stop.set()
        await asyncio.gather(*running)


async def test_a_waiting_turn_can_be_stopped_and_is_not_resumed(sample):
    home = sample()
    home.script(write("x1"), {"text": "never said"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        stopped = (await site.http.post(f"/v1/chat/turns/{posted['turn_id']}/stop")).json()
        assert stopped["state"] == "STOPPED"
        await home.approve(*waiting(home))
        await asyncio.sleep(0.7)
        assert (await until(site, posted["turn_id"]))["state"] == "STOPPED"


async def test_a_turn_of_a_deleted_conversation_is_gone_with_it(sample):
    home = sample()
    home.script(write("x1"), {"text": "never said"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        (action_id,) = waiting(home)
        gone = await site.http.delete(f"/v1/chat/threads/{posted['thread_id']}")
        if gone.status_code == 204:
            assert (await site.http.get(f"/v1/chat/turns/{posted['turn_id']}")).status_code == 404
        else:  # refused while something waits: say no first
            assert gone.status_code == 409
            await reject(home, action_id, "no")
            await until(site, posted["turn_id"], "ANSWERED")


@pytest.mark.parametrize("answer", [True, False])
async def test_the_owner_at_a_terminal_is_told_what_waits_and_how_it_is_answered(sample, answer):
    home = sample()
    home.script(write("x1"), {"text": "done"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        (action_id,) = waiting(home)
        told = waiting_words(home.app, posted["turn_id"])
        assert told == f"file_write waits for your approval: `coilclaw approvals approve {action_id}`."
        await (home.approve(action_id) if answer else reject(home, action_id, ""))
        assert "has its answers" in waiting_words(home.app, posted["turn_id"])


async def test_a_turn_continues_while_its_approved_command_runs_in_the_background(sample):
    home = sample()
    home.box = HeldBox()
    home.script(
        {"tool_calls": [{"tool": "shell", "args": {"command": "make", "background": True}}]},
        {"text": "{last_tool_result}"},
    )
    async with talking(home) as site:
        posted = await say(site, "build it")
        await until(site, posted["turn_id"], "WAITING")
        (action_id,) = waiting(home)
        assert (await home.approve(action_id)).running
        turn = await until(site, posted["turn_id"], "ANSWERED")
        assert f"Its handle is {action_id}" in turn["answer"]
        assert load_action(home.app.db.reader, action_id).begun
        home.box.let_end.set()
        await home.app.background.wait()
        assert load_action(home.app.db.reader, action_id).status == "EXECUTED"
        assert "ended in the background" in (await messages(site, posted["thread_id"]))[-1]["content"]


async def test_stopping_a_turn_that_was_answered_ends_what_it_left_in_the_background(sample):
    home = sample(security__autonomy="full")
    home.box = HeldBox()
    home.script(
        {"tool_calls": [{"tool": "shell", "args": {"command": "make", "background": True}}]}, {"text": "it runs"}
    )
    async with talking(home) as site:
        posted = await say(site, "build it")
        await until(site, posted["turn_id"], "ANSWERED")
        await home.box.started.wait()
        stopped = await site.http.post(f"/v1/chat/turns/{posted['turn_id']}/stop")
        assert (stopped.status_code, stopped.json()["state"]) == (200, "ANSWERED")
        assert home.box.killed == 1
        assert [(each.status, each.code) for each in home.receipts()] == [("failed", "CANCELLED")]


def approvals_of(home):
    return home.app.approvals(home.app.conveyor(nobody))


async def two_waiting(site, home):
    """A turn with two calls that wait; the turn and the ids of both."""
    posted = await say(site)
    await until(site, posted["turn_id"], "WAITING")
    return posted, waiting(home)


async def test_words_that_come_between_the_last_answer_and_the_resuming_win(sample):
    home = sample()
    home.script({"match": "never mind", "text": "another thing"}, write("x1"), {"text": "never said"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        home.app.estop.engage("test", "now")  # holds the resuming, so that the words are in time
        await reject(home, *waiting(home), "no")
        later = await say(site, "never mind", posted["thread_id"])
        await until(site, later["turn_id"])
        home.app.estop.clear()
        await asyncio.sleep(0.7)
        turn = await until(site, posted["turn_id"])
        assert (turn["state"], turn["ending"]) == ("ANSWERED", "pending")
        said = [each["content"] for each in await messages(site, posted["thread_id"]) if each["role"] == "assistant"]
        assert "never said" not in said


async def test_of_two_answers_to_one_call_the_first_counts_and_the_turn_continues_once(sample):
    home = sample()
    home.script(write("x1"), {"text": "once"}, {"text": "twice"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        (action_id,) = waiting(home)
        action = load_action(home.app.db.reader, action_id)
        answers = await asyncio.gather(
            approvals_of(home).reject(action, reason="no"),
            approvals_of(home).approve(action, by="terminal", digest=action.digest),
            approvals_of(home).reject(action, reason="no, really"),
            return_exceptions=True,
        )
        assert sum(isinstance(each, CoilclawError) for each in answers) == 2
        await home.app.executor(home.app.conveyor(nobody)).run_due()
        assert (await until(site, posted["turn_id"], "ANSWERED"))["answer"] == "once"
        await asyncio.sleep(0.7)
        started = [told for kind, told in events(home, posted["turn_id"]) if kind == "turn_started"]
        assert len(started) == 2


async def test_a_turn_with_one_answered_and_one_expired_call_ends_with_a_sentence(sample):
    home = sample()
    home.script(write("x1", "x2"), {"text": "never said"})
    async with talking(home) as site:
        posted, (first, _) = await two_waiting(site, home)
        await home.approve(first)
        late = approvals_of(home)
        now = home.app.clock()
        late._clock = lambda: now.replace(year=now.year + 1)
        assert len(await late.expire()) == 1
        assert (await until(site, posted["turn_id"], "STOPPED"))["code"] == "EXPIRED"
        assert (home.workspace / "x1").exists(), "what was approved was done"
        told = await messages(site, posted["thread_id"])
        assert [each["content"] for each in told if each["role"] == "assistant"] == [""]
        codes = [each["code"] for each in told if each["role"] == "tool"]
        assert codes == ["", "EXPIRED"], "no line says any more that it waits"


async def test_rules_that_changed_while_it_waited_deny_it_and_the_model_is_told(sample):
    home = sample()
    home.script(write("x1"), {"text": "{last_tool_result}"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        rule = {"id": "no", "when": {"tool": "file_write"}, "verdict": "deny", "reason": "quiet hours"}
        (home.workspace / "policies" / "quiet.json").write_text(json.dumps({"version": 1, "rules": [rule]}))
        await home.approve(*waiting(home))
        turn = await until(site, posted["turn_id"], "ANSWERED")
        assert "quiet hours" in turn["answer"]
        assert not (home.workspace / "x1").exists()


@pytest.mark.parametrize(("autonomy", "written"), [("readonly", False), ("supervised", True), ("full", True)])
async def test_a_turn_continues_after_a_restart_with_another_autonomy(tmp_path, autonomy, written):
    home = Sample(tmp_path / "s")
    home.script(write("x1"))
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
    home.close()
    home = Sample(tmp_path / "s", security__autonomy=autonomy)
    home.script({"text": "{last_tool_result}"})
    async with talking(home) as site:
        await home.approve(*waiting(home))
        turn = await until(site, posted["turn_id"], "ANSWERED")
        assert ("Wrote 2 bytes" in turn["answer"]) is written
        assert ("Denied." in turn["answer"]) is not written
        assert (home.workspace / "x1").exists() is written
    home.close()


async def test_a_conversation_that_is_forgotten_while_its_turn_continues_is_refused_and_later_gone(sample):
    home = sample()
    home.script(write("x1"), {"text": "done"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        path = f"/v1/chat/threads/{posted['thread_id']}"
        (action_id,) = waiting(home)
        answers = await asyncio.gather(site.http.delete(path), home.approve(action_id), site.http.delete(path))
        assert (home.workspace / "x1").exists()
        assert answers[0].status_code in (204, 409)
        while (gone := await site.http.delete(path)).status_code == 409:
            await asyncio.sleep(0.05)
        assert gone.status_code in (204, 404)
        assert (await site.http.get(f"/v1/chat/turns/{posted['turn_id']}")).status_code == 404
        assert [receipt.status for receipt in home.receipts()] == ["allowed"]


async def test_a_result_that_said_it_waits_says_what_came_of_it(sample):
    home = sample()
    home.script(write("x1"), {"text": "fine"})
    async with talking(home) as site:
        posted = await say(site)
        await until(site, posted["turn_id"], "WAITING")
        (result,) = [each for each in await messages(site, posted["thread_id"]) if each["role"] == "tool"]
        assert (result["code"], result["success"]) == ("APPROVAL_NEEDED", False)
        await home.approve(*waiting(home))
        await until(site, posted["turn_id"], "ANSWERED")
        told = [each for each in await messages(site, posted["thread_id"]) if each["role"] == "tool"]
        assert [(each["content"], each["code"], each["success"]) for each in told] == [
            ("Wrote 2 bytes to x1.", "", True)
        ]
        path = f"/v1/chat/threads/{posted['thread_id']}/messages/{result['message_id']}"
        assert (await site.http.get(path)).json()["content"] == "Wrote 2 bytes to x1."
        assert told[0]["receipt_id"] == home.receipts()[-1].id


async def test_a_terminal_does_not_answer_beside_somebody_who_does(sample):
    from coilclaw.features.chat.agent import agent_of
    from coilclaw.features.chat.post_message import post
    from coilclaw.features.chat.store.turns import TurnEnd, TurnRow
    from coilclaw.features.chat.turn_record import TurnRecord
    from coilclaw.store.claims import Claimant
    from coilclaw.store.threads import recent_messages

    home = sample()
    home.script({"text": "done"})
    agent, db, record = agent_of(home.app, home.conveyor()), home.app.db, TurnRecord(home.app)
    await post(agent, home.app, "thread_1", "hello", None)
    elsewhere = Claimant(home.app.home.locks_dir, "turns", home.app.clock)
    other = TurnRow(
        turn_id="turn_other", thread_id="thread_1", message_id="msg_other", state="RUNNING", worker=elsewhere.name
    )
    await db.write(lambda tx: record.keep_running(tx, other))
    kept = len(recent_messages(db.reader, "thread_1", 10))
    with pytest.raises(UsageError, match="an answer is being written in this conversation"):
        await post(agent, home.app, "thread_1", "and now?", None)
    assert len(recent_messages(db.reader, "thread_1", 10)) == kept  # nothing of it is kept
    await record.end(other, TurnEnd(state="STOPPED"))
    elsewhere.close()
    assert (await post(agent, home.app, "thread_1", "and now?", None)).text == "done"
