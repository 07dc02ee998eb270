"""Audit events: the queryable history alongside the receipts. Written in the caller's transaction, read in order."""

from typing import NamedTuple

import msgspec

from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.store.tx import Tx

PAGE = 500


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded event."""

    seq: int
    entry_id: str
    event_type: str
    entity_id: str
    payload: Json
    created_at: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for events; None matches anything."""

    event_type: str | None = None
    entity_id: str | None = None


def add_event(
    tx: Tx,
    clock: Clock,
    event_type: str,
    entity_id: str,
    payload: dict[str, Json],
    *,
    state: bytes | None = None,
) -> None:
    """Write one event in the caller's transaction. Payloads carry ids, codes and hashes, never content.

    `state` is the action's state after an event that changed it: the row must stay as it is until the next event.
    """
    now = clock()
    texts = (new_id("evt", now), event_type, entity_id, msgspec.json.encode(payload).decode(), stamp(now))
    tx.execute(
        "INSERT INTO audit_log (entry_id, event_type, entity_id, payload_json, created_at, state)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*texts, state),
    )


def audit_event(row: tuple[int, str, str, str, str, str]) -> AuditEvent:
    """An event from its row; a payload that is not JSON is returned as text."""
    try:
        payload: Json = msgspec.json.decode(row[4])
    except msgspec.DecodeError:
        payload = row[4]
    return AuditEvent(
        seq=row[0], entry_id=row[1], event_type=row[2], entity_id=row[3], payload=payload, created_at=row[5]
    )


COLUMNS = "seq, entry_id, event_type, entity_id, payload_json, created_at"


def _where(wanted: Wanted) -> tuple[str, list[str]]:
    """The query contains only the given conditions, so that an entity's events are found by index."""
    terms: list[str] = []
    values: list[str] = []
    for column, value in (("event_type", wanted.event_type), ("entity_id", wanted.entity_id)):
        if value is not None:
            terms.append(f" AND {column} = ?")
            values.append(value)
    return "".join(terms), values


def last_events(db: Tx, wanted: Wanted, limit: int) -> list[AuditEvent]:
    """The newest events, oldest first."""
    terms, values = _where(wanted)
    rows = db.execute(
        f"SELECT {COLUMNS} FROM audit_log WHERE seq > 0{terms} ORDER BY seq DESC LIMIT ?",  # noqa: S608
        (*values, limit),
    ).fetchall()
    return [audit_event(row) for row in reversed(rows)]


def events_after(db: Tx, wanted: Wanted, seq: int, limit: int, *, until: int = 1 << 62) -> list[AuditEvent]:
    """The events that follow a number, oldest first."""
    terms, values = _where(wanted)
    rows = db.execute(
        f"SELECT {COLUMNS} FROM audit_log WHERE seq > ? AND seq <= ?{terms} ORDER BY seq LIMIT ?",  # noqa: S608
        (seq, until, *values, limit),
    ).fetchall()
    return [audit_event(row) for row in rows]


class Told(NamedTuple):
    """An event for streams: its payload unparsed, and its conversation, if a row knows it."""

    seq: int
    event_type: str
    entity_id: str
    payload: str
    created_at: str
    thread_id: str


_TOLD = """
SELECT a.seq, a.event_type, a.entity_id, a.payload_json, a.created_at, coalesce(p.thread_id, j.thread_id, '')
FROM audit_log a
LEFT JOIN proposed_actions p ON p.action_id = a.entity_id
LEFT JOIN jobs j ON j.job_id = a.entity_id
WHERE a.seq > ? AND a.seq <= ? ORDER BY a.seq LIMIT ?
"""


def told_after(db: Tx, seq: int, limit: int, *, until: int) -> list[Told]:
    """The events that follow a number, oldest first, with their conversations."""
    return [Told(*row) for row in db.execute(_TOLD, (seq, until, limit)).fetchall()]


def change_mark(db: Tx) -> int:
    """A number that changes whenever any other connection, of any process, commits. Costs microseconds."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def last_number(db: Tx) -> int:
    """The number of the newest event. Numbers only grow, whatever is pruned."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'audit_log'").fetchone()
    return 0 if row is None else int(row[0])


class Follower:
    """Follows the events from a number on, each once, in order; events pruned meanwhile are skipped."""

    def __init__(self, db: Tx, wanted: Wanted, seq: int) -> None:
        self._db = db
        self._wanted = wanted
        self._seq = seq

    def next(self) -> list[AuditEvent]:
        """The next events, at most a page; empty if there are no new ones."""
        newest = last_number(self._db)  # looked up first: later writes belong to the next page
        events = events_after(self._db, self._wanted, self._seq, PAGE, until=newest)
        self._seq = events[-1].seq if len(events) == PAGE else max(self._seq, newest)
        return events
