"""Schedules come due: each slot once, whatever happens around it."""

from datetime import timedelta

import pytest

from coilclaw.features.jobs.checkpoint import read_checkpoint
from coilclaw.features.schedules.registry_edit import adding, edit_registry
from coilclaw.features.schedules.store.schedule_runs import dedupe_key
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import from_stamp
from coilclaw.store.jobs import load_job
from coilclaw.store.threads import recent_messages
from tests.features.schedules.schedule_world import World, entry


@pytest.fixture
def world(db, clock):
    return World(db, clock)


async def test_a_slot_that_comes_due_makes_one_job_with_the_owners_words(world):
    world.declare(
        entry(job_spec={"intent": "count the files", "inputs": {"since": "last_run"}, "constraints": {"max_prs": 2}})
    )
    assert await world.tick() == 0
    assert world.row().next_run_utc == "2026-03-01T13:00:00Z"
    world.clock.advance(hours=1, seconds=3)
    assert await world.tick() == 1
    assert await world.tick() == 0
    (run,) = world.runs()
    assert run.run_instance_id == "s:2026-03-01T13:00:00Z"
    assert (run.state, run.cause, run.lateness_seconds) == ("STARTED", "due", 3)
    job = load_job(world.db.reader, run.job_id)
    assert job.state == "RECEIVED"
    assert job.goal.startswith("count the files")
    assert '{"since":"last_run"}' in job.goal
    assert "scheduled for 2026-03-01T13:00:00Z" in job.goal
    assert job.spec.constraints.max_prs == 2
    assert job.spec.inputs["schedule_run"]["run_instance_id"] == run.run_instance_id
    (said,) = recent_messages(world.db.reader, job.thread_id, 10)
    assert (said.role, said.label) == ("user", "owner")
    assert world.row().next_run_utc == "2026-03-01T14:00:00Z"


async def test_each_run_records_summary_notes_and_next_runs(world):
    world.declare(entry(cron="0 13 * * *", timezone="UTC"))
    await world.tick()
    world.clock.advance(hours=1)
    await world.tick()
    (event,) = world.events("schedule_run", "s")
    (run,) = world.runs()
    assert event["cron_summary"] == run.cron_summary == "Every day at 1:00 PM UTC."
    assert event["next_runs_utc"] == ["2026-03-02T13:00:00Z", "2026-03-03T13:00:00Z", "2026-03-04T13:00:00Z"]
    assert event["next_runs_local"][0] == "2026-03-02 1:00 PM UTC"
    assert event["job_id"] == run.job_id


async def test_the_wakeup_carries_the_seeds_dedupe_key_and_is_completed_with_its_job(world):
    import hashlib

    from coilclaw.packets.canonical import canonical_bytes
    from tests.features.schedules.schedule_world import fields

    world.declare(entry())
    await world.tick()
    world.clock.advance(hours=1)
    await world.tick()
    payload = world.row().payload
    inner = hashlib.sha256(canonical_bytes(fields(payload))).hexdigest()
    expected = hashlib.sha256(f"s|2026-03-01T13:00:00Z|{inner}".encode()).hexdigest()
    assert dedupe_key("s", "2026-03-01T13:00:00Z", payload) == expected
    look = "SELECT scheduled_for, status, dedupe_key FROM wakeup_events"
    assert world.db.reader.execute(look).fetchall() == [("2026-03-01T13:00:00Z", "LEASED", expected)]
    world.finish()
    await world.tick()
    assert [row[1] for row in world.db.reader.execute(look)] == ["COMPLETED"]
    assert world.runs()[0].outcome == "DONE"


# Catching up


async def test_after_a_long_sleep_the_newest_slot_is_run_and_the_others_leave_one_row(world):
    world.declare(entry())
    await world.tick()
    world.clock.advance(hours=6, minutes=30)
    await world.tick()
    skipped, run = world.runs()
    assert (skipped.state, skipped.slots, skipped.first_slot) == ("SKIPPED", 5, "2026-03-01T13:00:00Z")
    assert skipped.scheduled_at == "2026-03-01T17:00:00Z"
    assert (run.scheduled_at, run.cause, run.lateness_seconds) == ("2026-03-01T18:00:00Z", "late", 1800)
    assert "30 minutes late" in load_job(world.db.reader, run.job_id).goal
    (event,) = world.events("schedule_skipped", "s")
    assert event["slots"] == 5


async def test_a_month_of_missed_minutes_is_two_rows(world):
    world.declare(entry(cron="* * * * *"))
    await world.tick()
    world.clock.advance(days=30)
    await world.tick()
    skipped, run = world.runs()
    assert skipped.slots == 43_199
    assert run.state == "STARTED"
    assert len(world.jobs()) == 1


async def test_run_all_works_through_what_was_missed_one_after_the_other(world):
    world.declare(entry(misfire="run_all"))
    await world.tick()
    world.clock.advance(hours=3)
    await world.tick()
    assert [run.state for run in world.runs()] == ["STARTED", "QUEUED", "QUEUED"]
    await world.tick()
    assert len(world.jobs()) == 1
    for number in (2, 3):
        world.finish()
        await world.tick()
        assert len(world.jobs()) == number
    world.finish()
    await world.tick()
    assert [run.state for run in world.runs()] == ["ENDED"] * 3
    statuses = [row[0] for row in world.db.reader.execute("SELECT status FROM wakeup_events")]
    assert statuses == ["COMPLETED"] * 3


async def test_a_single_time_is_caught_up_however_late_and_runs_once(world):
    world.declare(entry(cron=None, trigger="at", at="2026-03-01T13:00:00Z"))
    await world.tick()
    world.clock.advance(days=90)
    await world.tick()
    world.finish()
    world.restart()
    world.clock.advance(days=1)
    await world.tick()
    assert world.started() == ["2026-03-01T13:00:00Z"]
    assert world.row().next_run_utc is None


async def test_a_time_that_had_passed_when_it_was_written_is_not_run_and_says_so(world):
    world.declare(entry(cron=None, trigger="at", at="2026-03-01T11:00:00Z"))
    await world.tick()
    (run,) = world.runs()
    assert (run.state, run.reason) == ("SKIPPED", "its time had already passed when it was first seen")
    assert any("run-now s" in fields.get("message", "") for _, fields in world.said)
    world.declare(entry(cron=None, trigger="at", at="2026-03-01T11:00:00Z", misfire="skip"))
    world.said.clear()
    await world.tick()
    assert len(world.runs()) == 1
    assert world.said == []


async def test_a_time_that_nobody_looked_at_in_time_is_caught_up(world):
    world.declare(entry(cron=None, trigger="at", at="2026-03-01T12:30:00Z"))
    world.clock.advance(minutes=40)
    await world.tick()
    assert world.started() == ["2026-03-01T12:30:00Z"]


async def test_a_time_that_passed_days_before_anybody_looked_is_not_run(world):
    """The database that ran it may be gone."""
    world.declare(entry(cron=None, trigger="at", at="2026-03-01T12:30:00Z"))
    world.clock.advance(days=3)
    await world.tick()
    assert [run.state for run in world.runs()] == ["SKIPPED"]


async def test_an_edit_of_another_entry_does_not_lose_a_time_that_was_not_taken_over_yet(world):
    world.declare(entry(cron=None, trigger="at", at="2026-03-01T12:30:00Z"))
    world.clock.advance(minutes=40)
    world.db.write_now(
        lambda tx: edit_registry(tx, world.clock, world.source, world.file, adding(entry("other", cron="5 * * * *")))
    )
    await world.tick()
    assert world.started() == ["2026-03-01T12:30:00Z"]


async def test_while_stopped_nothing_is_dispatched_and_then_the_catch_up_rule_holds(world):
    world.declare(entry(), entry("strict", misfire="skip"))
    await world.tick()
    world.stopped = True
    world.clock.advance(hours=3, minutes=30)
    assert await world.tick() == 0
    assert world.jobs() == []
    world.stopped = False
    await world.tick()
    assert world.started() == ["2026-03-01T15:00:00Z"]
    assert world.started("strict") == []
    assert world.runs("strict")[0].slots == 3


# Overlaps


async def two_slots(world, overlap):
    world.declare(entry(overlap=overlap))
    await world.tick()
    for _ in range(3):
        world.clock.advance(hours=1)
        await world.tick()


async def test_overlap_skip_leaves_a_row_with_the_reason(world):
    await two_slots(world, "skip")
    assert [(run.state, run.slots) for run in world.runs()] == [("STARTED", 1), ("SKIPPED", 2)]
    skipped = world.runs()[1]
    assert skipped.reason == "the previous run has not finished"
    assert (skipped.first_slot, skipped.scheduled_at) == ("2026-03-01T14:00:00Z", "2026-03-01T15:00:00Z")
    world.finish()
    world.clock.advance(hours=1)
    await world.tick()
    assert len(world.jobs()) == 2


async def test_overlap_queue_one_queues_one_and_starts_it_when_the_first_is_over(world):
    await two_slots(world, "queue_one")
    assert [run.state for run in world.runs()] == ["STARTED", "QUEUED", "SKIPPED"]
    pending = world.db.reader.execute("SELECT count(*) FROM wakeup_events WHERE status = 'PENDING'").fetchone()[0]
    assert pending == 1
    world.finish()
    await world.tick()
    assert [run.state for run in world.runs()] == ["ENDED", "STARTED", "SKIPPED"]
    assert world.runs()[1].reason == ""
    job = load_job(world.db.reader, world.runs()[1].job_id)
    assert job.spec.inputs["schedule_run"]["lateness_seconds"] >= 3600


async def test_overlap_allow_runs_side_by_side(world):
    await two_slots(world, "allow")
    assert [run.state for run in world.runs()] == ["STARTED"] * 3
    assert len(world.jobs()) == 3


async def test_overlap_replace_calls_the_running_job_off(world):
    await two_slots(world, "replace")
    states = [load_job(world.db.reader, job_id).state for job_id in world.jobs()]
    assert states == ["CANCELLED", "CANCELLED", "RECEIVED"]
    assert [run.outcome for run in world.runs()] == ["CANCELLED", "CANCELLED", None]
    assert world.withdrawn == world.jobs()[:2]
    assert world.row().failures == 0


async def test_a_queued_run_of_a_schedule_that_was_disabled_never_starts(world):
    await two_slots(world, "queue_one")
    world.declare(entry(overlap="queue_one", enabled=False))
    world.finish()
    await world.tick()
    assert [run.state for run in world.runs()] == ["ENDED", "SKIPPED", "SKIPPED"]


# Ends


def settled(world):
    """What the audit tells of runs that are settled, oldest first."""
    told = sorted(world.events("schedule_run_settled", "s"), key=lambda event: event["run_instance_id"])
    assert {event["schedule_id"] for event in told} <= {"s"}
    return [(event["run_instance_id"], event["outcome"], event["job_id"]) for event in told]


@pytest.mark.parametrize("state", ["DONE", "FAILED", "DENIED", "CANCELLED", "TIMED_OUT"])
async def test_the_end_of_a_run_is_reported_once_with_its_outcome_and_its_job(world, state):
    world.declare(entry())
    await world.tick()
    world.clock.advance(hours=1)
    await world.tick()
    (run,) = world.runs()
    assert settled(world) == []
    world.finish(state=state)
    assert settled(world) == []
    await world.tick()
    await world.tick()
    assert settled(world) == [(run.run_instance_id, state, run.job_id)]


async def test_runs_that_make_way_or_never_start_are_told_as_settled_too(world):
    await two_slots(world, "replace")
    first, second, _ = world.runs()
    cancelled = [(run.run_instance_id, "CANCELLED", run.job_id) for run in (first, second)]
    assert settled(world) == cancelled


async def test_a_queued_run_that_is_dropped_is_reported_with_the_reason(world):
    await two_slots(world, "queue_one")
    world.declare(entry(overlap="queue_one", enabled=False))
    await world.tick()
    queued = world.runs()[1]
    assert settled(world) == [(queued.run_instance_id, "SKIPPED", None)]
    (event,) = world.events("schedule_run_settled", "s")
    assert event["reason"] == "its schedule no longer runs"


async def test_a_run_and_the_word_that_it_is_settled_are_one_commit(world):
    world.declare(entry())
    await world.tick()
    world.clock.advance(hours=1)
    await world.tick()
    world.finish()
    world.db.write_now(
        lambda tx: tx.execute(
            "CREATE TRIGGER no_room BEFORE INSERT ON audit_log WHEN NEW.event_type = 'schedule_run_settled'"
            " BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    )
    with pytest.raises(Exception, match="no room"):
        await world.tick()
    assert [run.state for run in world.runs()] == ["STARTED"]
    world.db.write_now(lambda tx: tx.execute("DROP TRIGGER no_room"))
    await world.tick()
    assert [run.state for run in world.runs()] == ["ENDED"]
    assert len(settled(world)) == 1


# Failures


async def failing(world, times, state="FAILED"):
    for _ in range(times):
        world.clock.advance(hours=1)
        await world.tick()
        world.finish(state=state)
    await world.tick()


async def test_failures_in_a_row_pause_it_with_a_notice_where_the_owner_looks(world):
    world.declare(entry(max_failures=3))
    await world.tick()
    await failing(world, 2)
    assert world.row().paused_reason is None
    await failing(world, 1, "TIMED_OUT")
    row = world.row()
    assert "3 runs failed in a row" in row.paused_reason
    assert row.next_run_utc is None
    (event,) = world.events("schedule_paused", "s")
    assert event["reason"] == row.paused_reason
    (notice,) = recent_messages(world.db.reader, "schedule_s", 5)
    assert "schedule enable s" in notice.content
    world.clock.advance(days=2)
    assert await world.tick() == 0


async def test_a_success_or_a_cancelled_job_does_not_count_against_it(world):
    world.declare(entry(max_failures=2))
    await world.tick()
    await failing(world, 1)
    await failing(world, 1, "DONE")
    await failing(world, 1)
    await failing(world, 1, "CANCELLED")
    assert world.row().failures == 1
    assert world.row().paused_reason is None


async def test_zero_never_pauses_and_a_changed_timing_ends_a_pause(world):
    world.declare(entry(max_failures=0))
    await world.tick()
    await failing(world, 8)
    assert world.row().paused_reason is None
    world.declare(entry(max_failures=1))
    await failing(world, 1)
    assert world.row().paused_reason is not None
    world.declare(entry(max_failures=1, cron="30 * * * *"))
    await world.tick()
    assert (world.row().paused_reason, world.row().failures) == (None, 0)


# What is declared


async def test_a_change_of_the_timing_counts_from_now_and_any_other_leaves_the_next_run(world):
    world.declare(entry())
    await world.tick()
    world.clock.advance(hours=5)
    world.declare(entry(misfire="run_all", job_spec={"intent": "other"}))
    assert await world.tick() == 5
    world.clock.advance(hours=5)
    world.declare(entry(cron="30 * * * *", misfire="run_all"))
    assert await world.tick() == 0
    assert world.row().next_run_utc == "2026-03-01T22:30:00Z"


async def test_what_was_changed_between_the_look_and_the_claim_is_not_run_by_the_old_rules(world):
    world.declare(entry(overlap="allow"))
    await world.tick()
    stale = world.row()
    world.clock.advance(hours=1)
    world.declare(entry(overlap="allow", enabled=False))
    await world.dispatcher._sync.take_over()
    assert await world.dispatcher._dispatch([stale], world.clock.now) == 0
    assert world.jobs() == []
    assert world.row().next_run_utc is None


async def test_disabling_and_enabling_does_not_catch_up(world):
    world.declare(entry(enabled=False))
    await world.tick()
    world.clock.advance(days=3)
    world.declare(entry())
    assert await world.tick() == 0
    assert world.row().next_run_utc == "2026-03-04T13:00:00Z"


async def test_the_stagger_shifts_the_start_and_never_the_slot(world):
    world.declare(entry(stagger="40m"))
    await world.tick()
    row = world.row()
    due = from_stamp(row.due_at)
    assert from_stamp(row.next_run_utc) < due < from_stamp(row.next_run_utc) + timedelta(minutes=40)
    world.clock.now = due - timedelta(seconds=1)
    assert await world.tick() == 0
    world.clock.now = due
    assert await world.tick() == 1
    assert world.runs()[0].run_instance_id == "s:2026-03-01T13:00:00Z"
    assert world.runs()[0].lateness_seconds == 0


async def test_a_broken_file_keeps_the_last_good_schedules_and_says_so_once_in_the_audit(world):
    world.declare(entry())
    await world.tick()
    world.file(b'{"version": 1,\n "jobs": [{"job_id": 7}]}')
    world.clock.advance(hours=1)
    assert await world.tick() == 1
    world.restart()
    await world.tick()
    (event,) = world.events("schedule_registry_broken")
    assert "line 2, column 22" in event["faults"][0]
    assert [name for name, _ in world.said].count("schedule_registry_broken") == 2
    world.declare(entry())
    await world.tick()
    assert len(world.events("schedule_registry_mended")) == 1
    assert world.row().next_run_utc == "2026-03-01T14:00:00Z"


async def test_a_file_that_is_gone_or_holds_untrusted_content_stops_nothing_and_starts_nothing(world):
    world.declare(entry())
    await world.tick()
    world.file(None)
    await world.tick()
    assert world.row() is not None
    world.declare(entry(), entry("evil"))
    world.registry["labels"] = ("untrusted:mail",)
    await world.tick()
    assert world.row("evil") is None
    assert "untrusted:mail" in str(world.events("schedule_registry_broken")[-1])


async def test_an_entry_that_is_taken_out_goes_and_one_that_comes_back_does_not_run_a_slot_again(world):
    world.declare(entry())
    await world.tick()
    world.clock.advance(hours=1)
    await world.tick()
    world.declare()
    await world.tick()
    assert world.row() is None
    world.clock.now -= timedelta(minutes=5)
    world.declare(entry())
    await world.tick()
    world.clock.advance(minutes=6)
    await world.tick()
    assert world.started() == ["2026-03-01T13:00:00Z"]


# Clocks


async def test_a_clock_that_jumps_back_runs_nothing_twice(world):
    world.declare(entry(overlap="allow"))
    await world.tick()
    world.clock.advance(hours=3)
    await world.tick()
    before = world.started()
    world.clock.now -= timedelta(hours=2)
    await world.tick()
    world.clock.advance(hours=2)
    await world.tick()
    started = world.started()
    assert len(started) == len(set(started))
    assert set(before) <= set(started)


async def test_a_clock_that_ran_years_ahead_does_not_silence_a_schedule_for_years(world):
    world.declare(entry(overlap="allow"))
    await world.tick()
    right = world.clock.now
    world.clock.advance(days=4000)
    await world.tick()
    world.clock.now = right
    world.restart()
    await world.tick()
    assert world.row().next_run_utc == "2026-03-01T13:00:00Z"
    assert world.events("schedules_recounted")[0]["why"] == "clock"
    world.clock.advance(hours=1)
    assert await world.tick() == 1


async def test_other_rules_about_zones_count_the_next_run_again_and_lose_no_slot(world):
    world.declare(entry(cron="0 17 * * *", timezone="America/Los_Angeles"))
    await world.tick()
    assert world.row().next_run_utc == "2026-03-02T01:00:00Z"
    world.db.write_now(
        lambda tx: tx.execute(
            "UPDATE schedules SET tzdata_version = '1999a', next_run_utc = '2026-03-02T05:00:00Z',"
            " due_at = '2026-03-02T05:00:00.000Z'"
        )
    )
    world.clock.advance(hours=14)
    world.restart()
    await world.tick()
    assert world.started() == ["2026-03-02T01:00:00Z"]
    assert world.row().tzdata_version != "1999a"
    assert world.events("schedules_recounted")[0]["why"] == "tzdata"


async def test_a_row_that_cannot_be_read_pauses_and_the_others_continue(world):
    world.declare(entry(), entry("other"))
    await world.tick()
    world.db.write_now(lambda tx: tx.execute("UPDATE schedules SET payload_json = '{}' WHERE schedule_id = 's'"))
    world.clock.advance(hours=1)
    assert await world.tick() == 1
    assert world.started("other") == ["2026-03-01T13:00:00Z"]
    paused = world.db.reader.execute("SELECT paused_reason FROM schedules WHERE schedule_id = 's'").fetchone()[0]
    assert "cannot be read" in paused


async def test_a_zone_that_the_rules_no_longer_know_pauses_it(world):
    world.declare(entry(), entry("other"))
    await world.tick()
    world.db.write_now(lambda tx: tx.execute("UPDATE schedules SET timezone = 'Gone/Zone' WHERE schedule_id = 's'"))
    world.clock.advance(hours=1)
    assert await world.tick() == 1
    assert "Gone/Zone" in world.row().paused_reason


# By hand


async def test_run_now_starts_a_run_of_its_own_and_leaves_the_next_one(world):
    world.declare(entry())
    await world.tick()
    before = world.row()
    first = await world.dispatcher.run_now("s")
    second = await world.dispatcher.run_now("s")
    assert first.run_instance_id != second.run_instance_id
    assert [run.cause for run in world.runs()] == ["manual", "manual"]
    assert len(world.jobs()) == 2
    assert world.row() == before
    with pytest.raises(UsageError):
        await world.dispatcher.run_now("nothing")


async def test_a_run_of_an_sop_makes_a_job_that_names_it(world):
    world.declare(entry(sop="daily-check", job_spec=None))
    await world.tick()
    world.clock.advance(hours=1)
    await world.tick()
    job = load_job(world.db.reader, world.jobs()[0])
    assert job.spec.inputs["sop"] == "daily-check"
    assert read_checkpoint(job.checkpoint).inherited == ()
