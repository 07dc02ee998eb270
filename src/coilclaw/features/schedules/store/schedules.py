"""Schedule rows: what is declared, when it comes due next. Only the dispatcher's claim and a change of what is
declared move the next run; nothing that merely looks ever does."""

import sqlite3
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from coilclaw.packets.action import Label
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import RowDamaged
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.job import Constraints, Outputs
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.threads import OWNER_ID, ensure_owner
from coilclaw.store.tx import Tx

Origin: TypeAlias = Literal["registry", "followup"]
TriggerType: TypeAlias = Literal["cron", "interval", "at"]
Misfire: TypeAlias = Literal["run_once", "run_all", "skip"]
Overlap: TypeAlias = Literal["skip", "queue_one", "allow", "replace"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What happens when a slot was missed, when runs would overlap, and when they fail."""

    misfire: Misfire = "run_once"
    catch_up_seconds: int | None = 86_400
    """How late a missed slot may still be run; None is any time."""
    overlap: Overlap = "skip"
    stagger_seconds: int = 0
    max_failures: int = 5
    """Failures in a row after which it pauses; 0 is never."""


class JobPayload(msgspec.Struct, frozen=True, kw_only=True, tag="job", tag_field="kind"):
    """A run makes a job."""

    intent: str
    inputs: dict[str, Json] = {}
    constraints: Constraints = Constraints()
    outputs: Outputs = Outputs()
    generation: int = 0
    """Of the job to be; only follow-ups have one."""
    parent_id: str | UnsetType = UNSET
    """The job that planned it; only follow-ups of jobs have one."""
    project: str | UnsetType = UNSET
    """The name of the project that runs work in. Left out where there is none, so that older hashes hold."""


class SopPayload(msgspec.Struct, frozen=True, kw_only=True, tag="sop", tag_field="kind"):
    """A run makes a job that follows an SOP."""

    sop: str
    inputs: dict[str, Json] = {}
    constraints: Constraints = Constraints()
    outputs: Outputs = Outputs()
    project: str | UnsetType = UNSET
    """The name of the project that runs work in."""


Payload: TypeAlias = JobPayload | SopPayload


def project_name(payload: Payload) -> str | None:
    """The project that runs work in; None for the workspace."""
    return payload.project or None


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as stored."""

    schedule_id: str
    origin: Origin
    trigger_type: TriggerType
    trigger_config: dict[str, Json]
    payload: Payload
    timezone: str
    enabled: bool
    options: Options = Options()
    declared_hash: str = ""
    timing_hash: str = ""
    counted_from: str = ""
    next_run_utc: str | None = None
    due_at: str | None = None
    tzdata_version: str = ""
    failures: int = 0
    paused_reason: str | None = None
    thread_id: str = ""
    labels: tuple[Label, ...] = ()
    created_at: str = ""
    updated_at: str = ""

    @property
    def live(self) -> bool:
        """Whether it may come due at all."""
        return self.enabled and self.paused_reason is None


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """Where a schedule stands after a slot: what its next run is counted from, and that run."""

    counted_from: str
    next_run_utc: str | None
    due_at: str | None
    tzdata_version: str


_CONFIG = msgspec.json.Decoder(dict[str, Json])
_PAYLOAD: msgspec.json.Decoder[Payload] = msgspec.json.Decoder(Payload)
_OPTIONS = msgspec.json.Decoder(Options)
_LABELS = msgspec.json.Decoder(tuple[Label, ...])
_LIVE = "enabled = 1 AND paused_reason IS NULL"


class RowBroken(RowDamaged):
    """A row that cannot be read."""

    def __init__(self, schedule_id: str, why: str) -> None:
        super().__init__(
            f"the row of schedule {schedule_id} cannot be read: {why}.",
            remedy=f"`coilclaw schedule enable {schedule_id}` rewrites it from cron/jobs.json; a follow-up can only"
            f" be removed: `coilclaw schedule remove {schedule_id}`.",
        )
        self.schedule_id = schedule_id


def text_of(value: object) -> str:
    """How a struct stands in a column."""
    return msgspec.json.encode(value).decode()


class _Raw(NamedTuple):
    """A row as SQLite gives it; the table's own checks hold for the words in it."""

    schedule_id: str
    origin: Origin
    trigger_type: TriggerType
    trigger_config_json: str
    payload_json: str
    timezone: str
    enabled: int
    options_json: str
    declared_hash: str
    timing_hash: str
    counted_from: str
    next_run_utc: str | None
    due_at: str | None
    tzdata_version: str
    failures: int
    paused_reason: str | None
    thread_id: str
    labels_json: str
    created_at: str
    updated_at: str


_NAMES = _Raw._fields
_COLUMNS = ", ".join(_NAMES)


def _schedule(row: tuple[Any, ...]) -> ScheduleRow:
    raw = _Raw._make(row)
    try:
        return ScheduleRow(
            schedule_id=raw.schedule_id,
            origin=raw.origin,
            trigger_type=raw.trigger_type,
            trigger_config=_CONFIG.decode(raw.trigger_config_json),
            payload=_PAYLOAD.decode(raw.payload_json),
            timezone=raw.timezone,
            enabled=bool(raw.enabled),
            options=_OPTIONS.decode(raw.options_json),
            declared_hash=raw.declared_hash,
            timing_hash=raw.timing_hash,
            counted_from=raw.counted_from,
            next_run_utc=raw.next_run_utc,
            due_at=raw.due_at,
            tzdata_version=raw.tzdata_version,
            failures=raw.failures,
            paused_reason=raw.paused_reason,
            thread_id=raw.thread_id,
            labels=_LABELS.decode(raw.labels_json),
            created_at=raw.created_at,
            updated_at=raw.updated_at,
        )
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise RowBroken(raw.schedule_id, str(error)) from error


Sifted: TypeAlias = tuple[list[ScheduleRow], list[RowBroken]]
"""Rows, and apart from them those that cannot be read: one of these must not stop all the others."""


def _sifted(rows: sqlite3.Cursor) -> Sifted:
    found: list[ScheduleRow] = []
    broken: list[RowBroken] = []
    for row in rows.fetchall():
        try:
            found.append(_schedule(row))
        except RowBroken as error:
            broken.append(error)
    return found, broken


def put_schedule(tx: Tx, clock: Clock, row: ScheduleRow) -> ScheduleRow:
    """Store a schedule, new or changed."""
    now = stamp(clock())
    row = msgspec.structs.replace(row, created_at=row.created_at or now, updated_at=now)
    ensure_owner(tx, clock)
    changes = ", ".join(f"{name} = excluded.{name}" for name in _NAMES if name not in ("schedule_id", "created_at"))
    tx.execute(
        f"INSERT INTO schedules ({_COLUMNS}, user_id) VALUES ({', '.join('?' * (len(_NAMES) + 1))})"  # noqa: S608
        f" ON CONFLICT (schedule_id) DO UPDATE SET {changes}",
        (
            row.schedule_id,
            row.origin,
            row.trigger_type,
            text_of(row.trigger_config),
            text_of(row.payload),
            row.timezone,
            int(row.enabled),
            text_of(row.options),
            row.declared_hash,
            row.timing_hash,
            row.counted_from,
            row.next_run_utc,
            row.due_at,
            row.tzdata_version,
            row.failures,
            row.paused_reason,
            row.thread_id,
            text_of(row.labels),
            row.created_at,
            row.updated_at,
            OWNER_ID,
        ),
    )
    return row


def load_schedule(db: Tx, schedule_id: str) -> ScheduleRow | None:
    """One schedule by id."""
    row = db.execute(f"SELECT {_COLUMNS} FROM schedules WHERE schedule_id = ?", (schedule_id,)).fetchone()  # noqa: S608
    return None if row is None else _schedule(row)


def origin_of(db: Tx, schedule_id: str) -> Origin | None:
    """Where a schedule comes from, even if its row cannot be read; None if it does not exist."""
    row = db.execute("SELECT origin FROM schedules WHERE schedule_id = ?", (schedule_id,)).fetchone()
    return None if row is None else row[0]


def list_schedules(db: Tx, origin: Origin) -> Sifted:
    """Schedules of one origin, by id."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM schedules WHERE origin = ? ORDER BY schedule_id", (origin,))  # noqa: S608
    return _sifted(rows)


def schedules_after(db: Tx, origin: Origin, after: str, limit: int) -> tuple[list[ScheduleRow], list[str]]:
    """Schedules of one origin by id, from after one on, at most so many rows; and the ids of all those rows, also of
    those that cannot be read."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM schedules WHERE origin = ? AND schedule_id > ? ORDER BY schedule_id LIMIT ?",  # noqa: S608
        (origin, after, limit),
    ).fetchall()
    found: list[ScheduleRow] = []
    for row in rows:
        with suppress(RowBroken):
            found.append(_schedule(row))
    return found, [row[0] for row in rows]


def declared_hashes(db: Tx) -> dict[str, str]:
    """Each schedule's entry in the registry as it was last loaded."""
    rows = db.execute("SELECT schedule_id, declared_hash FROM schedules WHERE origin = 'registry'")
    return {row[0]: row[1] for row in rows}


def schedule_ids(db: Tx) -> list[str]:
    """Every id, for a did-you-mean."""
    return [row[0] for row in db.execute("SELECT schedule_id FROM schedules ORDER BY schedule_id")]


def delete_schedule(tx: Tx, schedule_id: str) -> bool:
    """Forget a schedule; what it ran stays on record."""
    tx.execute("DELETE FROM wakeup_events WHERE schedule_id = ?", (schedule_id,))
    return tx.execute("DELETE FROM schedules WHERE schedule_id = ?", (schedule_id,)).rowcount == 1


# When


def due_schedules(db: Tx, now: str, limit: int) -> Sifted:
    """Schedules whose time has come, the longest due first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM schedules WHERE {_LIVE} AND due_at <= ? ORDER BY due_at LIMIT ?",  # noqa: S608
        (now, limit),
    )
    return _sifted(rows)


def advance(tx: Tx, clock: Clock, row: ScheduleRow, to: Advance) -> bool:
    """Move a schedule on from the slot it stood at; False when it stands elsewhere by now."""
    changed = tx.execute(
        "UPDATE schedules SET counted_from = ?, next_run_utc = ?, due_at = ?, tzdata_version = ?, updated_at = ?"  # noqa: S608
        f" WHERE schedule_id = ? AND declared_hash = ? AND next_run_utc = ? AND counted_from = ? AND {_LIVE}",
        (
            to.counted_from,
            to.next_run_utc,
            to.due_at,
            to.tzdata_version,
            stamp(clock()),
            row.schedule_id,
            row.declared_hash,
            row.next_run_utc,
            row.counted_from,
        ),
    )
    return changed.rowcount == 1


def set_next(tx: Tx, row: ScheduleRow, to: Advance) -> bool:
    """Recompute a schedule's next run, unless it moved since it was read."""
    changed = tx.execute(
        "UPDATE schedules SET counted_from = ?, next_run_utc = ?, due_at = ?, tzdata_version = ?"
        " WHERE schedule_id = ? AND declared_hash = ? AND counted_from = ? AND next_run_utc IS ?",
        (
            to.counted_from,
            to.next_run_utc,
            to.due_at,
            to.tzdata_version,
            row.schedule_id,
            row.declared_hash,
            row.counted_from,
            row.next_run_utc,
        ),
    )
    return changed.rowcount == 1


def other_tzdata(db: Tx, version: str, limit: int) -> Sifted:
    """Schedules whose next run was counted with other rules about time zones."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM schedules WHERE {_LIVE} AND next_run_utc IS NOT NULL AND tzdata_version <> ?"  # noqa: S608
        " LIMIT ?",
        (version, limit),
    )
    return _sifted(rows)


def counted_ahead(db: Tx, now: str, limit: int) -> Sifted:
    """Schedules that were moved on by a clock that ran ahead."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM schedules WHERE {_LIVE} AND trigger_type <> 'at' AND counted_from > ? LIMIT ?",  # noqa: S608
        (now, limit),
    )
    return _sifted(rows)


def set_failures(tx: Tx, schedule_id: str, failures: int) -> None:
    """How many of its runs failed in a row."""
    tx.execute("UPDATE schedules SET failures = ? WHERE schedule_id = ?", (failures, schedule_id))


def pause(tx: Tx, clock: Clock, schedule_id: str, reason: str) -> None:
    """Let a schedule rest until the owner enables it again."""
    tx.execute(
        "UPDATE schedules SET paused_reason = ?, next_run_utc = NULL, due_at = NULL, updated_at = ?"
        " WHERE schedule_id = ?",
        (reason, stamp(clock()), schedule_id),
    )


def open_followups(db: Tx) -> int:
    """Follow-ups that are still to come."""
    row = db.execute("SELECT count(*) FROM schedules WHERE origin = 'followup' AND next_run_utc IS NOT NULL").fetchone()
    return int(row[0])


# What was taken over


def get_mark(db: Tx, name: str) -> str:
    """A word kept beside the schedules, such as which registry was taken over last; empty when there is none."""
    return read_meta(db, f"schedules.{name}") or ""


def set_mark(tx: Tx, name: str, value: str) -> None:
    """Keep such a word."""
    write_meta(tx, f"schedules.{name}", value)
