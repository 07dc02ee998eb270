"""The chain of audit events: each has a link over its predecessor's link and its whole row.

An event about an action contains the state of its row, so the chain binds the actions too. Events removed by retention
leave a gap that says so, with the link to continue from.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from coilclaw.ledger.vouch import mac_of, row_mac
from coilclaw.store.actions import action_state, keep_seal
from coilclaw.store.tx import Tx

START = bytes(32)
"""The link before the first event."""
ROW = (
    "seq, CAST(entry_id AS BLOB), CAST(event_type AS BLOB), CAST(entity_id AS BLOB), CAST(payload_json AS BLOB),"
    " CAST(created_at AS BLOB), state, link, mac"
)
"""The columns of an event, texts as raw bytes, in case they were damaged."""
_TEXTS = ("entry_id", "event_type", "entity_id", "payload_json", "created_at")


class EventRow(NamedTuple):
    """An event as stored in the database."""

    seq: int
    entry_id: bytes
    event_type: bytes
    entity_id: bytes
    payload: bytes
    created_at: bytes
    state: bytes | None
    link: bytes | None
    mac: bytes | None

    def link_after(self, previous: bytes) -> bytes:
        """The expected link."""
        return link_of(previous, self.seq, self[1:6], self.state)

    def follows(self, previous: bytes, key: bytes | None) -> bool:
        """Whether it is intact, written by this home, and follows that link. False may mean any fault."""
        if not previous or not isinstance(self.link, bytes):
            return False
        try:
            return self.link == self.link_after(previous) and (
                key is None or self.mac == mac_of(key, b"audit", self.link)
            )
        except TypeError:  # a column of the wrong type
            return False


def link_of(previous: bytes, seq: int, texts: Iterable[bytes], state: bytes | None) -> bytes:
    """The link of an event that follows another."""
    a, b, c, d, e = texts
    f = state or b""
    sizes = b"%d %d %d %d %d %d %d;" % (seq, len(a), len(b), len(c), len(d), len(e), len(f))
    return hashlib.sha256(b"".join((previous, sizes, a, b, c, d, e, f))).digest()


_LAST = """
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'audit_log'), 0), seq, link
FROM (SELECT 1) LEFT JOIN (SELECT seq, link FROM audit_log ORDER BY seq DESC LIMIT 1)
"""


def last_event(db: Tx) -> tuple[int, bytes]:
    """The number of the last event ever written, and the link to continue from."""
    ever, seq, link = db.execute(_LAST).fetchone()
    if int(ever) > int(seq or 0):  # the last ones were pruned
        gap = db.execute("SELECT link FROM audit_gaps WHERE last = ?", (ever,)).fetchone()
        link = link if gap is None else gap[0]
    return max(int(ever), int(seq or 0)), link if isinstance(link, bytes) else START


def link_events(tx: Tx, seq: int, previous: bytes) -> tuple[int, bytes]:
    """Link the events that this transaction added after a number, including those added by triggers.

    Returns the number and the link of the last event.
    """
    made: list[tuple[bytes, bytes | None, int]] = []
    for raw in tx.execute(f"SELECT {ROW} FROM audit_log WHERE seq > ? ORDER BY seq", (seq,)):  # noqa: S608
        row = EventRow(*raw)
        seq, previous = row.seq, row.link_after(previous)
        made.append((previous, row_mac(tx, b"audit", previous), seq))
    if made:
        tx.executemany("UPDATE audit_log SET link = ?, mac = ? WHERE seq = ?", made)
    return seq, previous


class Gap(NamedTuple):
    """Pruned events: their numbers, and the link of the last one."""

    first: int
    last: int
    link: bytes
    mac: bytes

    @property
    def stated(self) -> bytes:
        """The bytes that its MAC covers."""
        return b"%d %d " % (self.first, self.last) + self.link


def gaps_of(db: Tx) -> list[Gap]:
    """Every gap, in order."""
    return [Gap(*row) for row in db.execute("SELECT first, last, link, mac FROM audit_gaps ORDER BY first")]


def add_gap(tx: Tx, first: int, last: int, link: bytes) -> None:
    """Record that these events were pruned; adjacent gaps are merged."""
    before = tx.execute("SELECT first FROM audit_gaps WHERE last = ?", (first - 1,)).fetchone()
    after = tx.execute("SELECT last, link FROM audit_gaps WHERE first = ?", (last + 1,)).fetchone()
    tx.execute("DELETE FROM audit_gaps WHERE last = ? OR first = ?", (first - 1, last + 1))
    first = first if before is None else int(before[0])
    last, link = (last, link) if after is None else (int(after[0]), bytes(after[1]))
    stated = Gap(first, last, link, b"").stated
    tx.execute(
        "INSERT INTO audit_gaps (first, last, link, mac) VALUES (?, ?, ?, ?)",
        (first, last, link, row_mac(tx, b"gap", stated) or b""),
    )


def forget_events(tx: Tx, taken: list[tuple[int, str, bytes | None, bytes | None]]) -> None:
    """Record that events (number, entity, state, link) were pruned, and seal the actions they bound."""
    taken.sort()
    for _, run in groupby(enumerate(taken), key=lambda each: each[1][0] - each[0]):
        events = [event for _, event in run]
        add_gap(tx, events[0][0], events[-1][0], events[-1][3] or START)
    bound = {entity: state for _, entity, state, _ in taken if state is not None}
    for action_id, state in bound.items():
        kept = tx.execute(
            "SELECT 1 FROM audit_log WHERE entity_id = ? AND state IS NOT NULL LIMIT 1", (action_id,)
        ).fetchone()
        if kept is None and action_state(tx, action_id) == state:
            keep_seal(tx, action_id, row_mac(tx, b"action", action_id.encode() + state) or b"")


class Fault(NamedTuple):
    """One fault in the audit."""

    seq: int
    kind: str
    detail: str


def audit_faults(
    db: Tx, key: bytes | None, points: Mapping[int, str], *, after: int = 0, previous: bytes = START
) -> Iterator[Fault]:
    """Faults in the events after a number. `points`: signed links, by number."""
    gaps = {gap.first: gap for gap in gaps_of(db) if gap.last > after}
    yield from _gap_faults(gaps.values(), key)
    place, ever = after, last_event(db)[0]
    for raw in db.execute(f"SELECT {ROW} FROM audit_log WHERE seq > ? ORDER BY seq", (after,)):  # noqa: S608
        row = EventRow(*raw)
        if row.seq == place + 1 and row.seq not in points and row.follows(previous, key):
            place, previous = row.seq, row.link or b""
            continue
        while row.seq > place + 1:
            gap = gaps.pop(place + 1, None)
            if gap is None or gap.last >= row.seq:
                what = (
                    f"audit event {place + 1} is"
                    if row.seq == place + 2
                    else f"audit events {place + 1} to {row.seq - 1} are"
                )
                yield Fault(place + 1, "missing", f"{what} missing without having been pruned")
                place, previous = row.seq - 1, b""
                break
            place, previous = gap.last, gap.link
            yield from _point_fault(points, place, previous)
        yield from _row_faults(row, previous, key)
        place, previous = row.seq, row.link or b""
        yield from _point_fault(points, place, previous)
    while gap := gaps.pop(place + 1, None):
        place, previous = gap.last, gap.link
        yield from _point_fault(points, place, previous)
    if place < max(ever, *points, 0):
        yield Fault(
            place + 1, "truncated", f"the audit ends after event {place}, but there were {max(ever, *points, 0)}"
        )
    for gap in gaps.values():
        yield Fault(gap.first, "forged", f"audit events {gap.first} to {gap.last} are recorded as pruned but exist")


def _gap_faults(gaps: Iterable[Gap], key: bytes | None) -> Iterator[Fault]:
    for gap in gaps:
        if key is not None and gap.mac != mac_of(key, b"gap", gap.stated):
            yield Fault(
                gap.first,
                "forged",
                f"the record that audit events {gap.first} to {gap.last} were pruned was not written by this home",
            )


def _point_fault(points: Mapping[int, str], place: int, link: bytes) -> Iterator[Fault]:
    signed = points.get(place)
    if signed is not None and signed != link.hex():
        yield Fault(
            place, "forged", f"a signed head says that audit event {place} had a different link: history was rewritten"
        )


def _row_faults(row: EventRow, previous: bytes, key: bytes | None) -> Iterator[Fault]:
    if not all(isinstance(each, bytes) for each in (*row[1:6], row.link)):
        yield Fault(row.seq, "forged", f"audit event {row.seq} has no link: it was not written by this home")
    elif previous and row.link != row.link_after(previous):
        yield Fault(row.seq, "edited", f"audit event {row.seq} does not match its link")
    elif key is not None and (row.mac or b"") != mac_of(key, b"audit", row.link or b""):
        yield Fault(row.seq, "forged", f"audit event {row.seq} was not written by this home")


def type_faults(db: Tx) -> Iterator[Fault]:
    """Events with a column of the wrong type."""
    wrong = " OR ".join(f"typeof({name}) <> 'text'" for name in _TEXTS)
    for (seq,) in db.execute(f"SELECT seq FROM audit_log WHERE {wrong} ORDER BY seq LIMIT 100"):  # noqa: S608
        yield Fault(seq, "edited", f"audit event {seq} contains a value of the wrong type")


def _paged(db: Tx) -> Iterator[EventRow]:
    """Every event in order, a page at a time, so that rows can be changed meanwhile."""
    seq = 0
    while rows := db.execute(
        f"SELECT {ROW} FROM audit_log WHERE seq > ? ORDER BY seq LIMIT 1000",  # noqa: S608
        (seq,),
    ).fetchall():
        yield from (EventRow(*row) for row in rows)
        seq = int(rows[-1][0])


def cover_events(tx: Tx) -> None:
    """Link every event of an earlier version, give each action's last event its state, and seal the other actions."""
    place, previous = 0, START
    ever = last_event(tx)[0]
    tx.execute("DELETE FROM audit_gaps")
    last = dict(
        tx.execute(
            "SELECT a.entity_id, max(a.seq) FROM audit_log a"
            " JOIN proposed_actions p ON p.action_id = a.entity_id GROUP BY 1"
        )
    )
    for row in _paged(tx):
        if row.seq > place + 1:
            add_gap(tx, place + 1, row.seq - 1, previous)
        entity = row.entity_id.decode("utf-8", "replace")
        state = action_state(tx, entity) if last.get(entity) == row.seq else None
        previous, place = row._replace(state=state).link_after(previous), row.seq
        tx.execute(
            "UPDATE audit_log SET state = ?, link = ?, mac = ? WHERE seq = ?",
            (state, previous, row_mac(tx, b"audit", previous), row.seq),
        )
    if place < ever:
        add_gap(tx, place + 1, ever, previous)
    for (action_id,) in tx.execute("SELECT action_id FROM proposed_actions").fetchall():
        if action_id not in last:
            keep_seal(
                tx, action_id, row_mac(tx, b"action", action_id.encode() + (action_state(tx, action_id) or b"")) or b""
            )
