"""Evidence outside the rows: keys, mark, count and heads. Each is checked before it is trusted.

They are read before the rows. All of it was written after the rows it describes, so rows that are read later
include all of it, however busy other processes are.
"""

from pathlib import Path

import msgspec

from coilclaw.ledger.cover import hash_of_heads
from coilclaw.ledger.findings import Findings
from coilclaw.ledger.heads import SigningKey, decode_head, last_head
from coilclaw.ledger.log import known_size
from coilclaw.ledger.vouch import Count, read_count
from coilclaw.packets.errors import CoilclawError, LedgerBroken
from coilclaw.packets.receipt import Head
from coilclaw.store.durable import read_plain
from coilclaw.store.tx import Tx

HEADS_BYTES = 1 << 30
"""As much as years of heads."""


class Witnesses(msgspec.Struct, kw_only=True):
    """Evidence read before the rows."""

    row_key: bytes | None = None
    signed_by: str | None = None
    """The key id; None if the public key cannot be read and no signature can be checked."""
    mark: Head | None = None
    count: Count | None = None
    beside: list[bytes] = []
    """The lines of the heads file."""
    log_size: int = 0
    """The size of the log in bytes."""
    log_known: int = 0
    """How many receipts were known to be in the log."""
    heads_known: int = 0
    """The size of the last head known to be in the heads file."""
    trusted: list[Head] = []
    """Heads signed by the key, or covered by one that is."""

    @property
    def covers_audit(self) -> bool:
        """Whether the mark covers audit and actions; one of an earlier version does not."""
        return self.mark is not None and bool(self.mark.previous)


def read_witnesses(db: Tx, log: Path, heads: Path, key: SigningKey, found: Findings) -> Witnesses:
    """Read them all; anything unreadable or not authentic is a finding."""
    seen = Witnesses()

    def sizes() -> None:
        seen.log_known = known_size(db)
        head, _ = last_head(db)
        seen.heads_known = 0 if head is None else head.heads

    def files() -> None:
        data = read_plain(heads, HEADS_BYTES) if heads.exists() else b""
        *seen.beside, torn = data.split(b"\n")
        if torn:
            found.notes.append("the last line of the heads file is incomplete; the next head repairs it")
        seen.log_size = log.stat().st_size if log.exists() else 0

    found.during(sizes, "the heads")
    found.during(lambda: _read_keys(key, seen, found), "the signing key")
    found.during(lambda: _read_mark(key, seen, found), "the mark")
    found.during(lambda: _read_count(key, seen, found), "the count")
    found.during(files, "the heads file")
    return seen


def _read_keys(key: SigningKey, seen: Witnesses, found: Findings) -> None:
    try:
        seen.signed_by = key.name()
    except CoilclawError as error:
        found.add(0, "damaged", error.message.rstrip("."))
    if not key.private_file.exists():
        found.notes.append(
            f"{key.private_file} is missing: it cannot be determined who wrote the rows since the last head"
        )
        return
    seen.row_key = key.bare_row_key()
    if seen.signed_by is not None:
        key.check_pair()


def _read_mark(key: SigningKey, seen: Witnesses, found: Findings) -> None:
    try:
        mark = key.known_mark()
    except LedgerBroken as error:
        found.add(1, "truncated", str(error).rstrip("."))
        return
    if mark is None:
        found.add(1, "truncated", "the head stored next to the key is missing")
    elif seen.signed_by is not None and not key.holds(mark):
        found.add(mark.size, "forged", "the head stored next to the key was not signed by it")
    else:
        seen.mark = mark


def _read_count(key: SigningKey, seen: Witnesses, found: Findings) -> None:
    data = key.count_data()
    if data is None and not seen.covers_audit:
        return
    count = None if data is None else read_count(data)
    if count is not None and (seen.row_key is None or count.holds(seen.row_key)):
        seen.count = count
        return
    if seen.signed_by is not None:
        try:
            key.check_count(data)
        except LedgerBroken as error:
            found.add(1, "truncated", str(error).rstrip("."))
            return
        seen.count = key.count()


class HeadCheck:
    """Compare the heads with each other."""

    def __init__(self, key: SigningKey, seen: Witnesses, found: Findings) -> None:
        self._key = key
        self._seen = seen
        self._found = found
        self._lines: dict[bytes, None] = {}
        self._chained: list[bytes] = []
        self._hashes: dict[int, str] = {}
        self.late = Findings()
        """Missing evidence, reported after the faults of the receipts themselves."""

    def check(self, db: Tx) -> None:
        """Rows first, then the heads file, then the mark."""
        rows = db.execute("SELECT size, CAST(line AS BLOB), typeof(line) FROM ledger_heads ORDER BY size").fetchall()
        before: list[bytes] = []
        last: Head | None = None
        for size, line, kind in rows:
            head = decode_head(bytes(line))
            self._lines[bytes(line)] = None
            if head is None or head.size != size or kind != "text":
                self._found.add(size, "edited", f"the head at receipt {size} is damaged")
                before = [*before, bytes(line)] if last is None else [bytes(line)]
                continue
            if head.previous:
                if head.previous != hash_of_heads(before):
                    self.late.add(size, "missing", f"a head before the one at receipt {size} is missing or was changed")
                before, last = [bytes(line)], head
                self._chained.append(bytes(line))
                self._trust(head, signed=True)
            else:
                if last is not None:
                    self._found.add(size, "forged", f"the head at receipt {size} does not continue the one before it")
                before.append(bytes(line))
                self._trust(head, signed=self._holds(head))
        if last is not None and not self._holds(last):
            self._seen.trusted.remove(last)
            self._found.add(last.size, "forged", f"the head at receipt {last.size} was not signed by this ledger's key")
        self._check_beside()
        self._check_mark()

    def _holds(self, head: Head) -> bool:
        return self._seen.signed_by is None or self._key.holds(head)

    def _trust(self, head: Head, *, signed: bool) -> None:
        size = head.size
        if self._seen.signed_by is not None and head.key != self._seen.signed_by:
            self._found.add(size, "forged", f"the head at receipt {size} was signed by another key")
        elif not signed:
            self._found.add(size, "forged", f"the head at receipt {size} was not signed by this ledger's key")
        elif self._hashes.setdefault(size, head.hash) != head.hash:
            self._found.add(size, "forked", f"two heads of size {size} disagree")
        else:
            self._seen.trusted.append(head)

    def _check_beside(self) -> None:
        chained: list[bytes] = []
        size = 0
        for number, line in enumerate(self._seen.beside, 1):
            head = decode_head(line)
            if head is None:
                self._found.add(0, "edited", f"line {number} of the heads file is damaged")
            elif head.previous and line in self._lines:
                chained.append(line)
                size = head.size
            elif line not in self._lines:
                self._trust(head, signed=self._holds(head))
                if head.previous and head in self._seen.trusted:
                    self.late.add(head.size, "missing", f"the head at receipt {head.size} is not in the database")
        if chained != self._chained[: len(chained)]:
            self.late.add(size, "missing", "heads are missing from the heads file, or are in a different order")
        if size < self._seen.heads_known:
            detail = f"the heads file ends at receipt {size}, but reached receipt {self._seen.heads_known}"
            self.late.add(size, "truncated", detail)
        elif len(chained) < len(self._chained):
            self._found.notes.append("the newest head is not in the heads file yet (a crash); the next write adds it")

    def _check_mark(self) -> None:
        mark = self._seen.mark
        if mark is None or not mark.size:
            return
        if mark.line() not in self._lines:
            self._trust(mark, signed=True)
            if mark.previous:
                self.late.add(mark.size, "missing", f"the head at receipt {mark.size} is not in the database")
