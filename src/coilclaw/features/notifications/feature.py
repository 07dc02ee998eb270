"""Notifications: their routes, and the chores that tell the owner."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving
    from coilclaw.tools.reach_out import Post
    from coilclaw.work.worker import Chore

LOOK_SECONDS = 1.0
"""How often a worker looks whether there is something to tell; a look at nothing is a few indexed queries."""


def notifications_part(serving: "Serving") -> "Part":
    """The routes of notifications."""
    from coilclaw.features.notifications.push import Push
    from coilclaw.features.notifications.routes import NotificationRoutes, PushRoutes
    from coilclaw.server.part import Part

    return Part(controllers=(NotificationRoutes, PushRoutes), given={"push": Push(serving.runtime)})


def reach_out_of(runtime: "Runtime") -> "Post":
    """Posts what the agent says to the owner by itself; the database is opened only then."""

    async def post(idempotency_key: str, reason: str, message: str) -> tuple[str, str | None]:
        from coilclaw.features.notifications.reach_outs import ReachOuts

        posting = ReachOuts(db=runtime.db, clock=runtime.clock, redact=runtime.redact)
        return await posting.post(idempotency_key, reason, message)

    return post


def notifier_chore(runtime: "Runtime") -> "Chore":
    """The notifier as something a worker does now and then."""
    from coilclaw.features.notifications.notifier import Notifier
    from coilclaw.work.worker import Chore

    notifier = Notifier(db=runtime.db, clock=runtime.clock, settings=lambda: runtime.config.notify)
    return Chore(name="notify", every=LOOK_SECONDS, run=notifier.tick)


def delivery_chore(runtime: "Runtime") -> "Chore":
    """Sending as something a worker does now and then; a round with a slow address holds up no other."""
    from coilclaw.features.notifications.deliveries import Deliveries
    from coilclaw.work.worker import Chore

    return Chore(name="deliver", every=LOOK_SECONDS, run=Deliveries(runtime).tick, at_once=4)


def _chores(runtime: "Runtime", _: "Conveyor") -> "tuple[Chore, ...]":
    return notifier_chore(runtime), delivery_chore(runtime)


FEATURE = Feature(part=notifications_part, chores=_chores)
