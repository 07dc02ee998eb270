"""Receipts: their bytes are what RFC 8785 asks for, whatever texts they hold."""

from hypothesis import given
from hypothesis import strategies as st

from coilclaw.packets.canonical import canonical_bytes, sha256_hex
from coilclaw.packets.receipt import Receipt, sealed

_CLOSED = {"status": "allowed", "risk": "low", "risk_level": "R0"}
_TEXTS = [name for name in Receipt.__struct_fields__ if name not in (*_CLOSED, "receipt_hash")]


@given(st.fixed_dictionaries({name: st.text() for name in _TEXTS}))
def test_receipt_is_hashed_and_written_as_canonical_json(texts: dict[str, str]) -> None:
    fields = {**texts, **_CLOSED}
    receipt = sealed(fields)
    for name in ("answer", "cause", "identity"):
        if not fields[name]:
            del fields[name]  # a receipt without one reads as it always did
    assert receipt.receipt_hash == sha256_hex(canonical_bytes(fields))
    assert receipt.line() == canonical_bytes({**fields, "receipt_hash": receipt.receipt_hash})
