"""Signed deliveries, as GitHub sends them: one verifier for every route that takes them.

Such a route is open at the door, because the signature is the proof. Nothing of the body is used.
"""

import hashlib
import hmac
import re
from typing import Any

import msgspec
from litestar import Request

from coilclaw.server.problems import Trouble

_DELIVERY = re.compile(r"[A-Za-z0-9._:-]{8,128}")
_SIGNATURE = re.compile(r"sha256=[0-9a-f]{64}")


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery whose raw bytes were signed with the secret of its route."""

    delivery_id: str
    event: str
    """What happened, by its header. It is not signed: it may wake somebody, and decide nothing."""
    body_id: str
    """Names its body. The signature covers nothing else: the same body under another id is the same delivery."""

    @property
    def ids(self) -> tuple[str, str]:
        """What it is remembered by."""
        return self.body_id, self.delivery_id


async def signed_delivery(request: Request[Any, Any, Any], secret: str) -> WebhookDelivery:
    """The delivery, or a refusal. A route without a secret takes none, which costs and tells the same."""
    body = await request.body()
    delivery_id = request.headers.get("x-github-delivery", "")
    signed = is_signed(secret or "no secret", body, request.headers.get("x-hub-signature-256", ""))
    if not secret or not signed or _DELIVERY.fullmatch(delivery_id) is None:
        raise Trouble(
            403,
            "NOT_SIGNED",
            "this delivery is not signed for this place.",
            remedy="Sign the raw body: `X-Hub-Signature-256: sha256=…`, with a delivery id of 8+ characters.",
        )
    body_id = f"body:{hashlib.sha256(body).hexdigest()}"
    return WebhookDelivery(delivery_id=delivery_id, event=request.headers.get("x-github-event", ""), body_id=body_id)


def is_signed(secret: str, body: bytes, signature: str) -> bool:
    """Whether the raw body was signed with the secret, compared in constant time."""
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return _SIGNATURE.fullmatch(signature) is not None and hmac.compare_digest(f"sha256={made}", signature)
