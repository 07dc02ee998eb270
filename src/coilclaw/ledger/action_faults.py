"""Compares actions with the audit: each row must be as its last event recorded it, and none may be missing."""

from collections.abc import Iterator

from coilclaw.ledger.audit_chain import Fault
from coilclaw.ledger.vouch import mac_of
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.text import one_line
from coilclaw.store.actions import STATE, state_of
from coilclaw.store.tx import Tx

_LAST = "(SELECT state FROM audit_log WHERE entity_id = p.action_id AND state IS NOT NULL ORDER BY seq DESC LIMIT 1)"
_GONE = """
SELECT a.entity_id FROM audit_log a WHERE a.state IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM proposed_actions p WHERE p.action_id = a.entity_id) GROUP BY a.entity_id
UNION SELECT r.action_id FROM receipts r WHERE r.action_id <> ''
AND NOT EXISTS (SELECT 1 FROM proposed_actions p WHERE p.action_id = r.action_id)
"""
_OPEN = ("PENDING", "APPROVED", "UNKNOWN")


def action_faults(db: Tx, key: bytes | None) -> Iterator[Fault]:
    """What is wrong with the actions."""
    names = [name.strip() for name in STATE.split(",")]
    places = {name: number for number, name in enumerate(names)}
    texts = ", ".join(f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END" for name in names)
    kinds = " || ".join(f"substr(typeof({name}), 1, 1)" for name in names)
    for row in db.execute(f"SELECT {kinds}, p.seal, {_LAST}, {texts} FROM proposed_actions p"):  # noqa: S608
        values = [_text(value) if kind == "t" else value for kind, value in zip(row[0], row[3:], strict=True)]
        action_id, status = str(values[places["action_id"]]), str(values[places["status"]])
        name, state, last = f"action {one_line(action_id)[:60]}", state_of(values), row[2]
        arguments = values[places["args_json"]]
        told = arguments.encode("utf-8", "surrogateescape") if isinstance(arguments, str) else b""
        if sha256_hex(told) != values[places["args_hash"]]:
            yield Fault(0, "edited", f"the arguments of {name} do not match their hash")
        if last is not None:
            if last != state:
                yield Fault(0, "edited", f"{name} differs from what its last event recorded")
        elif status in _OPEN:
            yield Fault(0, "forged", f"{name} is {status}, but this home wrote no event for it")
        elif key is not None and row[1] != mac_of(key, b"action", action_id.encode("utf-8", "replace") + state):
            yield Fault(0, "edited", f"{name} differs from what it was when its events were pruned")
    for (action_id,) in db.execute(_GONE):
        yield Fault(
            0, "missing", f"action {one_line(str(action_id))[:60]} is missing, but its events or receipts exist"
        )


def _text(value: object) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
