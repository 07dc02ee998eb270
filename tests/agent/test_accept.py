"""A turn in two parts: accepted by one, answered by another, in the order messages were accepted."""

import pytest

from coilclaw.features.chat.agent import agent_of
from coilclaw.packets.action import OWNER
from coilclaw.packets.errors import BudgetSpent, UsageError
from coilclaw.packets.job import UserMessage
from coilclaw.store.threads import MessageRow, add_message, messages_and_since, messages_until, recent_messages


def message(text="hi", thread="conv_1", number=1):
    return UserMessage(
        message_id=f"msg_{number}", thread_id=thread, channel="panel", source="chat", text=text, label=OWNER,
        received_at="now",
    )  # fmt: skip


def stored(home, thread="conv_1"):
    return [(row.role, row.content) for row in recent_messages(home.app.db.reader, thread, 100)]


async def test_what_one_agent_accepted_another_answers(sample):
    home = sample()
    home.script({"text": "you said {last_user}"})
    accepted = await agent_of(home.app, home.conveyor()).accept(message("first"))
    assert stored(home) == [("user", "first")]
    reply = await agent_of(home.app, home.conveyor()).run(accepted)
    assert (reply.turn_id, reply.text) == (accepted.turn_id, "you said first")


async def test_what_belongs_to_a_message_is_kept_with_it_or_neither_is(sample):
    home = sample()
    agent = agent_of(home.app, home.conveyor())
    seen = []

    def in_transaction(tx, turn_id):
        seen.append((turn_id, tx.execute("SELECT count(*) FROM threads").fetchone()[0]))

    accepted = await agent.accept(message(), in_transaction, turn_id="turn_mine")
    assert (accepted.turn_id, seen) == ("turn_mine", [("turn_mine", 1)])

    def broken(tx, turn_id):
        raise UsageError("no")

    with pytest.raises(UsageError):
        await agent.accept(message("second", "conv_2", 2), broken)
    assert stored(home, "conv_2") == []
    assert home.app.db.reader.execute("SELECT count(*) FROM threads").fetchone() == (1,)


@pytest.mark.parametrize("text", ["", "  \n", "a\0b", "\ud800", "x" * ((1 << 20) + 1)])
async def test_a_message_that_cannot_be_taken_is_not_accepted(sample, text):
    home = sample()
    with pytest.raises(UsageError):
        await agent_of(home.app, home.conveyor()).accept(message(text))
    assert stored(home) == []


async def test_a_spent_day_keeps_an_accepted_message_and_refuses_a_turn_before_it_is_kept(sample):
    from coilclaw.config import Budgets

    home = sample(budgets=Budgets(daily_tokens=1))
    home.script({"text": "hello", "usage": {"input_tokens": 5, "output_tokens": 5}})
    agent = agent_of(home.app, home.conveyor())
    await agent.turn(message())
    accepted = await agent.accept(message("more", number=2))
    with pytest.raises(BudgetSpent):
        await agent.run(accepted)
    with pytest.raises(BudgetSpent):
        await agent.turn(message("and more", number=3))
    assert stored(home)[2:] == [("user", "more")]


async def test_secrets_are_taken_out_before_a_message_is_kept(sample):
    home = sample()
    home.app.redactor.register("KEY", "sup3r-s3cret-value-123456")
    await agent_of(home.app, home.conveyor()).accept(message("it is sup3r-s3cret-value-123456"))
    assert "sup3r" not in str(stored(home))


async def test_each_round_is_announced_before_the_model_is_asked(sample):
    home = sample()
    home.script({"tool_calls": [{"tool": "time"}], "text": "looking"}, {"text": "done"})
    agent = agent_of(home.app, home.conveyor())
    heard = []
    await agent.run(await agent.accept(message()), heard.append, lambda: heard.append("|"))
    assert "".join(heard) == "|looking|done"


async def test_an_answer_names_the_actions_it_proposes(sample):
    home = sample()
    home.script({"tool_calls": [{"tool": "time"}, {"tool": "nonsense"}]}, {"text": "done"})
    reply = await agent_of(home.app, home.conveyor()).turn(message())
    row = recent_messages(home.app.db.reader, "conv_1", 10)[1]
    assert row.metadata["actions"] == [outcome.action.action_id for outcome in reply.outcomes]


async def test_an_agent_can_be_given_fewer_tools(sample):
    home = sample()
    agent = agent_of(home.app, home.conveyor())
    fewer = agent.without({"ask_user"})
    assert {tool.name for tool in agent._tools} - {tool.name for tool in fewer._tools} == {"ask_user"}


# What a turn sees of a conversation in which others wait or speak meanwhile


def conversation(home, *rows):
    def write(tx):
        from coilclaw.store.threads import ensure_thread

        ensure_thread(tx, home.app.clock, "conv_1", "panel", "")
        for number, (turn, role, content) in enumerate(rows):
            row = MessageRow(
                message_id=f"m{number}", thread_id="conv_1", turn_id=turn, role=role, content=content, label=OWNER
            )
            add_message(tx, home.app.clock, row)

    home.app.db.write_now(write)


def sees(home, turn, limit=100):
    db = home.app.db.reader
    return [row.content for row in messages_until(db, "conv_1", turn, limit)], [
        row.content for row in messages_and_since(db, "conv_1", turn, 100)
    ]


def test_a_waiting_message_is_seen_after_the_answers_it_waited_for(sample):
    home = sample()
    conversation(
        home,
        ("a", "user", "A?"), ("b", "user", "B?"), ("c", "user", "C?"),
        ("a", "assistant", "A!"), ("b", "assistant", "B!"),
    )  # fmt: skip
    assert sees(home, "a") == ([], ["A?", "A!"])
    assert sees(home, "b") == (["A?", "A!"], ["B?", "B!"])
    assert sees(home, "c") == (["A?", "A!", "B?", "B!"], ["C?"])


def test_a_message_that_was_never_answered_keeps_its_place(sample):
    home = sample()
    conversation(home, ("a", "user", "A?"), ("a", "system", "it failed"), ("b", "user", "B?"))
    assert sees(home, "b") == (["A?", "it failed"], ["B?"])


def test_what_earlier_turns_say_while_one_is_answered_is_seen_after_its_first_answer(sample):
    home = sample()
    conversation(
        home,
        ("a", "user", "A?"), ("a", "assistant", "A!"), ("b", "user", "B?"), ("a", "system", "before"),
        ("b", "assistant", "B1"), ("a", "system", "since"), ("c", "user", "C?"), ("b", "tool", "B2"),
    )  # fmt: skip
    assert sees(home, "b") == (["A?", "A!", "before"], ["B?", "B1", "since", "B2"])


def test_what_was_asked_never_scrolls_away_however_much_was_said_while_it_waited(sample):
    home = sample()
    many = [("a", "assistant", f"answer {number}") for number in range(1500)]
    conversation(home, ("a", "user", "A?"), ("b", "user", "B?"), *many)
    before, own = sees(home, "b", 20)
    assert own == ["B?"]
    assert before == [f"answer {number}" for number in range(1480, 1500)]


def test_a_turn_without_a_message_sees_everything(sample):
    home = sample()
    conversation(home, ("a", "user", "A?"), ("b", "user", "B?"))
    assert sees(home, "none") == ([], ["A?", "B?"])
