"""Owner proof: what a passkey is asked to sign, and what it answered."""

import hashlib
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.canonical import canonical_bytes

Purpose: TypeAlias = Literal[
    "approve",
    "resolve",
    "estop.clear",
    "passkey.add",
    "passkey.remove",
    "passkey.clear",
    "device.add",
    "device.confirm",
    "device.revoke",
]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a passkey signs: one thing, in exactly this shape, once."""

    purpose: Purpose
    subject: str
    """The id of its subject: an action, a device, a passkey; `estop` for ESTOP."""
    digest: str
    """The digest of an action; empty where there is none."""
    valid_until: str
    """The action's `expires_at`; for other purposes, the challenge's expiry."""
    nonce: str
    """Random, so that no two questions are alike."""

    @property
    def challenge(self) -> bytes:
        """The bytes the authenticator signs over."""
        return hashlib.sha256(canonical_bytes({"coilclaw": "owner proof 1", **msgspec.to_builtins(self)})).digest()


class AssertionResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The inner part of what `navigator.credentials.get` returns, base64url throughout."""

    authenticator_data: str
    client_data_json: str = msgspec.field(name="clientDataJSON")
    signature: str
    user_handle: str | None = None


class Assertion(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a challenge, as a browser sends it, with the challenge it belongs to."""

    challenge_id: str
    id: str
    response: AssertionResponse
