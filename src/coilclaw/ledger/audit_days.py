"""Audit events by the UTC day they belong to, as they leave the home for a repository: a file of lines for each day."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from coilclaw.ledger.audit import COLUMNS
from coilclaw.ledger.audit_chain import Gap
from coilclaw.ledger.export import Row, export_line
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import StorageError
from coilclaw.store.tx import Tx

PAGE = 1000
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_PATH = re.compile(r"audit/(\d{4})/(\d{2})/(\d{2})\.jsonl")


class AuditDay(NamedTuple):
    """A day that has events in the database."""

    day: str
    rows: int
    last: int
    """The number of its last event."""
    mark: str
    """A value that changes as soon as any of its events, or any before them, changes."""


class _Numbered(msgspec.Struct, frozen=True):
    seq: int


_NUMBERED = msgspec.json.Decoder(_Numbered)


def day_path(day: str) -> str:
    """The path of a day's events."""
    return f"audit/{day.replace('-', '/')}.jsonl"


def day_of(path: str) -> str:
    """The day whose events a path holds; empty for any other path."""
    found = _PATH.fullmatch(path)
    return "" if found is None else "-".join(found.groups())


def strayed(db: Tx, before: str) -> dict[str, list[int]]:
    """Events of a clock that ran ahead, by the day they are put into: that of the next event from before `before`.

    Their own day may come much later or never; without them the numbers would have holes.
    """
    found: dict[str, list[int]] = {}
    rows = db.execute(
        "SELECT seq, (SELECT b.created_at FROM audit_log b WHERE b.seq > a.seq AND +b.created_at < :before"
        " ORDER BY b.seq LIMIT 1) FROM audit_log a WHERE a.created_at >= :before"
        " AND a.seq < (SELECT max(seq) FROM audit_log WHERE +created_at < :before) ORDER BY a.seq",
        {"before": before},
    )
    for seq, next_time in rows:
        found.setdefault(str(next_time)[:10], []).append(int(seq))
    return found


def audit_days(db: Tx, before: str) -> list[AuditDay]:
    """The days before a day (YYYY-MM-DD) that have events, the oldest first."""
    also = strayed(db, before)
    rows = db.execute(
        "SELECT substr(created_at, 1, 10), count(*), max(seq) FROM audit_log WHERE created_at < ?"
        " GROUP BY 1 ORDER BY 1",
        (before,),
    ).fetchall()
    found: list[AuditDay] = []
    for day, count, last in rows:
        if not _DAY.fullmatch(str(day)):
            raise StorageError(f"audit event {last} has no date.", remedy="Run `coilclaw receipt verify`.")
        link = db.execute("SELECT hex(link) FROM audit_log WHERE seq = ?", (last,)).fetchone()[0]
        more = len(also.get(day, ()))
        found.append(AuditDay(day, count + more, int(last), f"{count} {more} {link}"))
    return found


def day_rows(db: Tx, day: str, strays: Iterable[int] = ()) -> Iterator[Row]:
    """The events of a day in their order, those of a clock that ran ahead among them."""
    numbers = [
        int(row[0])
        for row in db.execute("SELECT seq FROM audit_log WHERE created_at >= ? AND created_at < ?", (day, day + "U"))
    ]
    chosen = sorted({*numbers, *strays})
    for start in range(0, len(chosen), PAGE):
        yield from db.execute(
            f"SELECT {COLUMNS} FROM audit_log WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq",  # noqa: S608
            (str(chosen[start : start + PAGE]),),
        )


def rows_before(db: Tx, before: str) -> Iterator[Row]:
    """Every event up to the last one from before a time, in order; read a page at a time."""
    seq, last = 0, db.execute("SELECT max(seq) FROM audit_log WHERE created_at < ?", (before,)).fetchone()[0]
    while last is not None:
        rows: list[Row] = db.execute(
            f"SELECT {COLUMNS} FROM audit_log WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",  # noqa: S608
            (seq, last, PAGE),
        ).fetchall()
        yield from rows
        if len(rows) < PAGE:
            return
        seq = rows[-1][0]


def earlier_day_after(db: Tx, seq: int, day: str) -> str:
    """The day of the next event that is from before a day; empty when no clock was ahead."""
    row = db.execute(
        "SELECT created_at FROM audit_log WHERE seq > ? AND +created_at < ? ORDER BY seq LIMIT 1", (seq, day)
    ).fetchone()
    return "" if row is None else str(row[0])[:10]


def lines_by_number(data: bytes | None) -> dict[int, bytes]:
    """The lines of a day's file by number; malformed lines are left out."""
    found: dict[int, bytes] = {}
    for line in (data or b"").splitlines(keepends=True):
        try:
            found.setdefault(_NUMBERED.decode(line).seq, line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return found


class PrunedNumbers:
    """Which events this home once had and took away: the others in a file are not its own."""

    def __init__(self, gaps: list[Gap]) -> None:
        self._gaps = gaps
        self._first = [gap.first for gap in gaps]

    def __contains__(self, seq: int) -> bool:
        place = bisect_right(self._first, seq) - 1
        return place >= 0 and seq <= self._gaps[place].last


def day_file(
    rows: Iterable[Row], earlier: Iterable[Mapping[int, bytes]], pruned: PrunedNumbers, redact: Callable[[Json], Json]
) -> bytes:
    """A day's file: its rows, and those of an earlier file that have since been removed from the database."""
    lines = {number: line for each in earlier for number, line in each.items() if number in pruned}
    lines |= {row[0]: export_line(row, redact) for row in rows}
    return b"".join(lines[number] for number in sorted(lines))
