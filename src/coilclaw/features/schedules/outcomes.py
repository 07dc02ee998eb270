"""How runs ended: failures in a row pause a schedule, and that is said where the owner looks."""

from collections.abc import Callable, Sequence

import msgspec

from coilclaw.features.schedules.run_log import settle
from coilclaw.features.schedules.store.schedule_runs import RunRow
from coilclaw.features.schedules.store.schedules import (
    RowBroken,
    delete_schedule,
    load_schedule,
    origin_of,
    pause,
    put_schedule,
    set_failures,
)
from coilclaw.features.schedules.timetable import counted
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import Clock, new_id
from coilclaw.packets.job import JobState
from coilclaw.store.threads import MessageRow, add_message, ensure_thread
from coilclaw.store.tx import Tx

FAILED: frozenset[JobState] = frozenset({"FAILED", "TIMED_OUT", "DENIED"})
"""Ends that count against a schedule. A job that the owner called off does not."""


def thread_of(schedule_id: str) -> str:
    """The conversation in which a schedule's notices stand."""
    return f"schedule_{schedule_id}"


def note_ends(
    tx: Tx,
    clock: Clock,
    ended: Sequence[tuple[RunRow, JobState]],
    say: Callable[[str, dict[str, Json]], None],
) -> int:
    """Note how runs ended, each once; a follow-up that ran is forgotten, a schedule that keeps failing pauses."""
    done = 0
    for run, state in ended:
        if not settle(tx, clock, run, state):
            continue
        done += 1
        if origin_of(tx, run.schedule_id) == "followup":
            delete_schedule(tx, run.schedule_id)
            continue
        try:
            row = load_schedule(tx, run.schedule_id)
        except RowBroken:  # it is paused when it comes due; that the run is over is noted all the same
            row = None
        if row is None:
            continue
        if state == "DONE" and row.failures:
            set_failures(tx, row.schedule_id, 0)
        elif state in FAILED:
            failures = row.failures + 1
            set_failures(tx, row.schedule_id, failures)
            if row.paused_reason is None and 0 < row.options.max_failures <= failures:
                reason = f"{failures} runs failed in a row; the last was job {run.job_id} ({state})"
                pause_loudly(tx, clock, row.schedule_id, reason)
                say("schedule_paused", {"schedule_id": row.schedule_id, "reason": reason})
    return done


def pause_loudly(tx: Tx, clock: Clock, schedule_id: str, reason: str) -> None:
    """Pause a schedule, with an audit event and a word in its conversation."""
    pause(tx, clock, schedule_id, reason)
    add_event(tx, clock, "schedule_paused", schedule_id, {"reason": reason})
    thread_id = thread_of(schedule_id)
    ensure_thread(tx, clock, thread_id, "schedule", f"Schedule {schedule_id}")
    text = f"Schedule {schedule_id} is paused: {reason}. `coilclaw schedule enable {schedule_id}` lets it run again."
    notice = MessageRow(
        message_id=new_id("msg", clock()),
        thread_id=thread_id,
        turn_id=f"turn_{schedule_id}",
        role="system",
        content=text,
        label=INTERNAL,
        metadata={"schedule_id": schedule_id},
    )
    add_message(tx, clock, notice)


def end_pause(tx: Tx, clock: Clock, schedule_id: str, by: str = "cli") -> bool:
    """Let a paused schedule run again, counted from now; says whether it was paused."""
    row = load_schedule(tx, schedule_id)
    if row is None or row.paused_reason is None:
        return False
    awake = msgspec.structs.replace(row, paused_reason=None, failures=0)
    put_schedule(tx, clock, counted(awake, clock()))
    add_event(tx, clock, "schedule_enabled", schedule_id, {"after": row.declared_hash, "was": "paused", "by": by})
    return True
