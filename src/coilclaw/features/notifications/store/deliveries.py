"""Subscriptions to push, and deliveries: each notification on each way out of the house, a row that is claimed."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias

import msgspec

from coilclaw.features.notifications.store import NotificationRow, Type
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.store.tx import Tx

MOST_OF_A_DEVICE = 4
"""Subscriptions of one device; a further one takes the place of the oldest."""
LEASE = timedelta(seconds=60)
"""A claimed delivery that nobody ended is taken up again after this; longer than any send may take."""
MOST_UNCERTAIN = 2
"""So often a send may begin without anybody learning how it ended; then it is left at that."""

DeliveryStatus: TypeAlias = Literal["due", "sent", "failed", "unknown", "expired", "settled", "replaced"]

URL_WAY = "url"
MAIL_WAY = "smtp"


class SubscriptionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that can be reached."""

    subscription_id: str
    device_id: str
    endpoint: str
    p256dh: bytes
    auth: bytes
    created_at: str


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed delivery: what to tell, and by which way."""

    notification_id: str
    way: str
    type: Type
    entity_id: str
    attempts: int
    created_at: str


# Subscriptions

_SUBSCRIPTION = "subscription_id, device_id, endpoint, p256dh, auth, created_at"


def add_subscription(
    tx: Tx, clock: Clock, *, device_id: str, endpoint: str, p256dh: bytes, auth: bytes
) -> SubscriptionRow:
    """Keep a subscription. An endpoint that is known keeps its id and goes to whoever has it now; too many of one
    device cost it the oldest."""
    now = clock()
    tx.execute(
        "INSERT INTO push_subscriptions (subscription_id, device_id, endpoint, p256dh, auth, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (endpoint) DO UPDATE SET device_id = excluded.device_id,"
        " p256dh = excluded.p256dh, auth = excluded.auth, created_at = excluded.created_at",
        (new_id("psh", now), device_id, endpoint, p256dh, auth, stamp(now)),
    )
    tx.execute(
        "DELETE FROM push_subscriptions WHERE device_id = ? AND subscription_id NOT IN (SELECT subscription_id"
        " FROM push_subscriptions WHERE device_id = ? ORDER BY created_at DESC, rowid DESC LIMIT ?)",
        (device_id, device_id, MOST_OF_A_DEVICE),
    )
    row = tx.execute(
        f"SELECT {_SUBSCRIPTION} FROM push_subscriptions WHERE endpoint = ?",  # noqa: S608
        (endpoint,),
    ).fetchone()
    return _subscription(row)


def subscriptions_of(db: Tx, device_id: str) -> list[SubscriptionRow]:
    """The subscriptions of a device, the newest first."""
    rows = db.execute(
        f"SELECT {_SUBSCRIPTION} FROM push_subscriptions WHERE device_id = ?"  # noqa: S608
        " ORDER BY created_at DESC, rowid DESC",
        (device_id,),
    ).fetchall()
    return [_subscription(row) for row in rows]


def load_subscription(db: Tx, subscription_id: str) -> SubscriptionRow | None:
    """A subscription by its id."""
    row = db.execute(
        f"SELECT {_SUBSCRIPTION} FROM push_subscriptions WHERE subscription_id = ?",  # noqa: S608
        (subscription_id,),
    ).fetchone()
    return None if row is None else _subscription(row)


def remove_subscription(tx: Tx, subscription_id: str) -> bool:
    """Forget a subscription and what was to be sent to it; False when there was none."""
    return bool(tx.execute("DELETE FROM push_subscriptions WHERE subscription_id = ?", (subscription_id,)).rowcount)


def _subscription(row: Sequence[Any]) -> SubscriptionRow:
    return SubscriptionRow(
        subscription_id=row[0],
        device_id=row[1],
        endpoint=row[2],
        p256dh=bytes(row[3]),
        auth=bytes(row[4]),
        created_at=row[5],
    )


# Deliveries


def plan_deliveries(tx: Tx, clock: Clock, row: NotificationRow, ways: Collection[str]) -> int:
    """Write down every way a new notification is to go, in the transaction that adds it. What still waits to be said of
    the same thing is replaced by it."""
    now = stamp(clock())
    subscribed = tx.execute("SELECT subscription_id FROM push_subscriptions").fetchall()
    every = [*ways, *(each[0] for each in subscribed)]
    for way in every:
        tx.execute(
            "UPDATE notification_deliveries SET status = 'replaced', updated_at = ? WHERE way = ? AND status = 'due'"
            " AND notification_id IN (SELECT notification_id FROM notifications WHERE entity_id = ?)",
            (now, way, row.entity_id),
        )
        tx.execute(
            "INSERT INTO notification_deliveries (notification_id, way, status, next_at, created_at, updated_at)"
            " VALUES (?, ?, 'due', ?, ?, ?)",
            (row.notification_id, way, now, now, now),
        )
    return len(every)


def any_due(db: Tx, clock: Clock) -> bool:
    """Whether something is to be sent now."""
    return (
        db.execute(
            "SELECT 1 FROM notification_deliveries WHERE status = 'due' AND next_at <= ? LIMIT 1", (stamp(clock()),)
        ).fetchone()
        is not None
    )


def claim_deliveries(tx: Tx, clock: Clock, lives: dict[Type, timedelta], most: int) -> list[Delivery]:
    """Claim what is due. What is too old, was answered or seen meanwhile, or was begun too often, ends here."""
    now = clock()
    rows = tx.execute(
        "SELECT d.notification_id, d.way, n.type, n.entity_id, d.attempts + 1, n.created_at, d.uncertain,"
        " n.seen_at IS NOT NULL OR (n.type IN ('approval_needed', 'approval_expiring') AND EXISTS (SELECT 1 FROM"
        " proposed_actions a WHERE a.action_id = n.entity_id AND a.status <> 'PENDING'))"
        " FROM notification_deliveries d JOIN notifications n USING (notification_id)"
        " WHERE d.status = 'due' AND d.next_at <= ? ORDER BY d.next_at LIMIT ?",
        (stamp(now), most),
    ).fetchall()
    claimed: list[Delivery] = []
    for row in rows:
        delivery = Delivery(
            notification_id=row[0],
            way=row[1],
            type=row[2],
            entity_id=row[3],
            attempts=row[4],
            created_at=row[5],
        )
        over: DeliveryStatus | None = None
        if row[7]:
            over = "settled"
        elif delivery.created_at <= stamp(now - lives[delivery.type]):
            over = "expired"
        elif row[6] >= MOST_UNCERTAIN:
            over = "unknown"
        if over is not None:
            _set(tx, clock, delivery, status=over, code=over.upper(), certain=False, next_at=now)
            continue
        tx.execute(
            "UPDATE notification_deliveries SET attempts = attempts + 1, uncertain = uncertain + 1, next_at = ?,"
            " updated_at = ? WHERE notification_id = ? AND way = ?",
            (stamp(now + LEASE), stamp(now), delivery.notification_id, delivery.way),
        )
        claimed.append(delivery)
    return claimed


def end_delivery(
    tx: Tx, clock: Clock, delivery: Delivery, *, status: DeliveryStatus, code: str, certain: bool, wait: timedelta
) -> None:
    """Write down what a send came to. `certain`: somebody knows whether it arrived."""
    _set(tx, clock, delivery, status=status, code=code, certain=certain, next_at=clock() + wait)


def _set(
    tx: Tx, clock: Clock, delivery: Delivery, *, status: DeliveryStatus, code: str, certain: bool, next_at: Any
) -> None:
    tx.execute(
        "UPDATE notification_deliveries SET status = ?, code = ?, uncertain = uncertain - ?, next_at = ?,"
        " updated_at = ? WHERE notification_id = ? AND way = ? AND status = 'due'",
        (status, code, int(certain), stamp(next_at), stamp(clock()), delivery.notification_id, delivery.way),
    )
