"""Slots on record: what is written down of a slot that is run, skipped or settled, and how the audit tells it."""

import msgspec

from coilclaw.features.schedules.store.schedule_runs import (
    Cause,
    RunRow,
    claim_run,
    complete_wakeup,
    end_run,
    extend_skip,
    run_id,
    skip_run,
)
from coilclaw.features.schedules.timetable import Told
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import Clock
from coilclaw.packets.job import JobState
from coilclaw.store.tx import Tx


def run_of(schedule_id: str, at: str, cause: Cause, late: int, told: Told) -> RunRow:
    """A slot as a run, with the schedule in words as it is now."""
    return RunRow(
        run_instance_id=run_id(schedule_id, at),
        schedule_id=schedule_id,
        scheduled_at=at,
        cause=cause,
        state="STARTED",
        lateness_seconds=late,
        first_slot=at,
        cron_summary=told.cron_summary,
        cron_notes=told.cron_notes,
        next_runs={"next_runs_utc": list(told.next_runs_utc), "next_runs_local": list(told.next_runs_local)},
    )


def skip(tx: Tx, clock: Clock, run: RunRow, reason: str, *, after: str = "") -> int:
    """Write down that a slot is not run, once. `after` is the slot right before it: if that was skipped for the same
    reason, they share a row, and the audit hears of it only when their number has doubled."""
    run = msgspec.structs.replace(run, state="SKIPPED", reason=reason)
    shared = extend_skip(tx, run, after) if after else None
    if shared is None and not claim_run(tx, clock, run):
        return 0
    row = shared or run
    if shared is None or row.slots.bit_length() > (row.slots - run.slots).bit_length():
        more: dict[str, Json] = {"reason": reason, "slots": row.slots, "first_slot": row.first_slot}
        add_event(tx, clock, "schedule_skipped", run.schedule_id, {**story(run), **more})
    return 1


def settle(tx: Tx, clock: Clock, run: RunRow, outcome: JobState) -> bool:
    """Write down how a started run ended; False when somebody did before."""
    if not end_run(tx, run.run_instance_id, outcome):
        return False
    _settled(tx, clock, run, {"outcome": outcome})
    return True


def drop(tx: Tx, clock: Clock, run: RunRow, reason: str) -> None:
    """Write down that a run which waited will not be."""
    skip_run(tx, run.run_instance_id, reason)
    _settled(tx, clock, run, {"outcome": "SKIPPED", "reason": reason})


def _settled(tx: Tx, clock: Clock, run: RunRow, more: dict[str, Json]) -> None:
    """A run is final; its event is published with the row."""
    complete_wakeup(tx, run.run_instance_id)
    about: dict[str, Json] = {"schedule_id": run.schedule_id, "run_instance_id": run.run_instance_id}
    add_event(tx, clock, "schedule_run_settled", run.schedule_id, {**about, "job_id": run.job_id, **more})


def story(run: RunRow) -> dict[str, Json]:
    """A run as the audit tells it: the schedule in words and its next runs, as they were at that time."""
    return {
        "run_instance_id": run.run_instance_id,
        "scheduled_at": run.scheduled_at,
        "cause": run.cause,
        "lateness_seconds": run.lateness_seconds,
        "cron_summary": run.cron_summary,
        "cron_notes": run.cron_notes,
        **run.next_runs,
    }
