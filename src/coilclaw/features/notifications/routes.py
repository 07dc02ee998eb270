"""Notifications: what the owner is told to look at, by ids alone."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter

from coilclaw.features.notifications.store import (
    NotificationRow,
    Reason,
    Type,
    count_unseen,
    notifications_before,
    see_until,
)
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.pages import Cursor, Limit, read_cursor, write_cursor
from coilclaw.server.problems import NotThere, problems
from coilclaw.store.tx import Tx

Entity: TypeAlias = Literal["action", "job", "thread"]


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
}


def _shown(row: NotificationRow) -> Notification:
    reached: Entity = "job" if row.job_id is not None and row.entity_id == row.job_id else "thread"
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
