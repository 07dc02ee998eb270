"""Notices, put together from an App: what the agent reaches out by, and the worker's chore that tells the owner."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coilclaw.app.app import App
    from coilclaw.jobs.worker import Chore
    from coilclaw.tools.reach_out import Post

LOOK_SECONDS = 1.0
"""How often a worker looks whether there is something to tell; a look at nothing is a few indexed queries."""


def reach_out_of(app: "App") -> "Post":
    """Posts what the agent says to the owner by itself; the database is opened only then."""

    async def post(idempotency_key: str, reason: str, message: str) -> str:
        from coilclaw.jobs.reach_outs import ReachOuts

        return await ReachOuts(db=app.db, clock=app.clock, redact=app.redact).post(idempotency_key, reason, message)

    return post


def notifier_chore(app: "App") -> "Chore":
    """The notifier as something a worker does now and then."""
    from coilclaw.jobs.notifier import Notifier
    from coilclaw.jobs.worker import Chore

    return Chore(name="notify", every=LOOK_SECONDS, run=Notifier(db=app.db, clock=app.clock).tick)
