"""Detects an older copy of the database: the signed mark and the log know more than its rows.

This break must stop all work first. Effects since the copy would be repeated, and devices
revoked since then would be back.
"""

import os
from pathlib import Path

import msgspec

from coilclaw.ledger.chain import last_link, receipt_number
from coilclaw.ledger.cover import continues
from coilclaw.ledger.heads import SigningKey
from coilclaw.packets.receipt import Receipt
from coilclaw.store.tx import Tx

TAIL = 64 * 1024
LONGEST = 1 << 23
_RECEIPT = msgspec.json.Decoder(Receipt)


class Older(msgspec.Struct, frozen=True, kw_only=True):
    """What an older database lacks."""

    rows: int
    known: int
    """How many receipts there once were, according to any evidence."""
    sign: str
    """Identifies the evidence: the same sign is the same break."""
    attempted: tuple[str, ...]
    """Actions with an attempt in the log that the rows lack."""


def find_older(db: Tx, key: SigningKey, log: Path) -> Older | None:
    """What the rows lack, or None if they are complete. A few reads, whatever the chain's length."""
    key.row_key()  # raises if the key is damaged
    mark, count, last = (
        key.known_mark(),
        key.count(),
        _last_receipt(log),
    )  # read before the rows, which can only be ahead
    rows, _ = last_link(db)
    logged = receipt_number(last.id) if last is not None else 0
    if mark is not None and not continues(db, mark):
        sign, known = f"mark {mark.hash}", max(mark.size, logged)
    elif count is not None and not continues(db, count):
        sign, known = f"count {count.hash} {count.link}", max(count.receipts, logged)
    elif last is not None and logged > rows:
        sign, known = f"log {last.receipt_hash}", logged
    else:
        return None
    return Older(rows=rows, known=known, sign=sign, attempted=_attempted(db, log))


def _hash_at(db: Tx, number: int) -> str | None:
    row = db.execute("SELECT receipt_hash FROM receipts WHERE seq = ?", (number,)).fetchone()
    return None if row is None else str(row[0])


def _last_receipt(log: Path) -> Receipt | None:
    """The last complete line of the log; None if there is none or it is not a receipt, which `verify` reports."""
    try:
        if not log.is_file():  # a device has no end
            return None
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read(TAIL).split(b"\n")
    except OSError:
        return None
    return _decoded(lines[-2]) if len(lines) > 1 else None


def _attempted(db: Tx, log: Path) -> tuple[str, ...]:
    """The actions of receipts in the log that the rows lack. A denial is not an attempt."""
    found: dict[str, None] = {}
    if not log.is_file():
        return ()
    try:
        with log.open("rb") as file:
            while line := file.readline(LONGEST):
                receipt = _decoded(line)
                if receipt is None or receipt.status == "denied" or not receipt.action_id:
                    continue
                if _hash_at(db, receipt_number(receipt.id)) != receipt.receipt_hash:
                    found[receipt.action_id] = None
    except OSError:
        return tuple(found)
    return tuple(found)


def _decoded(line: bytes) -> Receipt | None:
    try:
        receipt = _RECEIPT.decode(line)
        receipt_number(receipt.id)
    except (msgspec.DecodeError, ValueError, IndexError):
        return None
    return receipt
