"""Anchored heads: signed heads that left the home for the branch `ledger` of a git repository.

`heads.jsonl` there holds the lines as they are kept here, in order; `keys/<name>.pub` the public key each names. So a
clone alone can check them, and a home can be held against what it once signed. See docs/decisions/0030.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.ledger.cover import hash_of_heads
from coilclaw.ledger.heads import decode_head, key_name, read_key
from coilclaw.packets.receipt import Head
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

AnchorKind: TypeAlias = Literal["rewritten", "dropped", "forked", "forged", "reordered", "damaged"]
HEADS = "heads.jsonl"
MOST_BYTES = 64 << 20
"""A longer file is not read: it is not one that a home wrote."""
MOST_FAULTS = 100
_ANCHORED = "ledger_anchored"


class AnchorFault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault in anchored heads."""

    size: int
    """The receipt it is about; 0 when it is about something else."""
    kind: AnchorKind
    detail: str


class Anchored(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch holds: its heads that are signed and in order, and its faults."""

    heads: tuple[Head, ...]
    keys: tuple[str, ...]
    """The names of the keys that stand in it."""
    faults: tuple[AnchorFault, ...]


def key_file(name: str) -> str:
    """Where the branch keeps a public key."""
    return f"keys/{name}.pub"


def size_limit(path: str) -> int:
    """How large a file of the branch may be; 0 when it is none that is read."""
    if path.startswith("keys/"):
        return 1000
    return MOST_BYTES if path == HEADS else 0


def stored_lines(db: Tx) -> list[bytes]:
    """Every head the home has, as its branch must hold them."""
    return [bytes(row[0]) for row in db.execute("SELECT CAST(line AS BLOB) FROM ledger_heads ORDER BY size")]


def anchored_at(db: Tx) -> tuple[int, str]:
    """The size of the last head that was anchored, and the commit that holds it; 0 and empty before the first."""
    size, _, commit = (read_meta(db, _ANCHORED) or "0").partition(" ")
    return int(size) if size.isdecimal() else 0, commit


def set_anchored(tx: Tx, size: int, commit: str) -> None:
    """Remember how far the branch of the workspace got."""
    write_meta(tx, _ANCHORED, f"{size} {commit}")


def anchored(files: Mapping[str, bytes]) -> Anchored:
    """Check the files of a branch by themselves: keys, signatures, order, and that each head continues the last."""
    keys: dict[str, bytes] = {}
    faults: list[AnchorFault] = []
    for path, data in sorted(files.items()):
        if not path.startswith("keys/"):
            continue
        public, name = read_key(data), path.removeprefix("keys/").removesuffix(".pub")
        if public is None or key_name(public) != name:
            faults.append(_damaged(f"{path[:80]!r} is not the public key that its name says"))
        else:
            keys[name] = public
    if HEADS not in files:
        faults.append(_damaged(f"there is no {HEADS}"))
        return Anchored(heads=(), keys=tuple(keys), faults=tuple(faults))
    walk = _Walk(keys)
    faults += walk.faults(files[HEADS])
    return Anchored(heads=tuple(walk.heads), keys=tuple(keys), faults=tuple(faults[:MOST_FAULTS]))


def _damaged(detail: str) -> AnchorFault:
    return AnchorFault(size=0, kind="damaged", detail=detail)


class _Walk:
    """The walk along the lines of one file."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = keys
        self._loaded: dict[str, Ed25519PublicKey] = {}
        self._before: list[bytes] = []
        """The lines back to the last chained head: the next head states their hash."""
        self._last: Head | None = None
        self._chained = False
        self.heads: list[Head] = []

    def faults(self, data: bytes) -> list[AnchorFault]:
        """All faults, at most a hundred."""
        *lines, torn = data.split(b"\n")
        found: list[AnchorFault] = []
        for number, line in enumerate(lines, 1):
            head = decode_head(line)
            if head is None:
                found.append(_damaged(f"line {number} of {HEADS} is not a head"))
                self._before.append(line)
            else:
                fault = next(self._head_faults(head, line), None)
                if fault is None:
                    self.heads.append(head)
                else:
                    found.append(fault)
                self._take(head, line)
            if len(found) >= MOST_FAULTS:
                return found
        if torn:
            found.append(_damaged(f"the last line of {HEADS} is incomplete"))
        return found

    def _head_faults(self, head: Head, line: bytes) -> Iterator[AnchorFault]:
        size, last = head.size, self._last

        def fault(kind: AnchorKind, detail: str) -> AnchorFault:
            return AnchorFault(size=size, kind=kind, detail=f"the head at receipt {size} {detail}")

        if last is not None and head.key != last.key:
            yield fault("forged", "was signed by another key than the one before it")
        if not self._signed(head):
            yield fault("forged", "is not signed by a key that stands in the branch")
        if last is not None and size == last.size:
            same = self._before[-1:] == [line]
            yield fault("reordered", "stands there twice") if same else fault("forked", "has two versions")
        elif last is not None and size < last.size:
            yield fault("reordered", f"stands after the one at receipt {last.size}")
        if head.previous and head.previous != hash_of_heads(self._before):
            yield fault("dropped", "does not continue the one before it: a head is missing or was changed")
        if self._chained and not head.previous:
            yield fault("forged", "does not name the one before it")
        if last is not None and head.audit < last.audit:  # times are not compared: clocks are set back
            yield fault("forked", "covers fewer audit events than the one before it")

    def _take(self, head: Head, line: bytes) -> None:
        self._before = [line] if head.previous else [*self._before, line]
        self._chained = self._chained or bool(head.previous)
        self._last = head

    def _signed(self, head: Head) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if head.key not in self._keys:
            return False
        try:
            if head.key not in self._loaded:
                self._loaded[head.key] = Ed25519PublicKey.from_public_bytes(self._keys[head.key])
            self._loaded[head.key].verify(bytes.fromhex(head.signature), head.signed_bytes())
        except (InvalidSignature, ValueError):
            return False
        return True


def chain_faults(db: Tx, key: str, heads: Sequence[Head], known: int) -> Iterator[AnchorFault]:
    """What of a home's chain is not as it was anchored. `known` is the size that this branch is known to have had."""
    lines = {decoded.size: line for line in stored_lines(db) if (decoded := decode_head(line)) is not None}
    ours = max(lines, default=0)
    end = int(db.execute("SELECT coalesce(max(seq), 0) FROM receipts").fetchone()[0])
    last = heads[-1].size if heads else 0
    for head in heads:
        if head.key != key:
            detail = f"the head at receipt {head.size} was signed by {head.key}, not by this home's key {key}"
            yield AnchorFault(size=head.size, kind="forged", detail=detail)
            return
        if head.size > end:
            detail = f"the chain ends after receipt {end}, but heads up to receipt {last} were anchored"
            yield AnchorFault(size=end + 1, kind="dropped", detail=detail)
            break
        fault = _head_fault(db, head, lines, ours)
        if fault is not None:
            yield fault
    there = {head.size for head in heads}
    for size in sorted(size for size in lines if size < last and size not in there):
        yield AnchorFault(size=size, kind="dropped", detail=f"the head at receipt {size} is gone from the branch")
    if last < known:
        detail = f"the branch ends at receipt {last}, but heads up to receipt {known} were anchored in it"
        yield AnchorFault(size=last, kind="dropped", detail=detail)


def _head_fault(db: Tx, head: Head, lines: Mapping[int, bytes], ours: int) -> AnchorFault | None:
    size = head.size
    row = db.execute("SELECT receipt_hash FROM receipts WHERE seq = ?", (size,)).fetchone()
    if size and (row is None or row[0] != head.hash):
        if ours >= size and lines.get(size) != head.line():  # this home signed a history of its own over that place
            detail = f"receipt {size} had another hash when it was anchored, and this home signed a different history"
            return AnchorFault(size=size, kind="forked", detail=detail)
        detail = f"receipt {size} had another hash when it was anchored: history was rewritten"
        return AnchorFault(size=size, kind="rewritten", detail=detail)
    if head.previous and head.audit and not _holds_event(db, head.audit, head.audit_hash):
        detail = f"audit event {head.audit} had another link when it was anchored: the audit was rewritten"
        return AnchorFault(size=size, kind="rewritten", detail=detail)
    if size and lines.get(size) != head.line():
        kind: AnchorKind = "forked" if size in lines else "dropped"
        words = "differs from the one that was anchored" if size in lines else "was anchored, but is gone from the home"
        return AnchorFault(size=size, kind=kind, detail=f"the head at receipt {size} {words}")
    return None


def _holds_event(db: Tx, number: int, link: str) -> bool:
    row = db.execute("SELECT link FROM audit_log WHERE seq = ?", (number,)).fetchone()
    if row is None:  # it may have been pruned since
        gap = db.execute("SELECT 1 FROM audit_gaps WHERE first <= ? AND last >= ?", (number, number))
        return gap.fetchone() is not None
    return isinstance(row[0], bytes) and row[0].hex() == link
