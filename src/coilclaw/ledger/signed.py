"""Verifies the owner's proof again: every signature that approved or resolved an action."""

from typing import Any, cast

import msgspec

from coilclaw.ledger.audit import AuditEvent, Wanted, last_events
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ProofNeeded
from coilclaw.secrets.passkey import Place, verify_again
from coilclaw.store.passkeys import AssertionRow, Passkey, assertion_hash, assertions_of, load_passkey
from coilclaw.store.tx import Tx

DEVICE = "device:"


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey signature, and what is wrong with it."""

    assertion_id: str
    purpose: str
    passkey_id: str
    passkey_name: str | None
    """None if no such passkey was ever registered here."""
    device_id: str
    """The device it was given at."""
    origin: str
    signed_at: str
    holds: bool
    """Whether it still verifies over what is stored."""
    disagreements: tuple[str, ...]


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded proof of the owner's decision on an action."""

    proof: str | None
    """Its kind: passkey, token, terminal, none; None if there was no approval, or it is no longer recorded."""
    signed: Signed | None
    """The signature of the last approval."""
    signatures: tuple[Signed, ...]
    """Every signature about this action, oldest first."""
    disagreements: tuple[str, ...]
    notes: tuple[str, ...]


def word_on(db: Tx, row: dict[str, Any], lanes: set[str], events: tuple[AuditEvent, ...]) -> Word:
    """The owner's proof, checked against the action's row, its events and the passkeys of the time."""
    kept = assertions_of(db, row["action_id"])
    given = [event for event in events if event.event_type in ("tool_approved", "tool_resolved")]
    told = {str(_payload(event).get("assertion_id")): event for event in given}
    signatures = tuple(_signed(db, each, told.get(each.assertion_id), row) for each in kept)
    yes = next((event for event in reversed(given) if _is_yes(event)), None)
    wrong = [text for event in given for text in _against_event(event, kept, lanes)]
    notes: list[str] = []
    if yes is not None:
        wrong += _against_row(row, _payload(yes))
    elif str(row["approved_by"] or "").startswith(DEVICE) and not lanes <= {"A"}:
        pruned = not any(event.event_type == "tool_requested" for event in events)
        if not pruned or ("C" in lanes and not kept):
            wrong.append("it was approved by a device, but no passkey signature is recorded")
        elif not kept:
            notes.append("it is no longer recorded whether a passkey or a token approved it")
    last = str(_payload(yes).get("assertion_id")) if yes is not None else ""
    signed = next((each for each in signatures if each.assertion_id == last), None)
    if yes is None and signatures:
        signed = signatures[-1]
    proof = _payload(yes).get("proof") if yes is not None else ("passkey" if signed is not None else None)
    broken = [f"{each.assertion_id}: {text}" for each in signatures for text in each.disagreements]
    return Word(
        proof=None if proof is None else str(proof),
        signed=signed,
        signatures=signatures,
        disagreements=tuple(wrong + broken),
        notes=tuple(notes),
    )


def _payload(event: AuditEvent) -> dict[str, Any]:
    return cast("dict[str, Any]", event.payload) if isinstance(event.payload, dict) else {}


def _is_yes(event: AuditEvent) -> bool:
    return event.event_type == "tool_approved" or _payload(event).get("verdict") == "retry"


def _against_event(event: AuditEvent, kept: list[AssertionRow], lanes: set[str]) -> list[str]:
    """Whether the proof that an event names was sufficient, and exists."""
    told = _payload(event)
    if told.get("proof") == "passkey":
        found = next((each for each in kept if each.assertion_id == told.get("assertion_id")), None)
        if found is None:
            return [f"{event.event_type} refers to a signature that does not exist"]
        return (
            []
            if assertion_hash(found) == told.get("assertion_hash")
            else ["its signature is not the one recorded then"]
        )
    if not str(told.get("by") or "").startswith(DEVICE) or lanes <= {"A"}:
        return []
    if told.get("proof") == "token" and lanes <= {"A", "B"}:
        return []  # at that time the configuration accepted a token for lane B
    return [f"{event.event_type} by {told.get('by')} has no passkey's signature"]


def _against_row(row: dict[str, Any], yes: dict[str, Any]) -> list[str]:
    """Whether the row still matches the last approval."""
    checks = (
        (row["approved_by"] in (None, yes.get("by")), "the row names a different approver than the approval"),
        (yes.get("digest") in (None, row["digest"]), "the row's digest is not the one that was approved"),
        (yes.get("expires_at") in (None, row["expires_at"]), "the row expires at a different time than was approved"),
    )
    return [text for holds, text in checks if not holds]


def _signed(db: Tx, kept: AssertionRow, event: AuditEvent | None, row: dict[str, Any]) -> Signed:
    passkey = load_passkey(db, kept.credential_id)
    wrong = [*_of_question(kept, event, row), *_of_passkey(db, kept, passkey)]
    holds = _still_verifies(kept)
    if not holds:
        wrong.append("the signature does not verify over what is stored")
    return Signed(
        assertion_id=kept.assertion_id,
        purpose=kept.purpose,
        passkey_id=kept.credential_id,
        passkey_name=None if passkey is None else passkey.name,
        device_id=kept.device_id,
        origin=kept.origin,
        signed_at=kept.created_at,
        holds=holds,
        disagreements=tuple(wrong),
    )


def _of_question(kept: AssertionRow, event: AuditEvent | None, row: dict[str, Any]) -> list[str]:
    """Whether the question was about this action, according to the row or the event of the time."""
    told = {} if event is None else _payload(event)
    digest = told.get("digest", row["digest"])
    wanted = digest if kept.purpose == "approve" else f"{digest}:{told.get('verdict', kept.digest.rpartition(':')[2])}"
    wrong: list[str] = []
    if kept.digest != wanted:
        wrong.append("the signed digest is not the approved one")
    # Without its event it is unknown whether the action was reopened later, which changed the row's expiry.
    if kept.purpose == "approve" and kept.valid_until != told.get("expires_at", kept.valid_until):
        wrong.append("the signed expiry is not the approved one")
    if event is not None and told.get("by") != f"{DEVICE}{kept.device_id}":
        wrong.append("it was given on a different device than the approval")
    return wrong


def _of_passkey(db: Tx, kept: AssertionRow, passkey: Passkey | None) -> list[str]:
    """Whether the key was registered at the time."""
    if passkey is None:
        return ["no such passkey was registered"]
    wrong: list[str] = []
    if passkey.public_key != kept.public_key or passkey.rp_id != kept.rp_id:
        wrong.append("its key is not the registered passkey's")
    if passkey.created_at > kept.created_at or (passkey.removed_at or kept.created_at) < kept.created_at:
        wrong.append("the passkey was not registered at that time")
    told = last_events(db, Wanted(event_type="passkey_registered", entity_id=kept.credential_id), 1)
    if told and _payload(told[0]).get("key_hash") != sha256_hex(kept.public_key):
        wrong.append("its key is not the one that was registered")
    return wrong


def _still_verifies(kept: AssertionRow) -> bool:
    try:
        verify_again(
            kept.question,
            credential_id=kept.credential_id,
            public_key=kept.public_key,
            place=Place(rp_id=kept.rp_id, origins=(kept.origin,)),
            authenticator_data=kept.authenticator_data,
            client_data=kept.client_data,
            signature=kept.signature,
        )
    except (ProofNeeded, ValueError):  # an edited row may have no canonical bytes
        return False
    return True
