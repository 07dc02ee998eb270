"""Runs of schedules: every slot that came due, once, with what became of it."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from coilclaw.features.schedules.store.schedules import Payload, text_of
from coilclaw.packets.canonical import Json, canonical_bytes, sha256_hex
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.job import ENDED, JobState
from coilclaw.store.tx import Tx

RunState: TypeAlias = Literal["QUEUED", "STARTED", "ENDED", "SKIPPED"]
Cause: TypeAlias = Literal["due", "late", "manual"]
"""On time; caught up after it was missed; asked for by the owner."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run, or the slots of one time that were skipped together."""

    run_instance_id: str
    schedule_id: str
    scheduled_at: str
    cause: Cause
    state: RunState
    job_id: str | None = None
    outcome: JobState | None = None
    lateness_seconds: int = 0
    slots: int = 1
    first_slot: str = ""
    reason: str = ""
    cron_summary: str = ""
    cron_notes: str | None = None
    next_runs: dict[str, Json] = {}
    created_at: str = ""


def run_id(schedule_id: str, scheduled_at: str) -> str:
    """The name of a slot, the same for everybody who comes across it."""
    return f"{schedule_id}:{scheduled_at}"


def dedupe_key(schedule_id: str, scheduled_for: str, payload: Payload) -> str:
    """The key of a wake-up: sha256(schedule | time | hash of the payload)."""
    return sha256_hex(f"{schedule_id}|{scheduled_for}|{_payload_hash(msgspec.json.encode(payload))}".encode())


@lru_cache(maxsize=4096)
def _payload_hash(encoded: bytes) -> str:
    value: Json = msgspec.json.decode(encoded)
    return sha256_hex(canonical_bytes(value))


_NEXT = msgspec.json.Decoder(dict[str, Json])


class _Raw(NamedTuple):
    """A row as SQLite gives it; the table's own checks hold for the words in it."""

    run_instance_id: str
    schedule_id: str
    scheduled_at: str
    cause: Cause
    state: RunState
    job_id: str | None
    outcome: JobState | None
    lateness_seconds: int
    slots: int
    first_slot: str
    reason: str
    cron_summary: str
    cron_notes: str | None
    next_runs_json: str
    created_at: str


_COLUMNS = ", ".join(_Raw._fields)


def _run(row: Sequence[Any]) -> RunRow:
    raw = _Raw._make(row)
    return RunRow(
        run_instance_id=raw.run_instance_id,
        schedule_id=raw.schedule_id,
        scheduled_at=raw.scheduled_at,
        cause=raw.cause,
        state=raw.state,
        job_id=raw.job_id,
        outcome=raw.outcome,
        lateness_seconds=raw.lateness_seconds,
        slots=raw.slots,
        first_slot=raw.first_slot,
        reason=raw.reason,
        cron_summary=raw.cron_summary,
        cron_notes=raw.cron_notes,
        next_runs=_next_runs(raw.next_runs_json),
        created_at=raw.created_at,
    )


def _next_runs(text: str) -> dict[str, Json]:
    """They are only for reading: a run without them is a run."""
    try:
        return _NEXT.decode(text)
    except msgspec.DecodeError:
        return {}


def claim_run(tx: Tx, clock: Clock, run: RunRow) -> bool:
    """Write a run down; False when its slot was taken before, by whomever."""
    done = tx.execute(
        f"INSERT INTO schedule_runs ({_COLUMNS}) VALUES ({', '.join('?' * 15)}) ON CONFLICT DO NOTHING",  # noqa: S608
        (
            run.run_instance_id,
            run.schedule_id,
            run.scheduled_at,
            run.cause,
            run.state,
            run.job_id,
            run.outcome,
            run.lateness_seconds,
            run.slots,
            run.first_slot or run.scheduled_at,
            run.reason,
            run.cron_summary,
            run.cron_notes,
            text_of(run.next_runs),
            stamp(clock()),
        ),
    )
    return done.rowcount == 1


def extend_skip(tx: Tx, run: RunRow, after: str) -> RunRow | None:
    """Let a skipped slot share the row of the slot `after` right before it, if that was skipped for the same reason;
    the row as it is then, None when there is no such row. It bears the name of its last slot."""
    changed = tx.execute(
        "UPDATE schedule_runs SET run_instance_id = ?, scheduled_at = ?, lateness_seconds = ?, slots = slots + ?"
        " WHERE run_instance_id = ? AND state = 'SKIPPED' AND reason = ? AND job_id IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM schedule_runs WHERE run_instance_id = ?)",
        (
            run.run_instance_id,
            run.scheduled_at,
            run.lateness_seconds,
            run.slots,
            run_id(run.schedule_id, after),
            run.reason,
            run.run_instance_id,
        ),
    )
    if changed.rowcount != 1:
        return None
    select = f"SELECT {_COLUMNS} FROM schedule_runs WHERE run_instance_id = ?"  # noqa: S608
    return _run(tx.execute(select, (run.run_instance_id,)).fetchone())


def start_run(tx: Tx, run_instance_id: str, job_id: str) -> None:
    """The run's job was made."""
    tx.execute(
        "UPDATE schedule_runs SET state = 'STARTED', job_id = ?, reason = '' WHERE run_instance_id = ?",
        (job_id, run_instance_id),
    )


def skip_run(tx: Tx, run_instance_id: str, reason: str) -> None:
    """A run that will not be."""
    tx.execute(
        "UPDATE schedule_runs SET state = 'SKIPPED', reason = ? WHERE run_instance_id = ?", (reason, run_instance_id)
    )


def end_run(tx: Tx, run_instance_id: str, outcome: JobState) -> bool:
    """The run's job is over; False when somebody noted that before."""
    changed = tx.execute(
        "UPDATE schedule_runs SET state = 'ENDED', outcome = ? WHERE run_instance_id = ? AND state = 'STARTED'",
        (outcome, run_instance_id),
    )
    return changed.rowcount == 1


def open_runs(db: Tx, schedule_id: str) -> list[RunRow]:
    """Runs of a schedule that are queued or whose job is not over, oldest first; what is over counts at once."""
    marks = ", ".join("?" * len(ENDED))
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM schedule_runs r WHERE schedule_id = ? AND state IN ('QUEUED', 'STARTED')"  # noqa: S608
        f" AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = r.job_id AND j.state IN ({marks}))"
        " ORDER BY scheduled_at",
        (schedule_id, *sorted(ENDED)),
    )
    return [_run(row) for row in rows.fetchall()]


def busy_schedules(db: Tx) -> set[str]:
    """Schedules that may have a run which is queued or not over."""
    rows = db.execute("SELECT DISTINCT schedule_id FROM schedule_runs WHERE state IN ('QUEUED', 'STARTED')")
    return {row[0] for row in rows}


def ended_runs(db: Tx, limit: int) -> list[tuple[RunRow, JobState]]:
    """Started runs whose job is over by now, in the order in which they were over."""
    names = ", ".join(f"r.{name}" for name in _Raw._fields)
    marks = ", ".join("?" * len(ENDED))
    rows = db.execute(
        f"SELECT {names}, j.state FROM schedule_runs r JOIN jobs j ON j.job_id = r.job_id"  # noqa: S608
        f" WHERE r.state IN ('QUEUED', 'STARTED') AND r.state = 'STARTED' AND j.state IN ({marks})"
        " ORDER BY j.updated_at, r.scheduled_at LIMIT ?",
        (*sorted(ENDED), limit),
    ).fetchall()
    return [(_run(row[:-1]), msgspec.convert(row[-1], JobState)) for row in rows]


def queued_schedules(db: Tx) -> list[str]:
    """Schedules that have a run waiting for an earlier one."""
    rows = db.execute(
        "SELECT DISTINCT schedule_id FROM schedule_runs WHERE state IN ('QUEUED', 'STARTED') AND state = 'QUEUED'"
    )
    return [row[0] for row in rows.fetchall()]


def recent_runs(db: Tx, schedule_id: str, limit: int) -> list[RunRow]:
    """The last runs of a schedule, newest first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM schedule_runs WHERE schedule_id = ?"  # noqa: S608
        " ORDER BY created_at DESC, scheduled_at DESC LIMIT ?",
        (schedule_id, limit),
    )
    return [_run(row) for row in rows.fetchall()]


def runs_before(db: Tx, schedule_id: str, place: tuple[str, str] | None, limit: int) -> list[RunRow]:
    """Runs of a schedule, newest first, from below a place (its `created_at`, its `scheduled_at`) on."""
    before = "" if place is None else " AND (created_at, scheduled_at) < (?, ?)"
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM schedule_runs WHERE schedule_id = ?{before}"  # noqa: S608
        " ORDER BY created_at DESC, scheduled_at DESC LIMIT ?",
        (schedule_id, *(place or ()), limit),
    )
    return [_run(row) for row in rows.fetchall()]


def load_run(db: Tx, run_instance_id: str) -> RunRow | None:
    """One run by its name."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM schedule_runs WHERE run_instance_id = ?",  # noqa: S608
        (run_instance_id,),
    ).fetchone()
    return None if row is None else _run(row)


class LastRun(msgspec.Struct, frozen=True):
    """When the last run that made a job was, and how it stands."""

    at: str
    status: str


def last_started(db: Tx, schedule_id: str) -> LastRun | None:
    """The last run that made a job."""
    row = db.execute(
        "SELECT scheduled_at, coalesce(outcome, (SELECT j.state FROM jobs j WHERE j.job_id = r.job_id), r.state)"
        " FROM schedule_runs r WHERE schedule_id = ? AND job_id IS NOT NULL"
        " ORDER BY created_at DESC, scheduled_at DESC LIMIT 1",
        (schedule_id,),
    ).fetchone()
    return None if row is None else LastRun(row[0], row[1])


def ever_ran(db: Tx, schedule_id: str) -> bool:
    """Whether a schedule of that id has left any run."""
    found = db.execute("SELECT 1 FROM schedule_runs WHERE schedule_id = ? LIMIT 1", (schedule_id,)).fetchone()
    return found is not None


def slot_is_taken(db: Tx, schedule_id: str, slot: str) -> bool:
    """Whether a slot has its row."""
    name = run_id(schedule_id, slot)
    return db.execute("SELECT 1 FROM schedule_runs WHERE run_instance_id = ?", (name,)).fetchone() is not None


# Wake-ups


def add_wakeup(
    tx: Tx, run: RunRow, payload: Payload, *, status: Literal["PENDING", "LEASED"], until: str | None
) -> None:
    """Note that a slot is to be worked on: PENDING behind an earlier run, LEASED to its job until its deadline."""
    tx.execute(
        "INSERT INTO wakeup_events (event_id, schedule_id, scheduled_for, lease_until, status, dedupe_key)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            f"wake_{run.run_instance_id}",
            run.schedule_id,
            run.scheduled_at,
            until,
            status,
            dedupe_key(run.schedule_id, run.scheduled_at, payload),
        ),
    )


def lease_wakeup(tx: Tx, run_instance_id: str, until: str | None) -> None:
    """A wake-up that waited is its job's now."""
    tx.execute(
        "UPDATE wakeup_events SET status = 'LEASED', lease_until = ? WHERE event_id = ?",
        (until, f"wake_{run_instance_id}"),
    )


def complete_wakeup(tx: Tx, run_instance_id: str) -> None:
    """Mark a wake-up as finished."""
    tx.execute("UPDATE wakeup_events SET status = 'COMPLETED' WHERE event_id = ?", (f"wake_{run_instance_id}",))
