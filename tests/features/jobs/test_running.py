"""Jobs from their goal to their end, over real parts and the scripted model."""

import json

import pytest

from coilclaw.config import Jobs
from coilclaw.features.chat.agent import agent_of
from coilclaw.features.jobs.checkpoint import read_checkpoint
from coilclaw.features.jobs.evidence import holds
from coilclaw.store.actions import list_actions
from tests.features.conftest import calls


async def test_a_job_is_worked_on_until_the_model_has_nothing_more_to_call(office):
    here = office()
    here.home.script(calls(("time", {})), calls(("file_list", {"path": "."})), {"text": "all done"})
    job = await here.create("look around")
    assert job.state == "EXECUTING"
    await here.drain()
    assert here.job(job).state == "DONE"
    assert here.states(job) == ["PARSED", "POLICY_CHECKED", "PLANNED", "EXECUTING", "DONE"]
    assert [role for role, _ in here.said(job)] == ["assistant", "tool", "assistant", "tool", "assistant"]
    assert here.said(job)[-1] == ("assistant", "all done")
    assert here.job(job).worker is None


async def test_what_needs_the_owner_waits_and_the_job_continues_after_the_yes(office):
    here = office()
    here.home.script(calls(("file_write", {"path": "x.txt", "content": "x"})), {"text": "{last_tool_result}"})
    job = await here.create()
    await here.drain()
    assert here.job(job).state == "WAITING_APPROVAL"
    assert not (here.home.workspace / "x.txt").exists()
    await here.drain()
    assert here.job(job).state == "WAITING_APPROVAL"
    await here.answer()
    await here.drain()
    assert here.job(job).state == "DONE"
    assert (here.home.workspace / "x.txt").read_text() == "x"
    answer = here.said(job)[-1][1]
    assert "pending act_" not in answer
    assert "Wrote 1 byte" in answer
    assert [receipt.status for receipt in here.home.receipts()] == ["allowed"]


async def test_a_refused_action_is_told_to_the_model_and_the_job_continues(office):
    here = office()
    here.home.script(calls(("file_write", {"path": "x.txt", "content": "x"})), {"text": "{last_tool_result}"})
    job = await here.create()
    await here.drain()
    await here.answer(approve=False, reason="not now")
    await here.drain()
    assert here.job(job).state == "DONE"
    assert "not now" in here.said(job)[-1][1]
    assert not (here.home.workspace / "x.txt").exists()


async def test_an_action_that_expires_is_told_and_the_job_continues(office, clock):
    here = office(clock)
    here.home.script(calls(("file_write", {"path": "x.txt", "content": "x"})), {"text": "{last_tool_result}"})
    job = await here.create()
    await here.drain()
    clock.advance(hours=25)
    await here.drain()
    assert here.job(job).state == "DONE"
    assert "expired" in here.said(job)[-1][1]


async def test_several_calls_that_wait_are_all_answered_before_the_job_continues(office):
    here = office()
    both = calls(("file_write", {"path": "a", "content": "a"}), ("file_write", {"path": "b", "content": "b"}))
    here.home.script(both, {"text": "written"})
    job = await here.create()
    await here.drain()
    from coilclaw.store.actions import waiting_actions

    first, second = waiting_actions(here.app.db.reader, 9)
    approvals = here.app.approvals(here.background.conveyor)
    await approvals.reject(first, reason="no")
    await here.drain()
    assert here.job(job).state == "WAITING_APPROVAL"
    await approvals.reject(second, reason="no")
    await here.drain()
    assert here.job(job).state == "DONE"


async def test_the_model_is_never_asked_for_the_owner(office):
    here = office()
    here.home.script(calls(("ask_user", {"question": "well?"})), {"text": "{last_tool_result}"})
    job = await here.create()
    await here.drain()
    assert here.job(job).state == "DONE"
    assert here.home.receipts()[0].status != "allowed"


async def test_a_plan_is_followed_step_by_step(office):
    here = office()
    here.home.script({"text": "looked", "match": "Step 1 of 2"}, {"text": "told", "match": "Step 2 of 2"})
    job = await here.create("report", steps=("look", "tell"))
    await here.drain()
    assert here.job(job).state == "DONE"
    assert [text for _, text in here.said(job)] == ["looked", "told"]
    assert [row.content for row in here.messages(job) if row.role == "user"] == [
        "report", "Step 1 of 2: look", "Step 2 of 2: tell",
    ]  # fmt: skip


# What a job is held to


async def test_constraints_are_enforced_by_the_gate(office):
    here = office()
    here.home.script(calls(("file_list", {"path": "."})), {"text": "{last_tool_result}"})
    job = await here.create(allowed_tools=("time",))
    await here.drain()
    assert here.home.receipts()[0].status == "denied"
    assert here.job(job).state == "DONE"


async def test_a_job_that_asks_for_more_than_is_granted_is_denied_at_once(office):
    here = office()
    job = await here.create(allowed_tools=("no_such_tool",), allowed_domains=("example.com",))
    assert job.state == "DENIED"
    assert "no_such_tool" in job.reason
    assert "example.com" in job.reason
    assert here.manifest(job)["state"] == "DENIED"
    assert here.home.event_names().count("tool_requested") == 0


async def test_only_so_many_files_may_be_changed(office):
    from coilclaw.config import Security

    here = office(security=Security(autonomy="full"))
    here.home.script(
        calls(("file_write", {"path": "a", "content": "a"})),
        calls(("file_write", {"path": "b", "content": "b"})),
        {"text": "{last_tool_result}"},
    )
    job = await here.create(max_files_changed=1)
    await here.drain()
    assert (here.home.workspace / "a").exists()
    assert not (here.home.workspace / "b").exists()
    assert [entry["path"] for entry in here.manifest(job)["files"]] == ["a"]


# Evidence

TOLD = {"match": "not everything you must leave"}
"""A reply to the reminder that evidence is missing."""


async def test_every_job_that_ends_leaves_a_manifest_that_holds(office):
    here = office()
    here.home.script(calls(("time", {}), ("file_read", {"path": "/etc/passwd"})), {"text": "done"})
    job = await here.create()
    await here.drain()
    manifest = here.manifest(job)
    assert holds(manifest)
    assert not holds({**manifest, "state": "FAILED"})
    receipts = {receipt.id: receipt for receipt in here.home.receipts()}
    assert [(r["tool"], r["status"]) for r in manifest["receipts"]] == [("time", "allowed"), ("file_read", "denied")]
    assert all(receipts[r["id"]].receipt_hash == r["hash"] for r in manifest["receipts"])
    assert manifest["tokens"] > 0
    assert here.events(job, "state")[-1]["evidence"]


async def test_required_evidence_that_is_there_lets_the_job_be_done(office):
    here = office()
    put = ("artifact_put", {"name": "report", "kind": "text", "content": "all well"})
    here.home.script(calls(put), {"text": "done"})
    job = await here.create(evidence=("report",))
    await here.drain()
    assert here.job(job).state == "DONE"
    (artifact,) = here.manifest(job)["artifacts"]
    assert (artifact["name"], artifact["kind"]) == ("report", "text")
    from coilclaw.packets.canonical import sha256_hex

    assert artifact["sha256"] == sha256_hex(b"all well")


@pytest.mark.parametrize("evidence", [(), ("report", "tests_passed")])
async def test_the_calls_of_a_step_carry_the_evidence_it_must_leave(office, evidence):
    here = office()
    here.home.script(calls(("time", {})), {"text": "done"}, {**TOLD, "text": "done"})
    await here.create(evidence=evidence)
    await here.drain()
    (action,) = list_actions(here.app.db.reader, None, 10)
    assert action.call.expected_outputs == evidence


async def test_required_evidence_that_is_missing_fails_the_job_after_one_reminder(office):
    here = office()
    here.home.script({"text": "trust me"}, {**TOLD, "text": "really"}, {**TOLD, "text": "nobody asks a third time"})
    job = await here.create(evidence=("report", "tests_passed"))
    await here.drain()
    assert here.job(job).state == "FAILED"
    assert here.job(job).reason == "evidence missing: report, tests_passed."
    assert here.said(job) == [("assistant", "trust me"), ("assistant", "really")]
    (told,) = [row for row in here.messages(job) if row.message_id.endswith("_reminder")]
    assert (told.role, told.metadata["told"]) == ("user", True)
    assert "report" not in told.content, "its words count as the owner's; the names may be a model's"
    assert here.events(job, "step")[-1]["evidence_missing"] == ["report", "tests_passed"]


async def test_evidence_that_is_left_after_the_reminder_lets_the_job_be_done(office):
    here = office()
    put = ("artifact_put", {"name": "report", "kind": "text", "content": "all well"})
    here.home.script({"text": "done"}, calls(put, **TOLD), {**TOLD, "text": "now it is"})
    job = await here.create(evidence=("report",))
    await here.drain()
    assert here.job(job).state == "DONE"


async def test_only_the_last_of_the_owners_steps_needs_what_the_job_must_leave(office):
    here = office()
    put = ("artifact_put", {"name": "report", "kind": "text", "content": "all well"})
    last = {"match": "step 2"}
    here.home.script({"text": "first"}, calls(put, **last), {**last, "text": "second"})
    job = await here.create(steps=("look", "write"), evidence=("report",))
    await here.drain()
    assert here.job(job).state == "DONE"
    assert not [row for row in here.messages(job) if row.message_id.endswith("_reminder")]


async def test_readonly_refuses_a_job_that_must_leave_something(office):
    here = office(security__autonomy="readonly")
    job = await here.create(evidence=("report",))
    assert job.state == "DENIED"
    assert "artifact_put" in job.reason


async def test_what_happens_to_a_job_is_reported_in_its_thread_its_events_and_the_audit(office):
    here = office()
    here.home.script({"text": "done"})
    job = await here.create()
    await here.drain()
    said = [(row.metadata["state"], row.content) for row in here.messages(job) if row.role == "system"]
    ended = f"Job {job.job_id} is done. Every step of the plan is done."
    assert said == [("EXECUTING", f"Job {job.job_id} is under way."), ("DONE", ended)]
    audit = here.app.db.reader.execute(
        "SELECT payload_json FROM audit_log WHERE event_type = 'job_state' ORDER BY seq"
    ).fetchall()
    assert here.states(job) == [json.loads(row[0])["to"] for row in audit]


# Bounds


async def test_a_step_that_takes_too_long_is_cut_tried_again_and_given_up(office, clock, hurried):
    here = office(clock, jobs=hurried)
    here.home.script({"text": "too late", "delay": 600})
    job = await here.create()
    await here.drain()
    (retry,) = here.events(job, "retry")
    assert retry["attempt"] == 1
    assert here.job(job).state == "EXECUTING"
    await here.drain()
    assert len(here.events(job, "retry")) == 1  # not before its time
    clock.advance(seconds=30)
    await here.drain()
    assert here.job(job).state == "TIMED_OUT"
    assert "0.3 seconds" in here.job(job).reason
    assert holds(here.manifest(job))


async def test_a_provider_that_comes_back_costs_a_pause_only(office, clock):
    here = office(clock)
    here.home.script({"error": "unavailable"}, {"text": "back"})
    job = await here.create()
    await here.drain()
    assert here.job(job).attempt == 1
    here.home.script({"text": "back"})
    here.background = type(here.background)(here.app)
    clock.advance(seconds=30)
    await here.drain()
    assert here.job(job).state == "DONE"
    assert here.job(job).attempt == 0


async def test_a_provider_that_stays_away_fails_the_job(office, clock):
    here = office(clock, jobs=Jobs(step_retries=1))
    here.home.script(*[{"error": "unavailable"}] * 9)
    job = await here.create()
    for _ in range(3):
        await here.drain()
        clock.advance(hours=2)
    assert here.job(job).state == "FAILED"
    assert "attempted 2 times" in here.job(job).reason


async def test_output_that_stays_broken_fails_the_job(office):
    here = office()
    here.home.script(*[{"error": "invalid_json"}] * 3)
    job = await here.create()
    await here.drain()
    assert here.job(job).state == "FAILED"
    assert "FAILED_MODEL_OUTPUT" in here.job(job).reason


OVER = {
    "calls": (calls(*[("time", {})] * 11), "11 calls"),
    "tokens": ({"text": "x", "usage": {"input_tokens": 1, "output_tokens": 8001}}, "8001 tokens"),
}


@pytest.mark.parametrize("bound", OVER)
async def test_step_over_its_calls_or_tokens_is_aborted_checkpointed_and_tried_again(office, clock, bound):
    here = office(clock)
    too_much, words = OVER[bound]
    here.home.script(calls(("time", {})), too_much, {"text": "within bounds"})
    job = await here.create()
    await here.drain()
    (retry,) = here.events(job, "retry")
    assert (retry["attempt"], words in retry["reason"]) == (1, True)
    assert here.job(job).state == "EXECUTING"
    assert len(here.home.receipts()) == 1  # of the step before; nothing of the one that went too far was carried out
    assert read_checkpoint(here.job(job).checkpoint).step == 1
    await here.drain()
    assert len(here.events(job, "retry")) == 1  # not before its time
    here.home.script(calls(("time", {})), {"text": "within bounds"})
    here.background = type(here.background)(here.app)
    clock.advance(seconds=30)
    await here.drain()
    assert here.job(job).state == "DONE"
    assert here.job(job).attempt == 0


@pytest.mark.parametrize("bound", OVER)
async def test_step_that_stays_over_its_calls_or_tokens_fails_the_job(office, clock, bound):
    here = office(clock, jobs=Jobs(step_retries=1))
    too_much, words = OVER[bound]
    here.home.script(*[too_much] * 9)
    job = await here.create()
    for _ in range(3):
        await here.drain()
        clock.advance(hours=2)
    assert here.job(job).state == "FAILED"
    assert words in here.job(job).reason
    assert "attempted 2 times" in here.job(job).reason
    assert here.home.receipts() == []
    assert holds(here.manifest(job))


async def test_a_job_that_uses_up_its_tokens_fails(office):
    from coilclaw.config import Budgets

    here = office(budgets=Budgets(job_tokens=100))
    here.home.script(*[calls(("time", {}), usage={"input_tokens": 60, "output_tokens": 1})] * 5)
    job = await here.create()
    await here.drain()
    assert here.job(job).state == "FAILED"
    assert "100 tokens" in here.job(job).reason
    assert len(here.home.receipts()) == 2


async def test_a_job_that_never_comes_to_an_end_is_ended(office):
    from coilclaw.config import Jobs

    here = office(jobs=Jobs(max_steps=3))
    here.home.script(*[calls(("time", {}))] * 9)
    job = await here.create()
    await here.drain()
    assert here.job(job).state == "FAILED"
    assert "3 steps" in here.job(job).reason


async def test_when_the_day_is_spent_jobs_pause_until_midnight(office, clock):
    from coilclaw.config import Budgets

    here = office(clock, budgets=Budgets(daily_tokens=100))
    here.home.script(
        calls(("time", {}), usage={"input_tokens": 99, "output_tokens": 1}), {"text": "next day", "usage": {}}
    )
    job = await here.create()
    await here.drain()
    paused = here.job(job)
    assert (paused.state, paused.paused_from) == ("PAUSED_BUDGET", "EXECUTING")
    assert paused.next_wakeup_at == "2026-03-02T00:00:00.000Z"
    await here.drain()
    assert here.job(job).state == "PAUSED_BUDGET"
    clock.advance(hours=12, minutes=1)
    await here.drain()
    assert here.job(job).state == "DONE"
    assert here.states(job)[-3:] == ["PAUSED_BUDGET", "EXECUTING", "DONE"]


async def test_a_turn_is_refused_when_the_day_is_spent(office):
    import msgspec

    from coilclaw.features.chat.post_message import post
    from coilclaw.packets.errors import BudgetSpent

    here = office()
    here.home.script({"text": "hello", "usage": {"input_tokens": 50, "output_tokens": 50}})
    budgets = msgspec.structs.replace(here.app.config.budgets, daily_tokens=100)
    here.app.config = msgspec.structs.replace(here.app.config, budgets=budgets)
    agent = agent_of(here.app, here.home.conveyor())
    assert (await post(agent, here.app, "conv_2", "hi", None)).tokens == 100
    with pytest.raises(BudgetSpent) as refused:
        await post(agent, here.app, "conv_2", "again", None)
    assert refused.value.exit_code == 3
    assert [row[0] for row in here.app.db.reader.execute("SELECT content FROM messages")] == ["hi", "hello"]


async def test_a_deadline_ends_a_job_even_while_it_waits(office, clock):
    here = office(clock)
    here.home.script(calls(("file_write", {"path": "x", "content": "x"})), {"text": "never"})
    job = await here.create()
    await here.drain()
    clock.advance(hours=73)
    with here.background.named() as name:
        worker = here.background.worker(name)
        await worker._tick(with_chores=False)
        await worker._wind_down()
    assert here.job(job).state == "TIMED_OUT"
    assert here.home.statuses() == ["REJECTED"]  # what waited is withdrawn


# The owner's hand


async def test_a_cancelled_job_ends_with_what_it_waited_for(office):
    here = office()
    here.home.script(calls(("file_write", {"path": "x", "content": "x"})), {"text": "never"})
    job = await here.create()
    await here.drain()
    await here.desk.cancel(job.job_id, "changed my mind")
    assert (here.job(job).state, here.job(job).reason) == ("CANCELLED", "changed my mind")
    assert here.home.statuses() == ["REJECTED"]
    assert here.manifest(job)["state"] == "CANCELLED"
    from coilclaw.packets.errors import UsageError

    with pytest.raises(UsageError):
        await here.desk.cancel(job.job_id, "again")
    with pytest.raises(UsageError):
        await here.desk.resume(job.job_id)


async def test_cancelling_cuts_the_step_that_runs(office):
    import asyncio

    here = office()
    here.home.script({"text": "never", "delay": 600})
    job = await here.create()
    work = asyncio.ensure_future(here.drain())
    while here.job(job).worker is None:
        await asyncio.sleep(0.01)
    await here.desk.cancel(job.job_id, "")
    await work
    assert here.job(job).state == "CANCELLED"
    assert here.said(job) == []
    assert len([a for a in here.artifacts(job) if a.kind == "evidence_manifest"]) == 2


async def test_resume_makes_a_job_due_that_backs_off(office, clock):
    here = office(clock)
    here.home.script({"error": "unavailable"})
    job = await here.create()
    await here.drain()
    assert here.job(job).next_wakeup_at > here.job(job).updated_at
    here.home.script({"text": "now"})
    here.background = type(here.background)(here.app)
    await here.desk.resume(job.job_id)
    await here.drain()
    assert here.job(job).state == "DONE"


async def test_estop_holds_jobs_and_clearing_it_lets_them_continue(office):
    import asyncio

    here = office()
    here.home.script({"text": "never", "delay": 600})
    job = await here.create()
    work = asyncio.ensure_future(here.drain())
    while here.job(job).worker is None:
        await asyncio.sleep(0.01)
    here.app.estop.engage("test", "now")
    await work
    held = here.job(job)
    assert (held.state, held.attempt, held.worker) == ("EXECUTING", 0, None)
    assert here.said(job) == []
    await here.drain()
    assert here.said(job) == []
    here.app.estop.clear()
    here.home.script({"text": "done"})
    here.background = type(here.background)(here.app)
    await here.drain()
    assert here.job(job).state == "DONE"


# Checkpoints of other versions


async def test_a_checkpoint_nobody_understands_fails_the_job_and_keeps_its_evidence(office):
    here = office()
    here.home.script({"text": "never"})
    job = await here.create()
    here.app.db.write_now(lambda tx: tx.execute("UPDATE jobs SET checkpoint_blob = ?", (b'{"version":99}',)))
    await here.drain()
    assert here.job(job).state == "FAILED"
    assert "newer CoilClaw" in here.job(job).reason
    assert here.job(job).checkpoint == b'{"version":99}'
    assert holds(here.manifest(job))


# Taint


async def test_what_a_job_took_in_stays_with_it(office):
    here = office()
    here.home.script(calls(("time", {})), {"text": "done"})
    job = await here.create()
    here.app.db.write_now(
        lambda tx: tx.execute(
            "INSERT INTO messages (message_id, thread_id, turn_id, role, content, label, created_at)"
            " VALUES ('m', 'conv_1', ?, 'tool', 'evil', 'untrusted:web', '2026')", (job.turn_id,),
        )
    )  # fmt: skip
    await here.drain()
    from coilclaw.features.jobs.checkpoint import read_checkpoint

    ended = here.job(job)
    assert read_checkpoint(ended.checkpoint).fresh == ("untrusted:web",)
    assert ended.checkpoint_label == "untrusted:web"
    assert {row.label for row in here.messages(job) if row.role == "assistant"} == {"untrusted:web"}


async def test_a_job_inherits_what_its_conversation_took_in(office):
    from coilclaw.features.chat.post_message import post
    from coilclaw.features.jobs.checkpoint import read_checkpoint

    here = office()
    here.home.script({"text": "hello"})
    await post(agent_of(here.app, here.home.conveyor()), here.app, "conv_1", "hi", None)
    here.app.db.write_now(lambda tx: tx.execute("UPDATE messages SET label = 'untrusted:a,b' WHERE role = 'assistant'"))
    job = await here.create()
    await here.drain()
    assert read_checkpoint(here.job(job).checkpoint).inherited == ("untrusted:a", "untrusted:b")
    assert read_checkpoint(here.job(job).checkpoint).fresh == ()


async def test_secrets_in_a_goal_are_not_kept(office):
    here = office(environ={"COILCLAW_OPENROUTER_API_KEY": "sup3r-s3cret-value-123456"})
    job = await here.create("use sup3r-s3cret-value-123456", steps=("with sup3r-s3cret-value-123456",))
    rows = here.app.db.reader.execute("SELECT goal, spec_json, plan_json FROM jobs").fetchall()
    assert "sup3r" not in str(rows) + str(here.messages(job))


# Several at once


async def test_only_so_many_jobs_run_at_once(office):
    from coilclaw.config import Budgets

    here = office(budgets=Budgets(jobs_at_once=2))
    here.home.script({"text": "done", "delay": 0.05})
    jobs = [await here.create(f"number {n}", thread=f"conv_{n}") for n in range(5)]
    tally = await here.drain(slots=5)
    assert {here.job(job).state for job in jobs} == {"DONE"}
    assert len(tally.work) == 5


async def test_a_chat_continues_undisturbed_beside_a_job_in_the_same_thread(office):
    from coilclaw.features.chat.post_message import post

    here = office()
    here.home.script(*[calls(("time", {}))] * 12, {"text": "job done"})
    job = await here.create("count")
    await here.drain()
    here.home.script({"text": "I hear {last_user}"})
    reply = await post(agent_of(here.app, here.home.conveyor()), here.app, "conv_1", "hello", None)
    assert reply.text.endswith("hello")
    assert f"Job {job.job_id} is done." in reply.text  # told as a notice


async def test_an_outcome_that_nobody_posted_is_told_when_the_job_continues(office):
    here = office()
    here.home.script(calls(("file_write", {"path": "x.txt", "content": "x"})), {"text": "{last_tool_result}"})
    job = await here.create()
    await here.drain()
    await here.answer(approve=False, reason="not this one")
    here.app.db.write_now(lambda tx: tx.execute("DELETE FROM messages WHERE role = 'system'"))
    await here.drain()
    assert here.job(job).state == "DONE"
    assert "not this one" in here.said(job)[-1][1]


async def test_what_a_tainted_job_says_of_its_end_stays_marked(office):
    here = office()
    here.home.script(calls(("time", {})), *[{"error": "invalid_json"}] * 3)
    job = await here.create()
    here.app.db.write_now(
        lambda tx: tx.execute(
            "INSERT INTO messages (message_id, thread_id, turn_id, role, content, label, created_at)"
            " VALUES ('m', 'conv_1', ?, 'tool', 'evil', 'untrusted:web', '2026')", (job.turn_id,),
        )
    )  # fmt: skip
    await here.drain()
    (told,) = [row for row in here.messages(job) if row.metadata.get("state") == "FAILED"]
    assert told.label == "untrusted:web"
