"""Whether the database is an older copy: the signed mark and the log went on without it and know more than its rows.

It is the one break that must stop the work before anything else. What was done after the copy was made would be done a
second time, and whoever was shut out since would be back in.
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
_RECEIPT = msgspec.json.Decoder(Receipt)


class Older(msgspec.Struct, frozen=True, kw_only=True):
    """What a database that is older than its proofs does not know."""

    rows: int
    known: int
    """How many receipts there once were, as far as anything says."""
    sign: str
    """Stands for what told of it: the same sign is the same break."""
    attempted: tuple[str, ...]
    """Actions that the log knows an attempt of and the rows do not."""


def find_older(db: Tx, key: SigningKey, log: Path) -> Older | None:
    """What the rows lack, or None when they continue all that is known. A few reads, whatever the chain's length."""
    key.row_key()  # with a key that is damaged nothing is done
    mark, count, last = key.known_mark(), key.count(), _last_receipt(log)  # before the rows, which are only ever ahead
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
    """The last whole line of the log; None when there is none, or it is no receipt, which `verify` tells of."""
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
    """The actions of receipts in the log that are not among the rows. A denial is no attempt."""
    found: dict[str, None] = {}
    if not log.is_file():
        return ()
    try:
        with log.open("rb") as file:
            for line in file:
                receipt = _decoded(line)
                if receipt is None or receipt.status == "denied":
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
