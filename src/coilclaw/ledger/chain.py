"""The chain: one receipt per attempt or deed, each with its predecessor's hash, in the caller's transaction."""

import os
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from coilclaw.ledger.vouch import row_mac
from coilclaw.packets.action import Action
from coilclaw.packets.canonical import JsonObject, canonical_bytes, sha256_hex
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.receipt import GENESIS, Receipt, ReceiptStatus, sealed
from coilclaw.store.tx import Tx

_MARK = b',"receipt_hash":"'
_CUT = len(_MARK) + 64 + 1
Randomness = Callable[[int], bytes]
_RECEIPT = msgspec.json.Decoder(Receipt)


def receipt_number(receipt_id: str) -> int:
    """The position in the chain in a receipt's id: 12 for receipt-00000012-ab12cd34."""
    return int(receipt_id.split("-")[1])


def hash_of_line(line: bytes) -> str:
    """The expected hash: over the receipt's canonical bytes without the hash itself.

    The stored bytes are hashed. A quote inside a JSON string is always escaped, so the mark cannot occur there.
    """
    place = line.find(_MARK)
    return sha256_hex(line[:place] + line[place + _CUT :]) if place >= 0 else ""


def last_link(db: Tx) -> tuple[int, str]:
    """Size of the chain and the hash of its last receipt."""
    row = db.execute("SELECT seq, receipt_hash FROM receipts ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, GENESIS) if row is None else (int(row[0]), str(row[1]))


def append_receipt(
    tx: Tx,
    clock: Clock,
    action: Action,
    status: ReceiptStatus,
    *,
    code: str,
    result_hash: str,
    random: Randomness = os.urandom,
) -> Receipt:
    """Write the next receipt; it becomes durable with the rest of the transaction."""
    fields = {
        "conversation_id": action.thread_id,
        "tool": action.call.tool,
        "args_hash": action.call.args_hash,
        "result_hash": result_hash,
        "status": status,
        "risk": action.decision.risk_word,
        "risk_level": action.decision.risk,
        "code": code,
        "action_id": action.action_id,
        "digest": action.digest,
        "policy_hash": action.decision.policy_hash,
        "answer": action.decision.answer if action.approved_by is None else "",
        "identity": action.call.identity or "",
    }
    return _append(tx, clock, fields, random)


class OwnDeed(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the runtime did itself, under an earlier approval: a guest was started, or ended."""

    name: str
    """What was done; stored where an action's receipt names its tool."""
    subject: JsonObject
    """To what. The receipt has its hash, and the hash of the result."""
    result: JsonObject
    status: ReceiptStatus
    code: str
    digest: str
    """What was approved."""
    policy_hash: str
    conversation_id: str = ""
    cause: str = ""
    """The action that led to it."""


def append_deed(tx: Tx, clock: Clock, deed: OwnDeed, random: Randomness = os.urandom) -> Receipt:
    """Write the next receipt for something that has no action of its own."""
    fields = {
        "conversation_id": deed.conversation_id,
        "tool": deed.name,
        "args_hash": sha256_hex(canonical_bytes(deed.subject)),
        "result_hash": sha256_hex(canonical_bytes(deed.result)),
        "status": deed.status,
        "risk": "low",
        "risk_level": "R0",
        "code": deed.code,
        "action_id": "",
        "digest": deed.digest,
        "policy_hash": deed.policy_hash,
        "cause": deed.cause,
    }
    return _append(tx, clock, fields, random)


def _append(tx: Tx, clock: Clock, fields: dict[str, str], random: Randomness) -> Receipt:
    size, previous = last_link(tx)
    place = {"id": f"receipt-{size + 1:08d}-{random(4).hex()}", "timestamp": stamp(clock()), "previous_hash": previous}
    receipt = sealed({**place, **fields})
    tx.execute(
        "INSERT INTO receipts (seq, receipt_id, action_id, receipt_hash, line, mac) VALUES (?, ?, ?, ?, ?, ?)",
        (
            size + 1,
            receipt.id,
            receipt.action_id,
            receipt.receipt_hash,
            receipt.line().decode(),
            row_mac(tx, b"receipt", receipt.receipt_hash.encode()),
        ),
    )
    return receipt


def list_receipts(db: Tx, limit: int) -> list[Receipt]:
    """The newest receipts, newest first."""
    rows = db.execute("SELECT line FROM receipts ORDER BY seq DESC LIMIT ?", (limit,))
    return [_RECEIPT.decode(row[0]) for row in rows]


class Row(NamedTuple):
    """A receipt as stored in the database."""

    number: int
    receipt_hash: str
    line: str


def receipt_at(db: Tx, key: str) -> Row | None:
    """The receipt with this id or number, or None."""
    if not key.isascii():  # ids are ASCII, and Python also accepts other digits than 0 to 9
        return None
    number = int(key) if key.isdigit() and len(key) < 16 else -1
    row = db.execute(
        "SELECT seq, receipt_hash, line FROM receipts WHERE receipt_id = ? OR seq = ? LIMIT 1", (key, number)
    ).fetchone()
    return None if row is None else Row(*row)


def find_receipts(db: Tx, key: str) -> list[Receipt]:
    """Receipts whose id, id prefix, number or action is `key`; an action's are also those of what it led to."""
    found = receipt_at(db, key)
    if found is not None:
        return [_RECEIPT.decode(found.line)]
    if not key.isascii():
        return []
    rows = db.execute(
        "SELECT line FROM receipts WHERE action_id = ? AND action_id <> '' OR receipt_id LIKE ? || '%'"
        " OR action_id = '' AND instr(line, ?) ORDER BY seq LIMIT 100",
        (key, key.replace("%", "").replace("_", "") or "\0", f'"cause":"{key}"'),
    )
    return [_RECEIPT.decode(row[0]) for row in rows]
