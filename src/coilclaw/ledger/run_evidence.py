"""The chain of a run that took place elsewhere, as evidence: its key, its receipts and its signed head, verified."""

import msgspec

from coilclaw.ledger.anchors import stored_lines
from coilclaw.ledger.chain import hash_of_line
from coilclaw.ledger.heads import SigningKey, decode_head, key_name
from coilclaw.packets.receipt import GENESIS, Receipt
from coilclaw.store.tx import Tx

MOST_BYTES = 16 << 20


class RunChain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The chain of one part of a run."""

    part: str
    """The job of the workflow that made it."""
    key: str
    """Its public key, in hex. Each run has one of its own; the private half ended with the run."""
    receipts: tuple[str, ...]
    head: str
    """The signed head over all of them; empty when there is no receipt."""


class RunEvidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a run leaves of its ledgers."""

    version: int
    job_id: str
    run_id: str
    chains: tuple[RunChain, ...]


def run_chain(db: Tx, key: SigningKey, part: str) -> RunChain:
    """The chain of a home that was sealed."""
    lines = tuple(str(row[0]) for row in db.execute("SELECT line FROM receipts ORDER BY seq"))
    heads = stored_lines(db)
    head = heads[-1].decode() if heads and lines else ""
    return RunChain(part=part, key=key.public().hex(), receipts=lines, head=head)


def read_run(data: bytes) -> RunEvidence:
    """The evidence in a file; ValueError when it is none."""
    if len(data) > MOST_BYTES:
        raise ValueError("it is too large")
    return msgspec.json.decode(data, type=RunEvidence)


def chain_fault(chain: RunChain) -> str:
    """What is wrong with a chain; empty when each receipt continues the one before it and the head covers them all."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    last = GENESIS
    for number, text in enumerate(chain.receipts, start=1):
        line = text.encode()
        try:
            receipt = msgspec.json.decode(line, type=Receipt)
        except msgspec.DecodeError:
            return f"receipt {number} cannot be read"
        if hash_of_line(line) != receipt.receipt_hash:
            return f"receipt {number} does not match its own hash"
        if receipt.previous_hash != last:
            return f"receipt {number} does not continue the one before it"
        last = receipt.receipt_hash
    if not chain.receipts:
        return "it has a head without a receipt" if chain.head else ""
    head = decode_head(chain.head.encode())
    if head is None or (head.size, head.hash) != (len(chain.receipts), last):
        return "its head does not cover its receipts"
    try:
        public = bytes.fromhex(chain.key)
        Ed25519PublicKey.from_public_bytes(public).verify(bytes.fromhex(head.signature), head.signed_bytes())
    except (InvalidSignature, ValueError):
        return "its head is not signed by its key"
    return "" if head.key == key_name(public) else "its head names another key"
