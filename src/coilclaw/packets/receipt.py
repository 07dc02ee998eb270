"""Receipts and signed heads: the proof that an outcome happened, in order, and was not changed since."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.canonical import JsonObject, canonical_bytes, sha256_hex
from coilclaw.packets.decision import Risk, RiskWord

ReceiptStatus: TypeAlias = Literal["allowed", "denied", "failed", "unknown"]
GENESIS = "0" * 64
"""What the first receipt carries as its predecessor's hash."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
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

    def line(self) -> bytes:
        """The canonical bytes, hash included, without a newline: what the row and the log both hold."""
        fields: JsonObject = msgspec.to_builtins(self)
        return canonical_bytes(fields)


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """What a head covers beside the receipts."""

    audit: int
    """The number of the last audit event."""
    audit_hash: str
    """Its link, which covers every event before it, and with them what became of every action."""
    log: int
    """So many receipts stood durably in the log."""
    heads: int
    """The size of the last head that stood durably beside the log."""
    previous: str
    """The hash of the heads before it, back to the last that was chained like this."""


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
    """Empty in heads of earlier versions, which cover receipts alone and are not chained."""

    def signed_bytes(self) -> bytes:
        """What the signature covers."""
        stated: JsonObject = {"size": self.size, "hash": self.hash, "time": self.time, "key": self.key}
        if self.previous:
            stated |= {"audit": self.audit, "audit_hash": self.audit_hash, "log": self.log}
            stated |= {"heads": self.heads, "previous": self.previous}
        return canonical_bytes(stated)

    def line(self) -> bytes:
        """The bytes that rows and files hold, without a newline."""
        return msgspec.json.encode(self)


def sealed(fields: dict[str, str]) -> Receipt:
    """A receipt from its fields without the hash, which is computed here."""
    receipt_hash = sha256_hex(canonical_bytes(fields))
    return msgspec.convert({**fields, "receipt_hash": receipt_hash}, Receipt)
