"""Where an App signs in at the fake GitHub: its JWT, and what its installation may do. Not for production."""

import base64
import time
from collections.abc import Mapping
from pathlib import Path

from coilclaw.packets.canonical import JsonObject, parse_object
from coilclaw.sandbox.fake_github_shapes import WHEN


def installation_shape(number: int, app_id: int, account: JsonObject, permissions: Mapping[str, str]) -> JsonObject:
    """An installation of the App, with everything that its owner granted."""
    url = "https://api.github.com/x"
    return {
        "id": number, "app_id": app_id, "app_slug": "coilclaw", "target_id": account["id"], "target_type": "User",
        "single_file_name": None, "repository_selection": "selected", "access_tokens_url": url, "html_url": url,
        "repositories_url": url, "events": [], "account": account, "permissions": {**permissions}, "created_at": WHEN,
        "updated_at": WHEN, "suspended_by": None, "suspended_at": None,
    }  # fmt: skip


def is_signed(token: str, app_id: int, public_key: bytes) -> bool:
    """Whether this is a JWT of the App: RS256, its issuer, not older than ten minutes."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        head, claims, signature = (base64.urlsafe_b64decode(part + "==") for part in token.split("."))
        key = load_pem_public_key(public_key)
        if not isinstance(key, rsa.RSAPublicKey):
            return False
        key.verify(signature, token.rpartition(".")[0].encode(), padding.PKCS1v15(), SHA256())
        fields, now = parse_object(claims), time.time()
    except (ValueError, InvalidSignature):
        return False
    begins, ends = fields.get("iat"), fields.get("exp")
    if not isinstance(begins, int) or not isinstance(ends, int) or parse_object(head).get("alg") != "RS256":
        return False
    return str(fields.get("iss")) == str(app_id) and begins <= now < ends <= begins + 660


def public_half(private: Path) -> bytes:
    """The public key that belongs to the App's private key in a file."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    key = load_pem_private_key(private.read_bytes(), None).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
