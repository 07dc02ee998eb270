"""reach_out through the gate: a word to the owner in the conversation it belongs to, labelled like the turn."""

import json

import pytest

from coilclaw.agent.context import chat_messages, of_chat
from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.job_requests import Request
from coilclaw.features.notifications.feature import notifier_chore, reach_out_of
from coilclaw.features.notifications.store import notifications_before
from coilclaw.gate.turn import Turn
from coilclaw.ledger.audit import Wanted, last_events
from coilclaw.packets.action import ToolCall
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import stamp
from coilclaw.packets.job import Constraints, JobLimits
from coilclaw.store.jobs import load_job
from coilclaw.store.threads import MessageRow, add_message, ensure_thread, recent_messages
from coilclaw.tools.builtin import builtin_tools

WHY = "clarification_needed"


def conversation(home, thread_id="conv_1"):
    home.app.db.write_now(lambda tx: ensure_thread(tx, home.app.clock, thread_id, "cli", "x"))
    return Turn("turn_1", thread_id, "chat")


async def say(home, turn, message="Which of the two?", reason=WHY, key="k"):
    return await home.call("reach_out", turn, key, reason=reason, message=message)


def notified(home):
    return notifications_before(home.app.db.reader, None, 100, unseen=False)


async def test_the_owner_is_told_without_being_asked_and_the_receipt_says_r1(sample):
    home = sample()
    outcome = await say(home, conversation(home))
    assert outcome.result.success, outcome.result.output
    assert home.owner.cards == []
    assert [(r.status, r.risk_level) for r in home.receipts()] == [("allowed", "R1")]
    (message,) = recent_messages(home.app.db.reader, "conv_1", 10)
    assert (message.content, message.label, message.role) == ("Which of the two?", "internal", "system")
    assert message.metadata["reach_out"] == WHY
    (event,) = last_events(home.app.db.reader, Wanted(event_type="reach_out"), 10)
    assert (event.entity_id, event.payload["reason"], event.payload["message_id"]) == (
        "conv_1", WHY, message.message_id,
    )  # fmt: skip
    assert "Which" not in json.dumps(event.payload)
    assert await notifier_chore(home.app).run() == 1
    (row,) = notified(home)
    assert (row.type, row.reason, row.entity_id, row.thread_id) == ("proactive_reach_out", WHY, "conv_1", "conv_1")


async def test_what_a_tainted_turn_says_carries_its_label(sample):
    home = sample()
    conversation(home)
    turn = Turn("turn_1", "conv_1", "chat", ("untrusted:old",), fresh=("untrusted:new",))
    assert (await say(home, turn)).result.success
    (message,) = recent_messages(home.app.db.reader, "conv_1", 10)
    assert message.label == "untrusted:new,old"


async def test_a_job_reaches_out_in_its_own_conversation(sample):
    home = sample()
    job = await Background(home.app).desk().create(Request(goal="x", thread_id="conv_job", channel="cli"))
    limits = JobLimits(job_id=job.job_id, constraints=Constraints())
    outcome = await say(home, Turn(job.turn_id, job.thread_id, "job", job=limits))
    assert outcome.result.success, outcome.result.output
    await notifier_chore(home.app).run()
    (row,) = notified(home)
    assert (row.entity_id, row.job_id, row.thread_id) == (job.job_id, job.job_id, "conv_job")
    last = recent_messages(home.app.db.reader, "conv_job", 1)[0]
    assert (last.content, last.metadata["by_job"]) == ("Which of the two?", job.job_id)
    assert last.turn_id != job.turn_id
    assert load_job(home.app.db.reader, job.job_id).state == "EXECUTING"


async def test_without_a_conversation_there_is_nobody_to_tell(sample):
    home = sample()
    for number, thread in enumerate(("", "conv_nope")):
        outcome = await say(home, Turn("turn_1", thread, "cli"), key=f"k{number}")
        assert (outcome.result.success, outcome.result.code) == (False, "NO_THREAD")
    assert last_events(home.app.db.reader, Wanted(event_type="reach_out"), 10) == []
    assert await notifier_chore(home.app).run() == 0


async def test_the_same_call_again_says_it_once(sample):
    home = sample()
    turn = conversation(home)
    assert (await say(home, turn)).result.success
    conveyor = home.conveyor()
    known = await conveyor.intake.known(ToolCall.of("reach_out", {"reason": WHY, "message": "Which of the two?"}), "k")
    assert known.status == "EXECUTED"
    post = reach_out_of(home.app)
    home.app.db.write_now(lambda tx: tx.execute("UPDATE proposed_actions SET begun_at = created_at"))
    await post("k", WHY, "Which of the two?")  # as after a crash before its end was written
    assert len(recent_messages(home.app.db.reader, "conv_1", 10)) == 1
    assert len(last_events(home.app.db.reader, Wanted(event_type="reach_out"), 10)) == 1
    with pytest.raises(ToolError, match="no such call"):
        await post("another key", WHY, "x")


async def test_a_loop_of_reaching_out_is_reported_once_in_ten_minutes(sample):
    home = sample()
    turn = conversation(home)
    codes = [(await say(home, turn, f"again {number}", key=f"k{number}")).result.code for number in range(6)]
    assert codes == ["", *["RATE_LIMITED"] * 5]
    assert await notifier_chore(home.app).run() == 1
    assert len(recent_messages(home.app.db.reader, "conv_1", 10)) == 6


async def test_rate_limited_reach_out_says_so_and_when_to_try_again(sample, clock):
    home = sample()
    home.app.clock = clock
    turn = conversation(home)
    assert (await say(home, turn, "first", key="k1")).result.code == ""
    limited = (await say(home, turn, "second", key="k2")).result
    assert limited.code == "RATE_LIMITED"
    assert limited.output.startswith("RATE_LIMITED")
    again = str(limited.metadata["retry_at"])
    assert again in limited.output
    clock.advance(minutes=10, seconds=1)
    assert again < stamp(clock())
    assert (await say(home, turn, "third", key="k3")).result.code == ""


@pytest.mark.parametrize(
    "args",
    [
        {"reason": "because", "message": "x"},
        {"reason": WHY, "message": ""},
        {"reason": WHY, "message": "  "},
        {"reason": WHY, "message": "a\0b"},
        {"reason": WHY, "message": "x" * 2001},
        {"reason": WHY},
        {"reason": WHY, "message": "x", "thread_id": "conv_other"},
    ],
)
async def test_what_makes_no_sense_tells_nobody(sample, args):
    home = sample()
    outcome = await home.call("reach_out", conversation(home), "k", **args)
    assert not outcome.result.success
    assert outcome.result.code != "TOOL_CRASHED"
    assert recent_messages(home.app.db.reader, "conv_1", 10) == []


async def test_the_gate_can_forbid_it(sample):
    home = sample()
    turn = conversation(home)
    rule = {"id": "quiet", "when": {"tool": "reach_out"}, "verdict": "deny", "reason": "be quiet"}
    (home.workspace / "policies" / "quiet.json").write_text(json.dumps({"version": 1, "rules": [rule]}))
    assert (await say(home, turn)).result.code.startswith("POLICY")
    readonly = sample(security__autonomy="readonly")
    assert not (await say(readonly, conversation(readonly))).result.success


async def test_secrets_do_not_reach_the_conversation(sample):
    home = sample()
    home.app.redactor.register("TOKEN", "s3cr3t-value-of-mine")
    turn = conversation(home)
    outcome = await say(home, turn, "it is s3cr3t-value-of-mine")
    assert not outcome.result.success
    assert recent_messages(home.app.db.reader, "conv_1", 10) == []


async def test_a_tool_that_was_given_nothing_to_post_by_refuses(sample):
    home = sample()
    home.app.tools["reach_out"] = builtin_tools()["reach_out"]
    assert (await say(home, conversation(home))).result.code == "NOT_GRANTED"


async def test_a_chat_is_shown_what_was_said_as_a_notice_before_the_owners_next_words(sample):
    home = sample()
    job = await Background(home.app).desk().create(Request(goal="x", thread_id="conv_job", channel="cli"))
    limits = JobLimits(job_id=job.job_id, constraints=Constraints())
    await say(home, Turn(job.turn_id, job.thread_id, "job", ("untrusted:a.example",), job=limits))
    answer = MessageRow(
        message_id="msg_y", thread_id="conv_job", turn_id="turn_y", role="user", content="the first", label="owner"
    )
    home.app.db.write_now(lambda tx: add_message(tx, home.app.clock, answer))
    shown = chat_messages(of_chat(recent_messages(home.app.db.reader, "conv_job", 50)))
    assert shown[-1].role == "user"
    assert "Which of the two?" in shown[-1].content
    assert "[untrusted:a.example" in shown[-1].content
    assert shown[-1].content.endswith("the first")
