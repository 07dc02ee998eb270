"""Totals of everything ever done, counted from the rows, so that all processes count and no restart loses anything.

Only rows since the last count are read; the sums are stored in the database.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress

import msgspec

from coilclaw.ledger.audit import last_number
from coilclaw.ledger.chain import last_link
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx

KEY = "totals"
OTHER = "other"
"""Replaces unknown names: a model may propose any tool, and metrics must not grow without bound."""


_ENDED = msgspec.json.Decoder(tuple[str, str, str])
_DAMAGED = (OTHER, "damaged", "")
"""A modified receipt; verification explains it."""


_BEGUN = """
SELECT count(*) FROM audit_log AS first
WHERE first.seq > ? AND first.seq <= ? AND first.event_type = 'message_added'
AND NOT EXISTS (
  SELECT 1 FROM audit_log AS earlier
  WHERE earlier.entity_id = first.entity_id AND earlier.seq < first.seq AND earlier.event_type = 'message_added'
)
AND NOT EXISTS (
  SELECT 1 FROM messages AS it JOIN messages AS earlier ON earlier.thread_id = it.thread_id AND earlier.seq < it.seq
  WHERE it.message_id = substr(first.entry_id, 5)
)
"""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The counts, and the rows they cover."""

    receipts: int = 0
    audit: int = 0
    conversations: int = 0
    calls: dict[str, int] = {}
    """Number of calls by `STATUS TOOL`."""
    denials: dict[str, int] = {}
    """Number of denials by code."""
    provider_errors: dict[str, int] = {}
    """Number of provider failures by name."""


def load_totals(db: Tx) -> Totals:
    """The stored totals; an unreadable record is counted from scratch."""
    kept = read_meta(db, KEY)
    try:
        return Totals() if kept is None else msgspec.json.decode(kept, type=Totals)
    except msgspec.DecodeError:
        return Totals()


def keep_totals(tx: Tx, totals: Totals) -> None:
    """Store the totals, unless another process has counted further."""
    if load_totals(tx).receipts > totals.receipts:
        return
    write_meta(tx, KEY, msgspec.json.encode(totals).decode())


def is_counted(db: Tx, totals: Totals) -> bool:
    """Whether nothing new was written."""
    return (last_link(db)[0], last_number(db)) == (totals.receipts, totals.audit)


def count_new(db: Tx, totals: Totals, *, tools: Collection[str], codes: int, providers: Collection[str]) -> Totals:
    """The totals including all later rows. At most so many codes are distinguished."""
    receipts, audit = last_link(db)[0], last_number(db)
    calls, denials = dict(totals.calls), dict(totals.denials)
    for ended, number in db.execute(  # each line is read once; lines of one kind are grouped as text
        "SELECT CASE WHEN json_valid(line) THEN json_extract(line, '$.tool', '$.status', '$.code') END AS ended,"
        " count(*) FROM receipts WHERE seq > ? AND seq <= ? GROUP BY ended",
        (totals.receipts, receipts),
    ):
        tool, status, code = _ended(ended)
        _add(calls, f"{status} {tool if tool in tools else OTHER}", number)
        if status == "denied":
            _add(denials, code if code in denials or len(denials) < codes else OTHER, number)
    return Totals(
        receipts=receipts,
        audit=audit,
        conversations=totals.conversations + _conversations(db, totals.audit, audit),
        calls=calls,
        denials=denials,
        provider_errors=_provider_errors(db, totals.provider_errors, totals.audit, audit, providers),
    )


def _ended(text: str | None) -> tuple[str, str, str]:
    try:
        return _DAMAGED if text is None else _ENDED.decode(text)
    except msgspec.DecodeError:
        return _DAMAGED


def _conversations(db: Tx, after: int, until: int) -> int:
    """A conversation counts with the event of its first message: messages are pruned, and their numbers are reused.

    It started earlier if an earlier event says so, or an earlier message whose event was pruned.
    """
    row = db.execute(_BEGUN, (after, until)).fetchone()
    return int(row[0])


def _provider_errors(
    db: Tx, known: Mapping[str, int], after: int, until: int, providers: Collection[str]
) -> dict[str, int]:
    counted = dict(known)
    for name, number in db.execute(
        "SELECT entity_id, count(*) FROM audit_log WHERE seq > ? AND seq <= ? AND event_type = 'provider_failed'"
        " GROUP BY entity_id",
        (after, until),
    ):
        _add(counted, name if name in providers else OTHER, number)
    return counted


def _add(counts: dict[str, int], key: str, number: int) -> None:
    counts[key] = counts.get(key, 0) + number


class _Box(msgspec.Struct, frozen=True):
    tier: str
    seconds: float


class _Boxed(msgspec.Struct, frozen=True):
    metadata: _Box


_BOXED = msgspec.json.Decoder(_Boxed)


class Waited(msgspec.Struct, frozen=True, kw_only=True):
    """How long an action waited for the owner's answer."""

    answer: str
    """`approved` or `rejected`."""
    seconds: float


def waits_after(db: Tx, seq: int, until: int, limit: int) -> list[Waited]:
    """The answers among the audit events that follow a number."""
    rows = db.execute(
        "SELECT a.event_type, (julianday(a.created_at) - julianday(p.created_at)) * 86400.0 FROM audit_log AS a"
        " JOIN proposed_actions AS p ON p.action_id = a.entity_id WHERE a.seq > ? AND a.seq <= ?"
        " AND (a.event_type = 'tool_approved'"
        " OR (a.event_type = 'tool_denied' AND instr(a.payload_json, '\"OWNER_REFUSED\"') > 0))"
        " ORDER BY a.seq LIMIT ?",
        (seq, until, limit),
    )
    return [
        Waited(answer="approved" if kind == "tool_approved" else "rejected", seconds=max(0.0, seconds))
        for kind, seconds in rows
    ]


def boxes_after(db: Tx, seq: int, until: int, limit: int) -> list[tuple[str, float]]:
    """Tier and seconds of the boxed commands among the receipts that follow a number."""
    rows = db.execute(
        "SELECT p.result_json FROM receipts AS r JOIN proposed_actions AS p ON p.action_id = r.action_id"
        " WHERE r.seq > ? AND r.seq <= ? AND p.tool = 'shell' AND p.result_json IS NOT NULL ORDER BY r.seq LIMIT ?",
        (seq, until, limit),
    )
    found: list[tuple[str, float]] = []
    for (result,) in rows:
        with suppress(msgspec.DecodeError):  # a command that never ran took no time in a box
            boxed = _BOXED.decode(result).metadata
            found.append((boxed.tier, boxed.seconds))
    return found
