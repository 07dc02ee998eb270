"""A passkey in software: makes and signs what a real authenticator would, and whatever one never should."""

import hashlib
import os

import cbor2
import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from coilclaw.packets.proof import Assertion
from coilclaw.secrets.passkey import Registration, encode
from coilclaw.store.passkeys import Passkey, add_passkey
from coilclaw.store.threads import ensure_owner

PRESENT, VERIFIED, BACKUP, BACKED_UP, ATTESTED = 0x01, 0x04, 0x08, 0x10, 0x40


class SoftPasskey:
    """One key pair with its counter; every wrong thing it can do is an argument."""

    def __init__(self, kind="ES256", *, rp_id="localhost", origin="http://localhost:8377"):
        self.kind = kind
        self.rp_id = rp_id
        self.origin = origin
        self.raw_id = os.urandom(32)
        self.id = encode(self.raw_id)
        self.count = 0
        self.private = {
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
            "RS256": lambda: rsa.generate_private_key(65537, 2048),
        }[kind]()

    @property
    def public_key(self):
        """The COSE key."""
        public = self.private.public_key()
        if self.kind == "EdDSA":
            return cbor2.dumps({1: 1, 3: -8, -1: 6, -2: public.public_bytes_raw()})
        numbers = public.public_numbers()
        if self.kind == "RS256":
            return cbor2.dumps({1: 3, 3: -257, -1: numbers.n.to_bytes(256, "big"), -2: numbers.e.to_bytes(3, "big")})
        size, alg, curve = (32, -7, 1) if self.kind == "ES256" else (48, -35, 2)
        return cbor2.dumps(
            {1: 2, 3: alg, -1: curve, -2: numbers.x.to_bytes(size, "big"), -3: numbers.y.to_bytes(size, "big")}
        )

    def _data(self, *, flags, count, rp_id=None, extra=b""):
        name = hashlib.sha256((rp_id or self.rp_id).encode()).digest()
        return name + bytes([flags]) + count.to_bytes(4, "big") + extra

    def _client_data(self, kind, challenge, origin, **more):
        return msgspec.json.encode(
            {
                "type": kind,
                "challenge": encode(challenge),
                "origin": origin or self.origin,
                "crossOrigin": False,
                **more,
            }
        )

    def _sign(self, data):
        if self.kind == "EdDSA":
            return self.private.sign(data)
        if self.kind == "RS256":
            return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())
        return self.private.sign(data, ec.ECDSA(hashes.SHA256() if self.kind == "ES256" else hashes.SHA384()))

    def make(self, challenge, *, flags=PRESENT | VERIFIED, origin=None, rp_id=None, kind="webauthn.create", **more):
        """What `navigator.credentials.create` gives back, as plain JSON."""
        attested = bytes(16) + len(self.raw_id).to_bytes(2, "big") + self.raw_id + self.public_key
        data = self._data(flags=flags | ATTESTED, count=self.count, rp_id=rp_id, extra=attested)
        return {
            "id": self.id,
            "rawId": self.id,
            "type": "public-key",
            "clientExtensionResults": {},
            "response": {
                "clientDataJSON": encode(self._client_data(kind, challenge, origin, **more)),
                "attestationObject": encode(cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})),
                "transports": ["internal", "telepathy"],
            },
        }

    def sign(
        self,
        challenge,
        *,
        challenge_id="",
        flags=PRESENT | VERIFIED,
        origin=None,
        rp_id=None,
        kind="webauthn.get",
        count=None,
        **more,
    ):
        """What `navigator.credentials.get` gives back, as plain JSON, with the challenge it belongs to."""
        self.count = self.count + 1 if count is None else count
        data = self._data(flags=flags, count=self.count, rp_id=rp_id)
        client_data = self._client_data(kind, challenge, origin, **more)
        return {
            "challenge_id": challenge_id,
            "id": self.id,
            "rawId": self.id,
            "type": "public-key",
            "clientExtensionResults": {},
            "response": {
                "authenticatorData": encode(data),
                "clientDataJSON": encode(client_data),
                "signature": encode(self._sign(data + hashlib.sha256(client_data).digest())),
                "userHandle": None,
            },
        }

    def registration(self, challenge, **wrong):
        """The same as `make`, typed."""
        return msgspec.convert(self.make(challenge, **wrong), Registration)

    def assertion(self, challenge, **wrong):
        """The same as `sign`, typed."""
        return msgspec.convert(self.sign(challenge, **wrong), Assertion)

    def row(self, clock, *, name="soft", device_id="dev_test"):
        """It as a registered passkey."""
        from coilclaw.packets.ids import stamp

        return Passkey(
            credential_id=self.id,
            device_id=device_id,
            name=name,
            public_key=self.public_key,
            sign_count=self.count,
            rp_id=self.rp_id,
            aaguid="",
            transports=(),
            backed_up=False,
            created_at=stamp(clock()),
        )

    def enrol(self, app, **more):
        """Register it straight in the database."""

        def write(tx):
            ensure_owner(tx, app.clock)
            assert add_passkey(tx, self.row(app.clock, **more))

        app.db.write_now(write)
        return self

    def answer(self, app, *, purpose, subject, digest="", valid_until=None, device_id="dev_test", **wrong):
        """Ask for a challenge and sign it, as the panel would."""
        made, question = app.db.write_now(
            lambda tx: app.owner_proof.ask(
                tx, purpose=purpose, subject=subject, digest=digest, valid_until=valid_until, device_id=device_id
            )
        )
        return self.assertion(question.challenge, challenge_id=made.challenge_id, **wrong)

    def approval(self, app, action, **wrong):
        """A signature for an action that waits."""
        asked = {"purpose": "approve", "subject": action.action_id, "digest": action.digest}
        return self.answer(app, **{**asked, "valid_until": action.expires_at, **wrong})
