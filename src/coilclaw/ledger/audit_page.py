"""Pages of audit events: forwards or backwards by number, within a time span, in bounded steps."""

from collections.abc import Iterator

import msgspec

from coilclaw.ledger.audit import COLUMNS, AuditEvent, audit_event, last_number
from coilclaw.store.tx import Tx

SCANNED = 20_000
"""How many numbers one page may scan; the rest is left to the next page."""
BATCH = 100
CHATTER = (
    "message_added",
    "turn_queued",
    "turn_started",
    "turn_waiting",
    "turn_ended",
    "notification_added",
    "job_step",
)
"""Routine events: those of every conversation, and those that only mirror others."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A time span; None means unbounded."""

    since: str | None = None
    until: str | None = None


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """The first and the last number to scan."""

    first: int
    last: int


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for events; None matches anything."""

    span: Span = Span()
    event_type: str | None = None
    entity_id: str | None = None
    quiet: bool = False
    """Exclude routine events."""

    def admits(self, row: tuple[int, str, str, str, str, str]) -> bool:
        """Whether a row matches."""
        _, _, event_type, entity_id, _, created_at = row
        return (
            (self.span.since or "") <= created_at < (self.span.until or "~")
            and self.event_type in (None, event_type)
            and self.entity_id in (None, entity_id)
            and not (self.quiet and event_type in CHATTER)
        )


def numbers_of(db: Tx, span: Span) -> Numbers:
    """The numbers between which the events of a time span are. A clock may have gone back: others may be among them."""
    if span.since is None and span.until is None:
        first = db.execute("SELECT min(seq) FROM audit_log").fetchone()[0]
        return Numbers(first=first or 1, last=last_number(db))
    found = db.execute(
        "SELECT min(seq), max(seq) FROM audit_log WHERE created_at >= ? AND created_at < ?",
        (span.since or "", span.until or "~"),
    ).fetchone()
    return Numbers(first=1, last=0) if found[0] is None else Numbers(first=found[0], last=found[1])


def events_back(db: Tx, sought: Sought, numbers: Numbers, limit: int) -> tuple[list[AuditEvent], Numbers | None]:
    """The newest matches, newest first, and the numbers left to scan; None if there are none."""
    first = numbers.first if sought.entity_id is not None else max(numbers.first, numbers.last - SCANNED + 1)
    events = _events(db, sought, Numbers(first=first, last=numbers.last), limit + 1, "DESC")
    if len(events) > limit:
        return events[:limit], Numbers(first=numbers.first, last=events[limit - 1].seq - 1)
    return events, Numbers(first=numbers.first, last=first - 1) if first > numbers.first else None


def events_on(db: Tx, sought: Sought, numbers: Numbers, limit: int) -> tuple[list[AuditEvent], Numbers | None]:
    """The oldest matches, oldest first, and the numbers left to scan; None if there are none."""
    last = numbers.last if sought.entity_id is not None else min(numbers.last, numbers.first + SCANNED - 1)
    events = _events(db, sought, Numbers(first=numbers.first, last=last), limit + 1, "ASC")
    if len(events) > limit:
        return events[:limit], Numbers(first=events[limit - 1].seq + 1, last=numbers.last)
    return events, Numbers(first=last + 1, last=numbers.last) if last < numbers.last else None


def _events(db: Tx, sought: Sought, numbers: Numbers, limit: int, order: str) -> list[AuditEvent]:
    terms = [
        ("event_type = ?", sought.event_type),
        ("entity_id = ?", sought.entity_id),
        ("+created_at >= ?", sought.span.since),
        ("+created_at < ?", sought.span.until),
    ]
    asked = [(term, value) for term, value in terms if value is not None]
    if sought.quiet:
        asked += [("event_type <> ?", each) for each in CHATTER]
    where = "".join(f" AND {term}" for term, _ in asked)
    rows = db.execute(
        f"SELECT {COLUMNS} FROM audit_log WHERE seq >= ? AND seq <= ?{where} ORDER BY seq {order} LIMIT ?",  # noqa: S608
        (numbers.first, numbers.last, *(value for _, value in asked), limit),
    ).fetchall()
    return [audit_event(row) for row in rows]


def rows_in(db: Tx, sought: Sought, numbers: Numbers) -> Iterator[list[tuple[int, str, str, str, str, str]]]:
    """The matching rows, oldest first, a few at a time; no query stays open in between."""
    place = numbers.first - 1
    while rows := db.execute(
        f"SELECT {COLUMNS} FROM audit_log WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",  # noqa: S608
        (place, numbers.last, BATCH),
    ).fetchall():
        place = rows[-1][0]
        yield [row for row in rows if sought.admits(row)]
