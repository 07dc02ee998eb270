"""Notifications: what the owner is told to look at, by ids alone, and the browsers that are told while closed."""

import binascii
import hashlib
from base64 import urlsafe_b64decode
from typing import Annotated, Literal, TypeAlias

import msgspec
from litestar import Controller, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter

from coilclaw.features.notifications.push import Push
from coilclaw.features.notifications.store import (
    ACCOUNT,
    GUEST,
    NotificationRow,
    Reason,
    Type,
    count_unseen,
    notifications_before,
    see_until,
)
from coilclaw.features.notifications.store.deliveries import SubscriptionRow
from coilclaw.features.notifications.web_push import AUTH_BYTES, read_point
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import EgressRefused, TransportError
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.pages import Cursor, Limit, read_cursor, write_cursor
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.store.tx import Tx

Entity: TypeAlias = Literal["action", "job", "thread", "account", "guest", "session"]


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """Something to look at. It holds ids only: what they stand for is fetched by whoever may see it."""

    notification_id: str
    type: Type
    reason: Reason | None
    """Why the agent reached out; null for the other types."""
    entity: Entity
    """What `entity_id` is the id of."""
    entity_id: str
    thread_id: str | None
    job_id: str | None
    seen_at: str | None
    created_at: str


class Notifications(msgspec.Struct, frozen=True, kw_only=True):
    """Notifications, and how many were not seen."""

    items: list[Notification]
    next_cursor: str | None
    """Hand it back as `cursor` for what follows; null at the end."""
    unseen: int
    """Counted up to a thousand."""


class SeenUntil(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was seen."""

    until: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """The id of the newest notification that was seen; it and all before it are."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What that changed."""

    seen: int
    """Notifications that were not seen before."""
    unseen: int
    """Counted up to a thousand."""


class NotificationRoutes(Controller):
    """What the owner is told."""

    path = "/v1/notifications"
    tags = ("notifications",)

    @get("/", operation_id="listNotifications", summary="Notifications, newest first")
    async def list_all(
        self,
        core: NamedDependency[Core],
        unseen: Annotated[bool, QueryParameter(description="Only unseen notifications.")] = False,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Notifications:
        """Notifications, newest first, and how many were not seen."""
        db = core.db.reader
        rows = notifications_before(db, read_cursor(cursor, int), limit + 1, unseen=unseen)
        more = len(rows) > limit
        return Notifications(
            items=[_shown(row) for row in rows[:limit]],
            next_cursor=write_cursor(rows[limit - 1].seq) if more else None,
            unseen=count_unseen(db),
        )

    @post(
        "/seen",
        operation_id="seeNotifications",
        summary="Mark notifications as seen",
        status_code=200,
        responses=problems(404),
    )
    async def see(
        self, core: NamedDependency[Core], caller: NamedDependency[Caller], data: JSONBody[SeenUntil]
    ) -> Seen:
        """Note that a notification and all before it were seen, by whichever device."""

        def write(tx: Tx) -> int | None:
            seen = see_until(tx, core.clock, data.until)
            if seen:
                told: dict[str, Json] = {"until": data.until, "seen": seen, "by": caller.by}
                add_event(tx, core.clock, "notifications_seen", "notifications", told)
            return seen

        seen = await core.db.write(write)
        if seen is None:
            raise NotThere("such notification", "See GET /v1/notifications.")
        return Seen(seen=seen, unseen=count_unseen(core.db.reader))


_ENTITY: dict[Type, Entity] = {
    "approval_needed": "action",
    "approval_expiring": "action",
    "job_failed": "job",
    "job_completed": "job",
    "alert_raised": "job",
    "session_waiting": "session",
}


def _shown(row: NotificationRow) -> Notification:
    reached: Entity = "job" if row.job_id is not None and row.entity_id == row.job_id else "thread"
    if row.entity_id.startswith(ACCOUNT):
        reached = "account"
    if row.entity_id.startswith(GUEST):
        reached = "guest"
    return Notification(
        notification_id=row.notification_id,
        type=row.type,
        reason=row.reason,
        entity=_ENTITY.get(row.type, reached),
        entity_id=row.entity_id,
        thread_id=row.thread_id,
        job_id=row.job_id,
        seen_at=row.seen_at,
        created_at=row.created_at,
    )


# Web Push

BrowserKey = Annotated[str, msgspec.Meta(min_length=16, max_length=200, pattern=r"^[A-Za-z0-9_-]+={0,2}$")]


class BrowserKeys(msgspec.Struct, frozen=True, kw_only=True):
    """What a message for this browser is encrypted with, in base64url."""

    p256dh: BrowserKey
    auth: BrowserKey


class NewSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription, as a browser's `PushSubscription.toJSON()` writes it; further fields are ignored."""

    endpoint: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    """Where its push service takes messages: a public https address."""
    keys: BrowserKeys


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A browser of this device that is told while the panel is closed."""

    subscription_id: str
    endpoint_sha256: str
    """The SHA-256 of its endpoint, in hex: a browser finds out whether its own subscription is among them."""
    host: str
    """The push service."""
    created_at: str


class PushState(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser needs to subscribe, and what this device has subscribed."""

    public_key: str
    """The `applicationServerKey`, in base64url."""
    subscriptions: list[Subscription]


class PushRoutes(Controller):
    """Browsers that are told while the panel is closed."""

    path = "/v1/push"
    tags = ("notifications",)

    @get("/", operation_id="showPush", summary="The key to subscribe with, and this device's subscriptions")
    async def show(self, caller: NamedDependency[Caller], push: NamedDependency[Push]) -> PushState:
        """The public key that browsers subscribe with, and what the calling device has subscribed."""
        mine = [_subscription(row) for row in push.subscriptions(caller.device_id)]
        return PushState(public_key=await push.public_key(), subscriptions=mine)

    @post(
        "/subscriptions",
        operation_id="addPushSubscription",
        summary="Subscribe this device",
        status_code=201,
        responses=problems(422),
    )
    async def add(
        self, caller: NamedDependency[Caller], push: NamedDependency[Push], data: JSONBody[NewSubscription]
    ) -> Subscription:
        """Have the calling device told by Web Push, until it is revoked or signed out. It is sent ids alone.

        The airlock must agree to the endpoint: a public https address. A device has at most four; the oldest goes.
        """
        p256dh, auth = _key_bytes(data.keys.p256dh), _key_bytes(data.keys.auth)
        try:
            read_point(p256dh)
        except ValueError:
            p256dh = b""
        if not p256dh or len(auth) != AUTH_BYTES:
            raise Trouble(
                422, "BAD_KEYS", "these are not the keys of a push subscription.", remedy="Send what the browser gave."
            )
        try:
            row = await push.subscribe(caller.device_id, data.endpoint, p256dh, auth, by=caller.by)
        except EgressRefused as error:
            raise Trouble(
                422, "ENDPOINT_REFUSED", error.message, remedy="Only public push services are used."
            ) from error
        except TransportError as error:
            raise Trouble(422, "ENDPOINT_UNKNOWN", error.message, remedy="Check the network, then retry.") from error
        return _subscription(row)

    @delete(
        "/subscriptions/{subscription_id:str}",
        operation_id="removePushSubscription",
        summary="Unsubscribe this device",
        status_code=204,
        responses=problems(404),
    )
    async def remove(
        self, caller: NamedDependency[Caller], push: NamedDependency[Push], subscription_id: FromPath[str]
    ) -> None:
        """End a subscription of the calling device; what was still to be sent to it is not."""
        if not await push.unsubscribe(caller.device_id, subscription_id, by=caller.by):
            raise NotThere("such subscription of this device", "See GET /v1/push.")


def _key_bytes(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except binascii.Error:
        return b""


def _subscription(row: SubscriptionRow) -> Subscription:
    from urllib.parse import urlsplit

    return Subscription(
        subscription_id=row.subscription_id,
        endpoint_sha256=hashlib.sha256(row.endpoint.encode()).hexdigest(),
        host=urlsplit(row.endpoint).hostname or "",
        created_at=row.created_at,
    )
