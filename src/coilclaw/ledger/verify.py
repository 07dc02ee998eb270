"""Verification: compares log, rows, heads, audit and actions with each other and names every inconsistency."""

import errno
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from coilclaw.ledger.action_faults import action_faults
from coilclaw.ledger.audit_chain import audit_faults, type_faults
from coilclaw.ledger.chain import hash_of_line, receipt_number
from coilclaw.ledger.findings import Broken, Findings, Kind, Report, Stop
from coilclaw.ledger.heads import SigningKey
from coilclaw.ledger.ledger import heads_file
from coilclaw.ledger.log import exported_size
from coilclaw.ledger.standing import answer_faults
from coilclaw.ledger.vouch import macs_of
from coilclaw.ledger.witnesses import HeadCheck, Witnesses, read_witnesses
from coilclaw.packets.receipt import GENESIS, Head
from coilclaw.store.durable import open_plain
from coilclaw.store.schema import added_to
from coilclaw.store.tx import Tx

__all__ = ["Broken", "Kind", "Report", "hash_of_line", "verify_all", "verify_ledger"]
CHUNK = 1 << 20
LONGEST = 8 * CHUNK
"""No line of the log is longer."""
_ROWS = (
    "SELECT seq, CAST(line AS BLOB), CAST(receipt_id || ' ' || action_id || ' ' || receipt_hash AS BLOB), mac"
    " FROM receipts WHERE seq > ? ORDER BY seq"
)
_TYPES = (
    "SELECT seq FROM receipts WHERE typeof(receipt_id) <> 'text' OR typeof(action_id) <> 'text'"
    " OR typeof(receipt_hash) <> 'text' OR typeof(line) <> 'text' LIMIT 100"
)
_Row = tuple[int, bytes, bytes, bytes | None]


class _Link(msgspec.Struct, frozen=True):
    """The fields of a line that verification needs; the rest is covered by the hash."""

    id: str
    action_id: str
    previous_hash: str
    receipt_hash: str

    def columns(self) -> bytes:
        """The expected columns of a line."""
        return f"{self.id} {self.action_id} {self.receipt_hash}".encode()


_LINK = msgspec.json.Decoder(_Link)


class _Written(msgspec.Struct, frozen=True):
    timestamp: str


_WRITTEN = msgspec.json.Decoder(_Written)


def _read_lines(file: BinaryIO, size: int) -> Iterator[list[bytes]]:
    """Complete lines in large chunks of so many bytes; what follows the last newline is omitted."""
    rest = b""
    while piece := file.read(min(CHUNK, size)):
        size -= len(piece)
        whole, newline, tail = piece.rpartition(b"\n")
        if not newline:
            rest += piece
            if len(rest) > LONGEST:
                raise OSError(errno.EFBIG, f"a line is longer than {LONGEST:,} bytes")
            continue
        yield (rest + whole).split(b"\n")
        rest = tail


class _Chain:
    """The walk along the receipts."""

    def __init__(self, points: Mapping[int, str]) -> None:
        self.size: int = 0
        self.hash: str = GENESIS
        self._points = points

    def take(self, line: bytes) -> _Link:
        """Accept the next line or report what is wrong with it."""
        place = self.size + 1
        try:
            link = _LINK.decode(line)
            number = receipt_number(link.id)
        except (msgspec.DecodeError, ValueError, IndexError):
            raise Stop(place, "edited", f"line {place} is not a receipt") from None
        if hash_of_line(line) != link.receipt_hash:
            raise Stop(place, "edited", f"receipt {place} ({link.id}) does not match its own hash")
        if link.previous_hash != self.hash or number != place:
            raise _Gap(place, number)
        self.size, self.hash = place, link.receipt_hash
        if self._points.get(place, self.hash) != self.hash:
            raise Stop(
                place, "forged", f"a signed head says receipt {place} had a different hash: history was rewritten"
            )
        return link


class _Gap(Exception):
    """The next line is an intact receipt, but not the expected one."""

    def __init__(self, place: int, number: int) -> None:
        super().__init__()
        self.place = place
        self.number = number


def _name_gap(gap: _Gap, later: Iterator[list[bytes]], rest: list[bytes]) -> Stop:
    """Report whether the expected receipt is missing, elsewhere, or contradicted."""
    place, number = gap.place, gap.number
    if number == place:
        return Stop(place, "forked", f"receipt {place} continues a different history (its predecessor's hash differs)")
    if number < place:
        return Stop(place, "reordered", f"receipt {number} appears again where receipt {place} should be")
    wanted = f'"id":"receipt-{place:08d}-'.encode()
    if any(wanted in line for line in rest) or any(wanted in line for lines in later for line in lines):
        return Stop(place, "reordered", f"receipt {number} appears where receipt {place} should be, which comes later")
    return Stop(place, "missing", f"receipt {place} is missing: receipt {number} follows receipt {place - 1}")


@contextmanager
def _one_moment(db: Tx) -> Iterator[None]:
    """One read transaction: everything read inside is from one moment."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def verify_ledger(db: Tx, log_path: Path, key: SigningKey) -> Report:
    """Check receipts, log and heads against each other."""
    return _Verification(db, log_path, key).run(actions=False)


def verify_all(db: Tx, log_path: Path, key: SigningKey) -> Report:
    """Check them, and the audit, and the actions."""
    return _Verification(db, log_path, key).run(actions=True)


class _Verification:
    """One verification."""

    def __init__(self, db: Tx, log_path: Path, key: SigningKey) -> None:
        self._db = db
        self._log_path = log_path
        self._key = key
        self._found = Findings()
        self._seen = Witnesses()
        self._chain = _Chain({})

    def run(self, *, actions: bool) -> Report:
        """Run every check, whichever of them fail."""
        found, events, acted = self._found, 0, 0
        self._seen = read_witnesses(self._db, self._log_path, heads_file(self._log_path), self._key, found)
        try:
            with _one_moment(self._db):
                heads = HeadCheck(self._key, self._seen, found)
                found.during(lambda: heads.check(self._db), "the heads")
                self._chain = _Chain(self._points())
                found.during(lambda: _check_begun_anew(self._db, self._seen.trusted), "the receipts")
                found.during(self._shape, "the schema")
                found.during(self._receipts, "the receipts")
                for broken in heads.late.all:
                    found.take(broken)
                if actions:
                    events, acted = self._audit()
        except sqlite3.Error as error:
            found.add(0, "damaged", f"the database cannot be read ({error})")
        return found.report(receipts=self._chain.size, heads=len(set(self._seen.trusted)), events=events, actions=acted)

    def _points(self) -> dict[int, str]:
        points = {head.size: head.hash for head in self._seen.trusted}
        if self._seen.count is not None:
            points.setdefault(self._seen.count.receipts, self._seen.count.hash)
        return points

    def _shape(self) -> None:
        for fault in added_to(self._db):
            self._found.add(0, "edited", f"the database's schema: {fault}")

    # Receipts

    def _receipts(self) -> None:
        for (seq,) in self._db.execute(_TYPES):
            self._found.add(seq, "edited", f"a column of receipt {seq} contains a value of the wrong type")
        rows = cast("Iterator[_Row]", self._db.execute(_ROWS, (0,)))
        self._walk(rows)
        self._ends()

    def _walk(self, rows: Iterator[_Row]) -> None:
        """Walk the log together with the rows, then the rows that it lacks."""
        if self._log_path.exists():
            with open_plain(self._log_path) as file:
                pieces = _read_lines(file, self._seen.log_size)
                for lines in pieces:
                    self._lines(lines, pieces, list(islice(rows, len(lines))))
                self._torn(file)
        logged, known = self._chain.size, self._seen.log_known
        if logged < known:
            detail = f"the log ends after receipt {logged}, but {known} were written to it"
            self._found.add(logged + 1, "truncated", detail)
        behind = 0
        for row in rows:
            behind += 1
            try:
                link = self._chain.take(bytes(row[1]))
                self._columns(self._chain.size, [row], [link])
            except _Gap as gap:
                raise _name_gap(gap, iter(()), []) from None
        if behind and self._log_path.exists() and self._log_path.stat().st_size <= self._seen.log_size:
            self._found.notes.append(
                f"the log is {behind} behind the database (a crash); the next write brings it up to date"
            )

    def _lines(self, lines: list[bytes], later: Iterator[list[bytes]], rows: list[_Row]) -> None:
        first = self._chain.size + 1
        links: list[_Link] = []
        for index, line in enumerate(lines):
            try:
                links.append(self._chain.take(line))
            except _Gap as gap:
                raise _name_gap(gap, later, lines[index + 1 :]) from None
        if lines != [row[1] for row in rows]:
            self._differs(first, lines, rows)
        self._columns(first, rows, links)

    def _differs(self, first: int, lines: list[bytes], rows: list[_Row]) -> None:
        """The log must equal the rows."""
        for place, line in enumerate(lines, first):
            if place - first >= len(rows):
                raise Stop(place, "truncated", f"receipt {place} is in the log but not in the database")
            if line != rows[place - first][1]:
                raise Stop(place, "forged", f"receipt {place} in the log is not the one in the database")

    def _columns(self, first: int, rows: list[_Row], links: list[_Link]) -> None:
        """The columns must agree with the line, and the row must have our MAC."""
        said = [(place, link.columns()) for place, link in enumerate(links, first)]
        if [(row[0], row[2]) for row in rows] != said:
            for row, (place, columns) in zip(rows, said, strict=True):
                if (row[0], row[2]) != (place, columns):
                    self._found.add(place, "edited", f"the columns of receipt {place} do not match its line")
        key = self._seen.row_key if self._seen.covers_audit else None
        if key is None:
            return
        macs = macs_of(key, b"receipt", [link.receipt_hash.encode() for link in links])
        if [row[3] for row in rows] != macs:
            for place, (row, mac) in enumerate(zip(rows, macs, strict=True), first):
                if row[3] != mac:
                    self._found.add(place, "forged", f"receipt {place} was not written by this home")

    @property
    def _signed(self) -> int:
        return max((head.size for head in self._seen.trusted), default=0)

    def _torn(self, file: BinaryIO) -> None:
        size = self._seen.log_size
        if size and self._log_path.stat().st_size == size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                self._found.notes.append(
                    "the log's last line is incomplete; the next write repairs it from the database"
                )

    def _ends(self) -> None:
        """Nothing may be shorter than it once was. A log that lags after a crash is not a break."""
        size, sealed, count = self._chain.size, self._signed, self._seen.count
        if size < sealed:
            raise Stop(size + 1, "truncated", f"the chain ends after receipt {size}, but a signed head covers {sealed}")
        if count is not None and size < count.receipts:
            detail = f"the chain ends after receipt {size}, but {count.receipts} were counted next to the key"
            raise Stop(size + 1, "truncated", detail)
        stated = max((head.log for head in self._seen.trusted), default=0)
        if exported_size(self._db) < stated:
            self._found.add(0, "edited", f"exported_seq was lowered: {stated} receipts were in the log")

    # Audit and actions

    def _audit(self) -> tuple[int, int]:
        seen, found = self._seen, self._found
        columns = [row[1] for row in self._db.execute("PRAGMA table_info(audit_log)")]
        if not seen.covers_audit:
            if not found.all:
                found.notes.append(
                    "audit and actions are covered from the next write on; an earlier version created this home"
                )
            return 0, 0
        if not {"state", "link", "mac"} <= set(columns):
            found.add(0, "damaged", "the columns that bind audit and actions are missing from the database")
            return 0, 0
        points = {head.audit: head.audit_hash for head in (*seen.trusted, seen.mark) if head is not None and head.audit}
        if seen.count is not None and seen.count.audit:
            points.setdefault(seen.count.audit, seen.count.link)

        def audit() -> None:
            for fault in (*type_faults(self._db), *audit_faults(self._db, seen.row_key, points)):
                found.add(0, cast("Kind", fault.kind), fault.detail)

        def actions() -> None:
            for fault in action_faults(self._db, seen.row_key):
                found.add(0, cast("Kind", fault.kind), fault.detail)

        found.during(audit, "the audit")

        def answers() -> None:
            for fault in answer_faults(self._db, seen.row_key):
                found.add(0, cast("Kind", fault.kind), fault.detail)

        found.during(actions, "the actions")
        found.during(answers, "the standing answers")
        counts: list[int] = []
        found.during(lambda: counts.extend(_counts(self._db)), "audit and actions")
        return (counts[0], counts[1]) if len(counts) == 2 else (0, 0)


def _counts(db: Tx) -> tuple[int, int]:
    row = db.execute("SELECT (SELECT count(*) FROM audit_log), (SELECT count(*) FROM proposed_actions)").fetchone()
    return int(row[0]), int(row[1])


def _check_begun_anew(db: Tx, heads: list[Head]) -> None:
    """A first row that is newer than a head that covers it belongs to a new database: the rows are lost, not forged.

    If the signed row exists, a clock was set back in between, and nothing is lost.
    """
    last = max(heads, key=lambda head: head.size, default=None)
    first = db.execute("SELECT CAST(line AS BLOB) FROM receipts WHERE seq = 1").fetchone()
    if last is None or last.size == 0 or first is None:
        return
    signed = db.execute("SELECT CAST(line AS BLOB) FROM receipts WHERE seq = ?", (last.size,)).fetchone()
    try:
        written = _WRITTEN.decode(first[0]).timestamp
        if signed is not None and _LINK.decode(signed[0]).receipt_hash == last.hash:
            return
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    if written > last.time:
        detail = (
            f"the database was created anew at {written}: what was signed before, up to receipt {last.size}, is lost"
        )
        raise Stop(1, "missing", detail)
