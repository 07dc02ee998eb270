"""Web Push as a way out: the key that proves the sender, the browsers that asked for it, and one send."""

import math
import os
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.notifications.senders import MOST_BYTES, TIMEOUT_SECONDS, SendEnd, end_of
from coilclaw.features.notifications.store.deliveries import (
    Delivery,
    SubscriptionRow,
    add_subscription,
    load_subscription,
    remove_subscription,
    subscriptions_of,
)
from coilclaw.features.notifications.words import TELLINGS
from coilclaw.ledger.audit import add_event
from coilclaw.packets.http import HttpRequest
from coilclaw.packets.ids import from_stamp
from coilclaw.store.stored_secrets import get_secret, put_secret
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from coilclaw.runtime.runtime import Runtime

KEY_NAME = "coilclaw:push"
"""Under this name the vault has the key; no variable and no `secret set` can be called so."""
LONGEST_ID = 400
"""Keeps a message within what push services take, whatever an id is."""


class PushPayload(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser is sent. Ids alone: whoever may see what they stand for asks the server."""

    notification_id: str
    type: str
    entity_id: str


class Push:
    """Browsers of paired devices, and how they are reached."""

    def __init__(self, runtime: "Runtime") -> None:
        self._app = runtime
        self._key: EllipticCurvePrivateKey | None = None

    # Subscriptions

    async def public_key(self) -> str:
        """What a browser subscribes with."""
        from coilclaw.features.notifications.web_push import b64, point_of

        return b64(point_of((await self.key()).public_key()))

    def subscriptions(self, device_id: str) -> list[SubscriptionRow]:
        """Those of a device."""
        return subscriptions_of(self._app.db.reader, device_id)

    async def subscribe(self, device_id: str, endpoint: str, p256dh: bytes, auth: bytes, *, by: str) -> SubscriptionRow:
        """Keep a subscription, once the airlock agrees to where it leads; raises EgressRefused or TransportError."""
        await self._app.transport.check(endpoint, "push")

        def write(tx: Tx) -> SubscriptionRow:
            row = add_subscription(
                tx, self._app.clock, device_id=device_id, endpoint=endpoint, p256dh=p256dh, auth=auth
            )
            add_event(tx, self._app.clock, "device_subscribed", device_id, {"by": by, "to": row.subscription_id})
            return row

        return await self._app.db.write(write)

    async def unsubscribe(self, device_id: str, subscription_id: str, *, by: str) -> bool:
        """Forget a subscription of this device; False when it has none of that id."""

        def write(tx: Tx) -> bool:
            row = load_subscription(tx, subscription_id)
            if row is None or row.device_id != device_id:
                return False
            self._forget(tx, row, by)
            return True

        return await self._app.db.write(write)

    def _forget(self, tx: Tx, row: SubscriptionRow, by: str) -> None:
        remove_subscription(tx, row.subscription_id)
        told = {"by": by, "from": row.subscription_id}
        add_event(tx, self._app.clock, "device_unsubscribed", row.device_id, dict(told))

    async def key(self) -> "EllipticCurvePrivateKey":
        """The key that proves the sender; made once, by whichever process needs it first."""
        from coilclaw.features.notifications.web_push import new_key, read_key

        if self._key is None:
            text = get_secret(self._app.db.reader, self._app.vault, KEY_NAME)
            if text is None:
                text = await self._app.db.write(lambda tx: self._made(tx, new_key()))
            self._app.redactor.register(KEY_NAME, text)  # known to the redactor before anybody else has it
            self._key = read_key(text)
        return self._key

    def _made(self, tx: Tx, fresh: str) -> str:
        known = get_secret(tx, self._app.vault, KEY_NAME)
        if known is None:
            put_secret(tx, self._app.clock, self._app.vault, KEY_NAME, fresh)
        return known or fresh

    # Sending

    async def send(self, delivery: Delivery) -> SendEnd:
        """Push one notification to one browser. A subscription that is over is forgotten."""
        row = load_subscription(self._app.db.reader, delivery.way)
        if row is None:
            return SendEnd(status="failed", code="GONE")
        async with self._app.transport.stream(await self._request(row, delivery)) as answer:
            status, headers = answer.status, answer.headers
        if status in (404, 410):
            await self._app.db.write(lambda tx: self._forget(tx, row, "push_service"))
            return SendEnd(status="failed", code="GONE")
        return end_of(status, headers)

    async def _request(self, row: SubscriptionRow, delivery: Delivery) -> HttpRequest:
        from cryptography.hazmat.primitives.asymmetric import ec

        from coilclaw.features.notifications.web_push import SALT_BYTES, encrypt, sender_proof, topic_of

        telling, now = TELLINGS[delivery.type], self._app.clock()
        left = from_stamp(delivery.created_at) + telling.life - now  # it may have waited: for quiet hours, for a retry
        payload = msgspec.json.encode(
            PushPayload(
                notification_id=delivery.notification_id, type=delivery.type, entity_id=delivery.entity_id[:LONGEST_ID]
            )
        )
        body = encrypt(
            payload,
            p256dh=row.p256dh,
            auth=row.auth,
            sender=ec.generate_private_key(ec.SECP256R1()),
            salt=os.urandom(SALT_BYTES),
        )
        proof = sender_proof(await self.key(), row.endpoint, self._app.config.notify.contact, now.timestamp())
        return HttpRequest(
            principal="push",
            method="POST",
            url=row.endpoint,
            headers=(
                ("Authorization", proof),
                ("Content-Encoding", "aes128gcm"),
                ("Content-Type", "application/octet-stream"),
                ("TTL", str(max(0, math.ceil(left.total_seconds())))),
                ("Urgency", telling.urgency),
                ("Topic", topic_of(delivery.entity_id)),
            ),
            body=body,
            timeout_seconds=TIMEOUT_SECONDS,
            max_bytes=MOST_BYTES,
        )
