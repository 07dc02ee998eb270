"""Schedule rows: guarded moves, the partial index, and what nobody may write."""

import sqlite3

import msgspec
import pytest

from coilclaw.features.schedules.store.schedule_runs import (
    RunRow,
    add_wakeup,
    claim_run,
    end_run,
    open_runs,
    recent_runs,
    run_id,
)
from coilclaw.features.schedules.store.schedules import (
    Advance,
    JobPayload,
    ScheduleRow,
    advance,
    delete_schedule,
    due_schedules,
    list_schedules,
    load_schedule,
    pause,
    put_schedule,
    set_next,
)

NEXT = "2026-03-01T13:00:00Z"
DUE = "2026-03-01T13:00:00.000Z"
LATE = "2026-03-01T13:00:01.000Z"


def schedule(name="s", **more):
    fields = {
        "schedule_id": name,
        "origin": "registry",
        "trigger_type": "cron",
        "trigger_config": {"cron": "0 * * * *"},
        "payload": JobPayload(intent="do it"),
        "timezone": "UTC",
        "enabled": True,
        "counted_from": "2026-03-01T12:00:00Z",
        "next_run_utc": NEXT,
        "due_at": DUE,
    }
    return ScheduleRow(**{**fields, **more})


def put(db, clock, *rows):
    db.write_now(lambda tx: [put_schedule(tx, clock, row) for row in rows])


TO = Advance(
    counted_from=NEXT, next_run_utc="2026-03-01T14:00:00Z", due_at="2026-03-01T14:00:00.000Z", tzdata_version="2026f"
)


def test_a_row_comes_back_as_it_was_stored(db, clock):
    row = schedule(labels=("untrusted:a",), failures=2, thread_id="conv_1")
    put(db, clock, row)
    kept = load_schedule(db.reader, "s")
    assert msgspec.structs.replace(kept, created_at="", updated_at="") == row
    assert load_schedule(db.reader, "other") is None


def test_storing_again_changes_all_but_when_it_was_made(db, clock):
    put(db, clock, schedule())
    made = load_schedule(db.reader, "s").created_at
    put(db, clock, schedule(timezone="Europe/Berlin", created_at="2000-01-01T00:00:00.000Z"))
    kept = load_schedule(db.reader, "s")
    assert (kept.timezone, kept.created_at) == ("Europe/Berlin", made)


def test_only_what_may_run_comes_due_the_longest_due_first(db, clock):
    put(
        db, clock, schedule("b"), schedule("a", due_at="2026-03-01T12:30:00.000Z"), schedule("off", enabled=False),
        schedule("paused", paused_reason="x"), schedule("never", due_at=None, next_run_utc=None),
        schedule("later", due_at="2026-03-01T15:00:00.000Z"),
    )  # fmt: skip
    found, broken = due_schedules(db.reader, LATE, 10)
    assert [row.schedule_id for row in found] == ["a", "b"]
    assert broken == []


def test_looking_for_what_is_due_uses_the_partial_index(db):
    for query in (
        "SELECT schedule_id FROM schedules WHERE enabled = 1 AND paused_reason IS NULL AND due_at <= 'x'",
        "SELECT min(due_at) FROM schedules WHERE enabled = 1 AND paused_reason IS NULL AND due_at IS NOT NULL",
    ):
        plan = " ".join(str(row[3]) for row in db.reader.execute(f"EXPLAIN QUERY PLAN {query}"))
        assert "schedules_due" in plan
    plan = db.reader.execute(
        "EXPLAIN QUERY PLAN SELECT DISTINCT schedule_id FROM schedule_runs"
        " WHERE state IN ('QUEUED', 'STARTED') AND state = 'QUEUED'"
    ).fetchall()
    assert "schedule_runs_open" in str(plan)


def test_a_schedule_is_moved_on_only_from_where_it_was_read(db, clock):
    put(db, clock, schedule())
    row = load_schedule(db.reader, "s")
    assert db.write_now(lambda tx: advance(tx, clock, row, TO))
    assert not db.write_now(lambda tx: advance(tx, clock, row, TO))
    assert not db.write_now(lambda tx: set_next(tx, row, TO))
    assert load_schedule(db.reader, "s").next_run_utc == "2026-03-01T14:00:00Z"


def test_what_was_changed_or_paused_meanwhile_is_not_moved(db, clock):
    put(db, clock, schedule("edited", declared_hash="a"), schedule("paused"))
    edited, paused = load_schedule(db.reader, "edited"), load_schedule(db.reader, "paused")
    put(db, clock, msgspec.structs.replace(edited, declared_hash="b"))
    db.write_now(lambda tx: pause(tx, clock, "paused", "why"))
    assert not db.write_now(lambda tx: advance(tx, clock, edited, TO))
    assert not db.write_now(lambda tx: advance(tx, clock, paused, TO))


def test_a_slot_is_claimed_once(db, clock):
    run = RunRow(run_instance_id=run_id("s", NEXT), schedule_id="s", scheduled_at=NEXT, cause="due", state="STARTED")
    assert db.write_now(lambda tx: claim_run(tx, clock, run))
    assert not db.write_now(lambda tx: claim_run(tx, clock, run))
    assert [each.run_instance_id for each in open_runs(db.reader, "s")] == [f"s:{NEXT}"]
    assert db.write_now(lambda tx: end_run(tx, run.run_instance_id, "DONE"))
    assert not db.write_now(lambda tx: end_run(tx, run.run_instance_id, "FAILED"))
    assert open_runs(db.reader, "s") == []
    assert recent_runs(db.reader, "s", 5)[0].outcome == "DONE"


def test_removing_a_schedule_takes_its_wakeups_and_leaves_its_runs(db, clock):
    put(db, clock, schedule())
    run = RunRow(run_instance_id=run_id("s", NEXT), schedule_id="s", scheduled_at=NEXT, cause="due", state="STARTED")

    def write(tx):
        claim_run(tx, clock, run)
        add_wakeup(tx, run, JobPayload(intent="do it"), status="LEASED", until=None)

    db.write_now(write)
    assert db.write_now(lambda tx: delete_schedule(tx, "s"))
    assert list_schedules(db.reader, "registry") == ([], [])
    assert len(recent_runs(db.reader, "s", 5)) == 1


def test_the_table_refuses_what_nobody_knows(db, clock):
    put(db, clock, schedule())
    for column, value in (("origin", "elsewhere"), ("trigger_type", "sometimes")):
        with pytest.raises(sqlite3.IntegrityError):
            db.write_now(lambda tx, c=column, v=value: tx.execute(f"UPDATE schedules SET {c} = ?", (v,)))
