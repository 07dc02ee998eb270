"""Owner proof: what each door must show before something counts as the owner's word, and whether it was shown.

A paired device shows its token (lane A) or a passkey (lane B and C); the terminal is owner proof for lane C only while
no passkey is registered. A passkey signs one question, put to one device, about one thing as it stands, once. The doors
are a closed list: whoever comes by another one speaks for nobody, in any lane.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Literal, TypeAlias

import msgspec

from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.packets.decision import Lane
from coilclaw.packets.errors import ProofNeeded
from coilclaw.packets.ids import Clock, from_stamp, new_id, stamp
from coilclaw.packets.proof import Assertion, Purpose, Question
from coilclaw.secrets.passkey import CounterBack, Place, encode, refused, verify_assertion
from coilclaw.store.database import Database
from coilclaw.store.devices import load_device
from coilclaw.store.passkeys import (
    AssertionRow,
    Challenge,
    Passkey,
    add_assertion,
    add_challenge,
    any_passkey,
    assertion_hash,
    list_passkeys,
    load_challenge,
    load_passkey,
    suspend_passkey,
    use_challenge,
    use_passkey,
)
from coilclaw.store.tx import Tx

LaneBProof: TypeAlias = Literal["passkey", "token"]
Need: TypeAlias = Literal["", "passkey", "passkey_missing", "panel", "terminal"]
"""What is needed beside the door itself: nothing; a passkey's assertion; one, but none is registered; the panel,
because the terminal can show none; the terminal, because this door speaks for nobody."""
Kind: TypeAlias = Literal["passkey", "token", "terminal", "forge", "none"]
Door: TypeAlias = Literal["device", "terminal", "unattended", "forge", "unknown"]

CHALLENGE_LIFE = timedelta(minutes=5)
TERMINAL = "terminal"
DEVICE = "device:"
UNATTENDED = "--yes"
FORGE = "forge:"
"""The owner's review of a pull request on GitHub, by the number of the account; it answers merge questions alone."""
CLEAR = "Clear it at the terminal (`coilclaw passkeys clear`) or with another passkey, or remove it."
PANEL_ONLY = "A passkey is registered: after a yes here it keeps waiting until you approve it in the panel."
"""Said where a question is put at a terminal that cannot answer it."""


def door_of(by: str) -> Door:
    """The entrance a call came through; only those listed here count as the owner's."""
    if by == TERMINAL:
        return "terminal"
    if by == UNATTENDED:
        return "unattended"
    if by.startswith(FORGE) and by.removeprefix(FORGE).isdecimal():
        return "forge"
    return "device" if by.startswith(DEVICE) and by != DEVICE else "unknown"


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What stood behind the owner's word."""

    kind: Kind
    assertion_id: str = ""
    assertion_hash: str = ""
    credential_id: str = ""

    def told(self) -> dict[str, Json]:
        """For the audit."""
        if self.kind != "passkey":
            return {"proof": self.kind}
        return {"proof": self.kind, "assertion_id": self.assertion_id, "assertion_hash": self.assertion_hash}


class OwnerProof:
    """Knows what proves the owner, and checks it."""

    def __init__(
        self, db: Database, clock: Clock, *, lane_b: Callable[[], LaneBProof], place: Callable[[], Place]
    ) -> None:
        self._db = db
        self._clock = clock
        self._lane_b = lane_b
        self._going_back: set[str] = set()
        """Passkeys that are about to be suspended: what comes in between is refused too."""
        self.place = place
        """Where passkeys belong now; the port is known only when somebody listens."""

    def registered(self, db: Tx) -> bool:
        """Whether the owner has a passkey."""
        return any_passkey(db)

    def needed(self, db: Tx, lane: Lane, by: str) -> Need:
        """What this door must show for this lane; the empty word when the door is enough. Lane C stands for all that
        is the owner's own, ESTOP included."""
        door = door_of(by)
        if door == "unknown":
            return "terminal"
        if door == "forge":
            return "" if lane == "B" else "panel"
        if lane == "A":
            return ""
        if door == "device":
            if lane == "B" and self._lane_b() == "token":
                return ""
            return "passkey" if self.registered(db) else "passkey_missing"
        if door == "unattended":
            return "terminal"
        if lane == "B":
            return ""
        return "panel" if self.registered(db) else ""

    # Asking

    def ask(
        self,
        tx: Tx,
        *,
        purpose: Purpose,
        subject: str,
        device_id: str,
        digest: str = "",
        valid_until: str | None = None,
    ) -> tuple[Challenge, Question]:
        """Put a question to a device: five minutes, one answer. Without `valid_until` it says when it ends itself."""
        now = self._clock()
        ends = stamp(now + CHALLENGE_LIFE)
        challenge = Challenge(
            challenge_id=new_id("chl", now),
            purpose=purpose,
            subject=subject,
            digest=digest,
            valid_until=valid_until or ends,
            nonce=encode(os.urandom(32)),
            device_id=device_id,
            expires_at=ends,
            created_at=stamp(now),
        )
        add_challenge(tx, self._clock, challenge)
        return challenge, _question(challenge, purpose)

    def usable(self, db: Tx) -> list[Passkey]:
        """The passkeys that the panel can use where it is now."""
        rp_id = self.place().rp_id
        return [each for each in list_passkeys(db) if each.rp_id == rp_id and each.suspended_at is None]

    # Answering

    def require(
        self,
        tx: Tx,
        *,
        lane: Lane,
        purpose: Purpose,
        subject: str,
        by: str,
        assertion: Assertion | None,
        digest: str = "",
        valid_until: str | None = None,
    ) -> Shown:
        """What stands behind the owner's word at this door, checked; an error when that is not enough.

        Call it inside the transaction of what is asked for: both happen, or neither.
        """
        _check_device(tx, by)
        need = self.needed(tx, lane, by)
        if assertion is None and need:
            raise _missing(need)
        if assertion is None:
            return Shown(kind=_kind(by))
        return self.demand(
            tx, purpose=purpose, subject=subject, digest=digest, valid_until=valid_until, assertion=assertion, by=by
        )

    def demand(
        self,
        tx: Tx,
        *,
        purpose: Purpose,
        subject: str,
        by: str,
        assertion: Assertion | None,
        digest: str = "",
        valid_until: str | None = None,
    ) -> Shown:
        """A passkey's assertion over exactly this, given to this device just now; used up and kept."""
        _check_device(tx, by)
        door = door_of(by)
        if door != "device":
            raise _missing("terminal" if door == "unknown" else "panel")
        if assertion is None:
            raise _missing("passkey" if self.registered(tx) else "passkey_missing")
        device_id = by.removeprefix(DEVICE)
        try:
            challenge = self._asked(tx, assertion, purpose, subject, digest, valid_until, device_id)
            row = self._answered(tx, challenge, assertion, purpose)
        except ProofNeeded as error:
            self._tell(error, purpose, subject, device_id, assertion)
            raise
        shown = Shown(
            kind="passkey",
            assertion_id=row.assertion_id,
            assertion_hash=assertion_hash(row),
            credential_id=row.credential_id,
        )
        proved: dict[str, Json] = {"purpose": purpose, "subject": subject, "credential_id": row.credential_id}
        proved |= {"assertion_id": row.assertion_id, "device_id": device_id}
        add_event(tx, self._clock, "owner_proved", subject, proved)
        return shown

    def _asked(
        self,
        tx: Tx,
        assertion: Assertion,
        purpose: Purpose,
        subject: str,
        digest: str,
        valid_until: str | None,
        device_id: str,
    ) -> Challenge:
        """The question this answers: put to this device, about this thing as it stands now, open."""
        challenge = load_challenge(tx, _plain(assertion.challenge_id))
        again = "Request a new challenge and sign that."
        if challenge is None or challenge.device_id != device_id:
            raise refused("this device has no such challenge", again)
        if challenge.used_at is not None:
            raise refused("its challenge was already answered", again)
        if from_stamp(challenge.expires_at) <= self._clock():
            raise refused("its challenge has expired", again)
        until = challenge.expires_at if valid_until is None else valid_until
        if (challenge.purpose, challenge.subject) != (purpose, subject):
            raise refused("its challenge was for something else", again)
        if (challenge.digest, challenge.valid_until) != (digest, until):
            raise refused("what it was for has changed since", "Review it again, then sign again.")
        return challenge

    def _answered(self, tx: Tx, challenge: Challenge, assertion: Assertion, purpose: Purpose) -> AssertionRow:
        """Verify the signature, use up the challenge, move the counter, keep the assertion."""
        passkey = load_passkey(tx, _plain(assertion.id))
        if passkey is None or passkey.removed_at is not None:
            raise refused("no such passkey is registered here")
        if passkey.suspended_at is not None or passkey.credential_id in self._going_back:
            raise refused("the passkey is suspended because its counter went backwards: it may have been copied", CLEAR)
        place = self.place()
        if passkey.rp_id != place.rp_id:
            raise refused("the passkey belongs to another address of this panel", "Register one for this address.")
        verified = verify_assertion(
            _question(challenge, purpose),
            assertion,
            credential_id=passkey.credential_id,
            public_key=passkey.public_key,
            sign_count=passkey.sign_count,
            place=place,
        )
        if not use_challenge(tx, self._clock, challenge.challenge_id) or not use_passkey(
            tx, self._clock, passkey, verified.new_count, backed_up=verified.backed_up
        ):
            raise refused("it was already used", "Request a new challenge and sign that.")
        row = AssertionRow(
            assertion_id=new_id("asr", self._clock()),
            purpose=purpose,
            subject=challenge.subject,
            digest=challenge.digest,
            valid_until=challenge.valid_until,
            nonce=challenge.nonce,
            credential_id=passkey.credential_id,
            public_key=passkey.public_key,
            rp_id=place.rp_id,
            origin=verified.origin,
            authenticator_data=verified.authenticator_data,
            client_data=verified.client_data,
            signature=verified.signature,
            device_id=challenge.device_id,
            created_at=stamp(self._clock()),
        )
        add_assertion(tx, row)
        return row

    def _tell(self, error: ProofNeeded, purpose: Purpose, subject: str, device_id: str, assertion: Assertion) -> None:
        """The owner hears of an answer that did not hold. The caller's transaction is taken back, so in the next."""
        event = "passkey_counter_back" if isinstance(error, CounterBack) else "owner_proof_refused"
        told: dict[str, Json] = {"purpose": purpose, "subject": _plain(subject), "device_id": device_id}
        told["reason"] = error.message
        if isinstance(error, CounterBack):
            told["credential_id"] = assertion.id
            self._suspend(assertion.id)
        self._db.submit(lambda tx: add_event(tx, self._clock, event, _plain(subject), told))

    def _suspend(self, credential_id: str) -> None:
        """At the first time its counter goes back: nobody can tell the owner's authenticator from the copy."""

        def write(tx: Tx) -> None:
            if suspend_passkey(tx, self._clock, credential_id):
                add_event(tx, self._clock, "passkey_suspended", credential_id, {"why": "counter_back"})

        self._going_back.add(credential_id)
        done = self._db.submit(write)
        done.add_done_callback(lambda _: self._going_back.discard(credential_id))


def resolve_digest(digest: str, verdict: str) -> str:
    """What is signed to resolve an action: its digest and the stated outcome."""
    return f"{digest}:{verdict}"


def _plain(text: str) -> str:
    """Ids are plain text; whatever is not, names nothing."""
    return text if text.isascii() and text.isprintable() and len(text) <= 2048 else ""


def _question(challenge: Challenge, purpose: Purpose) -> Question:
    return Question(
        purpose=purpose,
        subject=challenge.subject,
        digest=challenge.digest,
        valid_until=challenge.valid_until,
        nonce=challenge.nonce,
    )


def _kind(by: str) -> Kind:
    kinds: dict[Door, Kind] = {"device": "token", "terminal": "terminal", "forge": "forge"}
    return kinds.get(door_of(by), "none")


def _check_device(tx: Tx, by: str) -> None:
    """Whether the device is still one of the owner's: it may have been thrown out since it was let in."""
    if door_of(by) != "device":
        return
    device = load_device(tx, by.removeprefix(DEVICE))
    if device is None or device.revoked_at is not None:
        raise ProofNeeded("this device is no longer paired.", remedy="Pair it again: `coilclaw pair` shows a code.")


_MISSING: dict[Need, tuple[str, str]] = {
    "passkey": ("this needs your passkey.", "Request a challenge and sign it with your passkey."),
    "passkey_missing": (
        "this needs a passkey, and none is registered.",
        "Pair this device again from the terminal and register one, or answer at the terminal.",
    ),
    "panel": ("a passkey is registered, so this needs it.", "Approve it in the panel with your passkey."),
    "terminal": ("this needs the owner.", "Answer in the panel with your passkey, or at an interactive terminal."),
}


def _missing(need: Need) -> ProofNeeded:
    message, remedy = _MISSING[need]
    return ProofNeeded(message, remedy=remedy)
