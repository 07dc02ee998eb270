"""Verification: replay the log, hold it against the rows and the signed heads, name the first broken link."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

import msgspec

from coilclaw.ledger.chain import receipt_number
from coilclaw.ledger.heads import SigningKey, heads_from_file, heads_from_rows
from coilclaw.ledger.ledger import heads_file
from coilclaw.ledger.log import exported_size
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import LedgerBroken, StorageError
from coilclaw.packets.receipt import GENESIS, Head

Kind: TypeAlias = Literal["edited", "missing", "reordered", "truncated", "forked", "forged"]
CHUNK = 1 << 20
_MARK = b',"receipt_hash":"'
_CUT = len(_MARK) + 64 + 1


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """The first link that does not hold."""

    receipt: int
    kind: Kind
    detail: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What verification found."""

    valid: bool
    receipts: int
    heads: int
    broken: Broken | None
    notes: tuple[str, ...]


class _Link(msgspec.Struct, frozen=True):
    """The fields of a line that verification needs; the rest is covered by the hash."""

    id: str
    previous_hash: str
    receipt_hash: str


_LINK = msgspec.json.Decoder(_Link)


class _Written(msgspec.Struct, frozen=True):
    timestamp: str


_WRITTEN = msgspec.json.Decoder(_Written)


class _Stop(Exception):
    """Raised inside verification with the first broken link."""

    def __init__(self, receipt: int, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.broken = Broken(receipt=receipt, kind=kind, detail=detail)


def hash_of_line(line: bytes) -> str:
    """What the receipt's hash must be: over its canonical bytes without the hash itself.

    The bytes are hashed as they stand. A quote inside a JSON string is always escaped, so the mark cannot occur there.
    """
    place = line.find(_MARK)
    return sha256_hex(line[:place] + line[place + _CUT :]) if place >= 0 else ""


def _read_lines(file: BinaryIO) -> Iterator[list[bytes]]:
    """Whole lines in large pieces; what follows the last newline is left out."""
    rest = b""
    while piece := file.read(CHUNK):
        whole, newline, tail = piece.rpartition(b"\n")
        if not newline:
            rest += piece
            continue
        yield (rest + whole).split(b"\n")
        rest = tail


class _Chain:
    """The walk along the log."""

    def __init__(self, heads: list[Head]) -> None:
        self.size: int = 0
        self.hash: str = GENESIS
        self._heads = {head.size: head for head in heads}

    def take(self, line: bytes) -> None:
        """Accept the next line or say what is wrong with it."""
        place = self.size + 1
        try:
            link = _LINK.decode(line)
            number = receipt_number(link.id)
        except (msgspec.DecodeError, ValueError, IndexError):
            raise _Stop(place, "edited", f"line {place} is not a receipt") from None
        if hash_of_line(line) != link.receipt_hash:
            raise _Stop(place, "edited", f"receipt {place} ({link.id}) does not match its own hash")
        if link.previous_hash != self.hash or number != place:
            raise _Gap(place, number, link)
        self.size, self.hash = place, link.receipt_hash
        head = self._heads.get(place)
        if head is not None and head.hash != self.hash:
            raise _Stop(place, "forged", f"a signed head says receipt {place} had another hash: history was rewritten")


class _Gap(Exception):
    """The next line is a sound receipt, but not the next one."""

    def __init__(self, place: int, number: int, link: _Link) -> None:
        super().__init__()
        self.place = place
        self.number = number
        self.link = link


def _name_gap(gap: _Gap, later: Iterator[list[bytes]], rest: list[bytes]) -> _Stop:
    """Say whether the expected receipt is gone, elsewhere, or contradicted."""
    place, number = gap.place, gap.number
    if number == place:
        return _Stop(place, "forked", f"receipt {place} continues another history (its predecessor's hash differs)")
    if number < place:
        return _Stop(place, "reordered", f"receipt {number} stands again where receipt {place} should")
    wanted = f'"id":"receipt-{place:08d}-'.encode()
    if any(wanted in line for line in rest) or any(wanted in line for lines in later for line in lines):
        return _Stop(place, "reordered", f"receipt {number} stands where receipt {place} should, which comes later")
    return _Stop(place, "missing", f"receipt {place} is missing: receipt {number} follows receipt {place - 1}")


def verify_ledger(db: sqlite3.Connection, log_path: Path, key: SigningKey) -> Report:
    """Check log, rows and heads against each other."""
    heads = list(dict.fromkeys((*heads_from_rows(db), *heads_from_file(heads_file(log_path)))))
    notes: list[str] = []
    chain = _Chain(heads)
    try:
        heads = _with_mark(heads, key)
        chain = _Chain(heads)
        _check_heads(heads, key)
        _check_begun_anew(db, heads)
        _walk(db, log_path, chain, notes)
        _check_ends(db, chain, heads, notes)
    except _Stop as stop:
        return Report(valid=False, receipts=chain.size, heads=len(heads), broken=stop.broken, notes=tuple(notes))
    return Report(valid=True, receipts=chain.size, heads=len(heads), broken=None, notes=tuple(notes))


def _with_mark(heads: list[Head], key: SigningKey) -> list[Head]:
    """The heads and the one remembered beside the key, which is there from the first day on."""
    try:
        mark = key.known_mark()
    except LedgerBroken as error:
        raise _Stop(1, "truncated", str(error).rstrip(".")) from error
    if mark is None:
        raise _Stop(1, "truncated", "the head remembered beside the key is gone")
    if not key.holds(mark):
        raise _Stop(mark.size, "forged", "the head remembered beside the key was not signed by it")
    return [*heads, mark] if mark.size and mark not in heads else heads


def _check_heads(heads: list[Head], key: SigningKey) -> None:
    """The last head's signature must hold: its hash covers everything before it, other heads included.

    Earlier heads are held against the chain by hash while walking; two heads that disagree are a fork.
    """
    seen: dict[int, str] = {}
    name = key.name() if heads else ""
    for head in heads:
        if head.key != name:
            raise _Stop(head.size, "forged", f"the head at receipt {head.size} was signed by another key")
        if seen.setdefault(head.size, head.hash) != head.hash:
            raise _Stop(head.size, "forked", f"two heads of size {head.size} disagree")
    if heads:
        last = max(heads, key=lambda head: head.size)
        if not key.holds(last):
            raise _Stop(last.size, "forged", f"the head at receipt {last.size} was not signed by this ledger's key")


def _check_begun_anew(db: sqlite3.Connection, heads: list[Head]) -> None:
    """A first row written after a head was signed over it belongs to a new database: the rows are lost, not forged.

    Where the signed row is there, a clock was set back in between, and nothing is lost.
    """
    last = max(heads, key=lambda head: head.size, default=None)
    first = db.execute("SELECT line FROM receipts WHERE seq = 1").fetchone()
    if last is None or last.size == 0 or first is None:
        return
    signed = db.execute("SELECT line FROM receipts WHERE seq = ?", (last.size,)).fetchone()
    try:
        written = _WRITTEN.decode(first[0]).timestamp
        if signed is not None and _LINK.decode(signed[0]).receipt_hash == last.hash:
            return
    except msgspec.DecodeError:
        return
    if written > last.time:
        detail = f"the database was begun anew at {written}: what was signed before, up to receipt {last.size}, is lost"
        raise _Stop(1, "missing", detail)


def _walk(db: sqlite3.Connection, log_path: Path, chain: _Chain, notes: list[str]) -> None:
    rows = db.execute("SELECT line FROM receipts ORDER BY seq")
    try:
        file = log_path.open("rb")
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{log_path} cannot be read ({error.strerror}).") from error
    with file:
        pieces = _read_lines(file)
        for lines in pieces:
            for index, line in enumerate(lines):
                try:
                    chain.take(line)
                except _Gap as gap:
                    raise _name_gap(gap, pieces, lines[index + 1 :]) from None
            _same_as_rows(lines, [row[0] for row in rows.fetchmany(len(lines))], chain.size)
        end = file.tell()
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                notes.append("the log's last line is torn; the next write repairs it from the database")


def _same_as_rows(lines: list[bytes], rows: list[str], size: int) -> None:
    """The log must say exactly what the rows say."""
    if b"\n".join(lines).decode("utf-8", "replace") == "\n".join(rows):
        return
    first = size - len(lines) + 1
    for offset, line in enumerate(lines):
        if offset >= len(rows):
            raise _Stop(first + offset, "truncated", f"the database has no receipt {first + offset}, the log has")
        if line.decode("utf-8", "replace") != rows[offset]:
            raise _Stop(first + offset, "forged", f"receipt {first + offset} in the log is not the one in the database")


def _check_ends(db: sqlite3.Connection, chain: _Chain, heads: list[Head], notes: list[str]) -> None:
    """Nothing may be shorter than it once was. A log that only lags behind a crash is no break."""
    exported = exported_size(db)
    if chain.size < exported:
        place = chain.size + 1
        raise _Stop(place, "truncated", f"the log ends after receipt {chain.size}, but {exported} were written to it")
    behind = 0
    for row in db.execute("SELECT line FROM receipts WHERE seq > ? ORDER BY seq", (chain.size,)):
        behind += 1
        try:
            chain.take(str(row[0]).encode())
        except _Gap as gap:
            raise _name_gap(gap, iter(()), []) from None
    if behind:
        notes.append(f"the log is {behind} behind the database (a crash); the next write catches it up")
    sealed = max((head.size for head in heads), default=0)
    if chain.size < sealed:
        place = chain.size + 1
        raise _Stop(place, "truncated", f"the chain ends after receipt {chain.size}, but a signed head covers {sealed}")
