"""Web Push: a message encrypted for one browser (RFC 8291) and the sender's proof of itself (RFC 8292). Pure."""

import base64
import hashlib
import struct
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

POINT_BYTES = 65
AUTH_BYTES = 16
SALT_BYTES = 16
RECORD = 4096
PADDED = 512
"""Every message has this length, so that it does not tell its kind."""
TOPIC_LENGTH = 32
PROOF_SECONDS = 12 * 3600


def b64(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def new_key() -> str:
    """A new key to prove the sender with, as text."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return b64(ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value.to_bytes(32, "big"))


def read_key(text: str) -> "EllipticCurvePrivateKey":
    """The key that `new_key` wrote."""
    from cryptography.hazmat.primitives.asymmetric import ec

    value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return ec.derive_private_key(int.from_bytes(value, "big"), ec.SECP256R1())


def read_point(data: bytes) -> "EllipticCurvePublicKey":
    """A browser's public key; ValueError when it is not a point of the curve."""
    from cryptography.hazmat.primitives.asymmetric import ec

    if len(data) != POINT_BYTES:
        raise ValueError("not an uncompressed point")
    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data)


def point_of(key: "EllipticCurvePublicKey") -> bytes:
    """A public key as the bytes browsers want: an uncompressed point."""
    numbers = key.public_numbers()  # `public_bytes` needs cryptography's serialization: half a megabyte of modules
    return b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")


def encrypt(
    message: bytes, *, p256dh: bytes, auth: bytes, sender: "EllipticCurvePrivateKey", salt: bytes, padded: int = PADDED
) -> bytes:
    """The body of a push request, in one record of aes128gcm. `sender` is a key for this message alone."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    def derive(length: int, salt: bytes, secret: bytes, info: bytes) -> bytes:
        return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(secret)

    ours = point_of(sender.public_key())
    shared = sender.exchange(ec.ECDH(), read_point(p256dh))
    secret = derive(32, auth, shared, b"WebPush: info\0" + p256dh + ours)
    key = derive(16, salt, secret, b"Content-Encoding: aes128gcm\0")
    nonce = derive(12, salt, secret, b"Content-Encoding: nonce\0")
    plain = (message + b"\x02").ljust(padded, b"\0")
    header = salt + struct.pack("!IB", RECORD, len(ours)) + ours
    return header + AESGCM(key).encrypt(nonce, plain, None)


def sender_proof(key: "EllipticCurvePrivateKey", endpoint: str, contact: str, now: float) -> str:
    """The Authorization header: for this push service, for half a day."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    parts = urlsplit(endpoint)
    claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": int(now) + PROOF_SECONDS, "sub": contact}
    text = f"{b64(msgspec.json.encode({'typ': 'JWT', 'alg': 'ES256'}))}.{b64(msgspec.json.encode(claims))}"
    r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(SHA256())))
    signature = b64(r.to_bytes(32, "big") + s.to_bytes(32, "big"))
    return f"vapid t={text}.{signature},k={b64(point_of(key.public_key()))}"


def topic_of(entity_id: str) -> str:
    """What a newer message replaces an older one by; the push service cannot read the id from it."""
    return b64(hashlib.sha256(entity_id.encode()).digest())[:TOPIC_LENGTH]
