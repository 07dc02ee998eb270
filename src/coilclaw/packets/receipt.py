"""Receipts and signed heads: the proof that an outcome happened, in order, and was not changed since."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.canonical import JsonObject, canonical_bytes, sha256_hex
from coilclaw.packets.decision import Risk, RiskWord

ReceiptStatus: TypeAlias = Literal["allowed", "denied", "failed", "unknown"]
_CANONICAL = msgspec.json.Encoder(order="sorted")
"""For an object of strings this produces RFC 8785 bytes, much faster than `canonical_bytes`."""
GENESIS = "0" * 64
"""The predecessor hash of the first receipt."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt's outcome, chained to the one before it."""

    id: str
    timestamp: str
    conversation_id: str
    tool: str
    args_hash: str
    result_hash: str
    status: ReceiptStatus
    risk: RiskWord
    risk_level: Risk
    code: str
    action_id: str
    digest: str
    policy_hash: str
    previous_hash: str
    receipt_hash: str
    answer: str = ""
    """The standing answer that let it run without asking; omitted from the line if there was none."""
    cause: str = ""
    """Of what the runtime did itself, so without an `action_id`: the action that led to it; omitted if none did."""
    identity: str = ""
    """In whose name it was done, the owner's (`user`) or the bot's; omitted if in nobody's."""

    def line(self) -> bytes:
        """The canonical bytes, hash included, without a newline, as in the row and the log."""
        return _CANONICAL.encode(self)


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """What a head covers besides the receipts."""

    audit: int
    """The number of the last audit event."""
    audit_hash: str
    """Its link, which covers every earlier event and thereby the state of every action."""
    log: int
    """How many receipts were durable in the log."""
    heads: int
    """The size of the last head that was durable in the heads file."""
    previous: str
    """The hash of the heads before it, back to the last that was chained like this."""
    main: str = ""
    """The commit on main of the bot's repository; empty without one."""


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signed statement that the chain had this size and hash at this time, and the audit that number and link."""

    size: int
    hash: str
    time: str
    key: str
    """First 16 hex digits of the public key's hash."""
    signature: str
    audit: int = 0
    audit_hash: str = ""
    log: int = 0
    heads: int = 0
    previous: str = ""
    """Empty in heads of earlier versions, which cover only receipts and are not chained."""
    main: str = ""
    """The commit on main at that time, and thereby everything before it; omitted if there was none."""

    def signed_bytes(self) -> bytes:
        """What the signature covers."""
        stated: JsonObject = {"size": self.size, "hash": self.hash, "time": self.time, "key": self.key}
        if self.previous:
            stated |= {"audit": self.audit, "audit_hash": self.audit_hash, "log": self.log}
            stated |= {"heads": self.heads, "previous": self.previous}
        if self.main:
            stated |= {"main": self.main}
        return canonical_bytes(stated)

    def line(self) -> bytes:
        """The bytes in rows and files, without a newline."""
        return msgspec.json.encode(self)


def sealed(fields: dict[str, str]) -> Receipt:
    """Build a receipt and compute its hash; an empty `answer`, `cause` or `identity` counts as none."""
    fields = {name: value for name, value in fields.items() if value or name not in ("answer", "cause", "identity")}
    receipt_hash = sha256_hex(_CANONICAL.encode(fields))
    return msgspec.convert({**fields, "receipt_hash": receipt_hash}, Receipt)
