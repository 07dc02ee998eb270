"""A new device: makes a key of its own, signs what it is asked to, and wants to be let in."""

import base64

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from coilclaw.features.devices.feature import pairing_of


def b64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Phone:
    """`kind` is p256 (signs as browsers do: r||s), p256-der or ed25519."""

    def __init__(self, kind="p256", name="phone"):
        self.kind = kind
        self.name = name
        self.key = (
            ed25519.Ed25519PrivateKey.generate() if kind == "ed25519" else ec.generate_private_key(ec.SECP256R1())
        )
        self.public_key = b64(self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    def sign(self, text):
        if self.kind == "ed25519":
            return b64(self.key.sign(text))
        signature = self.key.sign(text, ec.ECDSA(hashes.SHA256()))
        if self.kind == "p256-der":
            return b64(signature)
        r, s = decode_dss_signature(signature)
        return b64(r.to_bytes(32, "big") + s.to_bytes(32, "big"))

    def body(self, code, wants="bearer", **changed):
        plain = code.replace("-", "").replace(" ", "").upper()
        text = b"coilclaw pairing 1\n" + plain.encode() + b"\n" + self.public_key.encode()
        return {
            "code": code,
            "name": self.name,
            "public_key": self.public_key,
            "proof_of_key": self.sign(text),
            "wants": wants,
            **changed,
        }


def issue(sample, mode="add", by="terminal", vouched=False):
    """A code, as the terminal gives it out."""
    pairing = pairing_of(sample.app)
    return sample.app.db.write_now(lambda tx: pairing.issue(tx, mode=mode, by=by, vouched=vouched))


def events(sample, *kinds):
    """Audit events of these kinds, oldest first: type, entity, payload."""
    import json

    rows = sample.app.db.reader.execute("SELECT event_type, entity_id, payload_json FROM audit_log ORDER BY seq")
    return [(row[0], row[1], json.loads(row[2])) for row in rows if row[0] in kinds]


def register_passkey(sample):
    """A passkey, so that the owner can be asked for one; nobody can sign with it."""
    from coilclaw.packets.ids import stamp
    from coilclaw.store.passkeys import Passkey, add_passkey

    passkey = Passkey(
        credential_id="cred_1",
        device_id="dev_test",
        name="key",
        public_key=b"\x00",
        sign_count=0,
        rp_id="localhost",
        aaguid="",
        transports=(),
        backed_up=False,
        created_at=stamp(sample.app.clock()),
    )
    sample.app.db.write_now(lambda tx: add_passkey(tx, passkey))
