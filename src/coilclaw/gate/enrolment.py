"""Enrolment of passkeys: the first right after pairing, each further one only with an existing passkey."""

import os
from datetime import datetime, timedelta

from coilclaw.gate.proof import CHALLENGE_LIFE, DEVICE, TERMINAL, OwnerProof
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.errors import Conflict, ProofNeeded, UsageError
from coilclaw.packets.ids import Clock, from_stamp, new_id, stamp
from coilclaw.packets.proof import Assertion
from coilclaw.secrets.passkey import NewPasskey, Registration, decode, encode, refused, verify_registration
from coilclaw.store.passkeys import (
    Challenge,
    Passkey,
    add_challenge,
    add_passkey,
    clear_passkey,
    list_passkeys,
    load_challenge,
    load_passkey,
    paired_at,
    remove_passkey,
    rename_passkey,
    use_challenge,
)
from coilclaw.store.threads import ensure_owner
from coilclaw.store.tx import Tx

FIRST_WITHIN = timedelta(minutes=10)
"""How long after pairing a device may register the first passkey."""
MOST = 20
REGISTER = "passkey.register"
TRANSPORTS = frozenset({"ble", "cable", "hybrid", "internal", "nfc", "smart-card", "usb"})


class Enrolment:
    """Registers, renames and removes passkeys; every step runs in the caller's transaction."""

    def __init__(self, owner: OwnerProof, clock: Clock) -> None:
        self.owner = owner
        self._clock = clock

    def window_ends(self, db: Tx, device_id: str) -> datetime | None:
        """Until when this device may register the first passkey; None when it may not."""
        paired = paired_at(db, device_id)
        if paired is None or self.owner.registered(db):
            return None
        ends = from_stamp(paired) + FIRST_WITHIN
        now = self._clock()
        # One paired in the future was paired by a wrong clock.
        return ends if now < ends <= now + FIRST_WITHIN else None

    def begin(self, tx: Tx, device_id: str) -> tuple[Challenge, bytes]:
        """Have a browser make a passkey; the challenge, and its bytes."""
        self._may_add(tx, device_id)
        now = self._clock()
        nonce = os.urandom(32)
        ends = stamp(now + CHALLENGE_LIFE)
        challenge = Challenge(
            challenge_id=new_id("chl", now),
            purpose=REGISTER,
            subject=device_id,
            digest="",
            valid_until=ends,
            nonce=encode(nonce),
            device_id=device_id,
            expires_at=ends,
            created_at=stamp(now),
        )
        add_challenge(tx, self._clock, challenge)
        return challenge, nonce

    def _may_add(self, db: Tx, device_id: str) -> None:
        known = list_passkeys(db)
        if len(known) >= MOST:
            raise Conflict(f"there are already {MOST} passkeys.", remedy="Remove one first.")
        if not known and self.window_ends(db, device_id) is None:
            raise ProofNeeded(
                "the first passkey must be registered within ten minutes after pairing, and that time has passed.",
                remedy="Pair this device again from the terminal: `coilclaw pair --replace`.",
            )

    def finish(
        self,
        tx: Tx,
        *,
        challenge_id: str,
        registration: Registration,
        name: str,
        device_id: str,
        proof: Assertion | None,
    ) -> Passkey:
        """Keep a passkey that was made for our challenge. Coming again with the same changes nothing."""
        challenge = self._asked(tx, challenge_id, device_id)
        place = self.owner.place()
        made = verify_registration(registration, challenge=decode(challenge.nonce, "the challenge"), place=place)
        known = load_passkey(tx, made.credential_id)
        if known is not None and challenge.used_at and known.public_key == made.public_key and not known.removed_at:
            return known  # the answer to the first time got lost
        if challenge.used_at or from_stamp(challenge.expires_at) <= self._clock():
            raise refused("its challenge has ended", "Start the registration again.")
        if known is not None:
            raise Conflict("this passkey was already registered here.", remedy="Create a new one.")
        self._may_add(tx, device_id)
        first = not self.owner.registered(tx)
        if not first:
            self.owner.demand(
                tx, purpose="passkey.add", subject=made.credential_id, assertion=proof, by=f"{DEVICE}{device_id}"
            )
        use_challenge(tx, self._clock, challenge.challenge_id)
        passkey = self._keep(tx, made, registration.response.transports, name, device_id, place.rp_id)
        told: dict[str, Json] = {"device_id": device_id, "first": first, "key_hash": sha256_hex(made.public_key)}
        add_event(tx, self._clock, "passkey_registered", passkey.credential_id, told)
        return passkey

    def _asked(self, db: Tx, challenge_id: str, device_id: str) -> Challenge:
        challenge = load_challenge(db, challenge_id)
        if challenge is None or challenge.device_id != device_id or challenge.purpose != REGISTER:
            raise refused("this device has no such registration", "Start the registration again.")
        return challenge

    def _keep(
        self,
        tx: Tx,
        made: NewPasskey,
        transports: tuple[str, ...],
        name: str,
        device_id: str,
        rp_id: str,
    ) -> Passkey:
        passkey = Passkey(
            credential_id=made.credential_id,
            device_id=device_id,
            name=name,
            public_key=made.public_key,
            sign_count=made.sign_count,
            rp_id=rp_id,
            aaguid=made.aaguid,
            transports=tuple(sorted(TRANSPORTS.intersection(transports))),
            backed_up=made.backed_up,
            created_at=stamp(self._clock()),
        )
        ensure_owner(tx, self._clock)
        add_passkey(tx, passkey)
        return passkey

    def rename(self, tx: Tx, credential_id: str, name: str, by: str) -> bool:
        """Rename a passkey; False if it does not exist."""
        renamed = rename_passkey(tx, credential_id, name)
        if renamed:
            add_event(tx, self._clock, "passkey_renamed", credential_id, {"by": by})
        return renamed

    def remove(self, tx: Tx, credential_id: str, *, by: str, proof: Assertion | None) -> None:
        """Revoke a passkey with the signature of a registered one; the last can only revoke itself."""
        self.owner.demand(tx, purpose="passkey.remove", subject=credential_id, assertion=proof, by=by)
        self._remove(tx, credential_id, by)

    def remove_at_terminal(self, tx: Tx, credential_id: str, typed: str) -> None:
        """The way back for an owner who lost their passkeys: at the terminal, with the end of its id typed out."""
        if typed != credential_id[-6:]:
            raise UsageError("those are not the last characters of its id; nothing was removed.")
        self._remove(tx, credential_id, TERMINAL)

    def clear(self, tx: Tx, credential_id: str, *, by: str, proof: Assertion | None) -> None:
        """Believe a suspended passkey again, by the word of another."""
        self.owner.demand(tx, purpose="passkey.clear", subject=credential_id, assertion=proof, by=by)
        self._clear(tx, credential_id, by)

    def clear_at_terminal(self, tx: Tx, credential_id: str, typed: str) -> None:
        """Believe a suspended passkey again, by the owner's word at the terminal; that is all the terminal may do for
        it while it is the only one."""
        if typed != credential_id[-6:]:
            raise UsageError("those are not the last characters of its id; it stays suspended.")
        self._clear(tx, credential_id, TERMINAL)

    def _clear(self, tx: Tx, credential_id: str, by: str) -> None:
        if not clear_passkey(tx, credential_id):
            raise UsageError(f"the passkey {credential_id!r} is not suspended.", remedy="See `coilclaw passkeys list`.")
        add_event(tx, self._clock, "passkey_cleared", credential_id, {"by": by})

    def _remove(self, tx: Tx, credential_id: str, by: str) -> None:
        if not remove_passkey(tx, self._clock, credential_id):
            raise UsageError(f"there is no passkey {credential_id!r}.", remedy="See `coilclaw passkeys list`.")
        left = len(list_passkeys(tx))
        add_event(tx, self._clock, "passkey_removed", credential_id, {"by": by, "left": left})
