"""Pages of receipts, newest first, and one receipt checked against the chain."""

from contextlib import suppress

import msgspec

from coilclaw.ledger.chain import receipt_at
from coilclaw.ledger.verify import hash_of_line
from coilclaw.packets.receipt import GENESIS, Head, Receipt, ReceiptStatus
from coilclaw.store.refusals import Refusal, refusal_of
from coilclaw.store.tx import Tx

SCANNED = 10_000
"""How many receipts one page may scan; the rest is left to the next page."""
BATCH = 500
_RECEIPT = msgspec.json.Decoder(Receipt)
_HEAD = msgspec.json.Decoder(Head)


class WantedReceipts(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for receipts; None matches anything."""

    status: ReceiptStatus | None = None
    refusal: Refusal | None = None
    """Only refusals of this kind."""
    tool: str | None = None
    action_id: str | None = None

    def admits(self, receipt: Receipt) -> bool:
        """Whether it matches."""
        if self.refusal is not None and (receipt.status != "denied" or refusal_of(receipt.code) != self.refusal):
            return False
        asked = ((self.status, receipt.status), (self.tool, receipt.tool), (self.action_id, receipt.action_id))
        return all(wanted is None or wanted == found for wanted, found in asked)


class Numbered(msgspec.Struct, frozen=True, kw_only=True):
    """A receipt and its position in the chain."""

    number: int
    receipt: Receipt


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A receipt checked against its position in the chain."""

    number: int
    receipt: Receipt | None
    """None if it cannot be read."""
    faults: tuple[str, ...]
    """What is wrong; empty if it is valid."""


def page_of_receipts(
    db: Tx, wanted: WantedReceipts, below: int | None, limit: int
) -> tuple[list[Numbered], int | None]:
    """The newest receipts below a number, newest first, and where to continue; None at the end.

    A page scans a limited number of receipts: it may be short, or empty, and still not be the last. Unreadable ones are
    omitted; verification names them.
    """
    found: list[Numbered] = []
    place, looked_at = below if below is not None else 1 << 53, 0
    while looked_at < SCANNED:
        rows = _rows(db, wanted, place)
        for number, line in rows:
            with suppress(msgspec.DecodeError):
                receipt = _RECEIPT.decode(line)
                if wanted.admits(receipt):
                    found.append(Numbered(number=number, receipt=receipt))
            if len(found) > limit:
                return found[:limit], found[limit - 1].number
        if len(rows) < BATCH:
            return found, None
        place, looked_at = rows[-1][0], looked_at + len(rows)
    return found, place


def _rows(db: Tx, wanted: WantedReceipts, below: int) -> list[tuple[int, str]]:
    if wanted.action_id is not None:
        return db.execute(
            "SELECT seq, line FROM receipts WHERE action_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
            (wanted.action_id, below, BATCH),
        ).fetchall()
    return db.execute(
        "SELECT seq, line FROM receipts WHERE seq < ? ORDER BY seq DESC LIMIT ?", (below, BATCH)
    ).fetchall()


def place_of(db: Tx, key: str) -> Placed | None:
    """The receipt with this id or number, or None."""
    row = receipt_at(db, key)
    if row is None:
        return None
    place, stored, line = row
    try:
        receipt = _RECEIPT.decode(line)
    except msgspec.DecodeError:
        return Placed(number=place, receipt=None, faults=("the receipt cannot be read",))
    before = db.execute("SELECT receipt_hash FROM receipts WHERE seq = ?", (place - 1,)).fetchone()
    previous = GENESIS if place == 1 else (before[0] if before is not None else None)
    checks = (
        (hash_of_line(line.encode()) == receipt.receipt_hash == stored, "the receipt does not match its own hash"),
        (receipt.previous_hash == previous, "the receipt does not follow its predecessor in the chain"),
    )
    return Placed(number=place, receipt=receipt, faults=tuple(text for holds, text in checks if not holds))


def last_head(db: Tx) -> Head | None:
    """The newest signed head in the database; None if there is none or it cannot be read."""
    row = db.execute("SELECT line FROM ledger_heads ORDER BY size DESC LIMIT 1").fetchone()
    with suppress(msgspec.DecodeError):
        return None if row is None else _HEAD.decode(row[0])
    return None
