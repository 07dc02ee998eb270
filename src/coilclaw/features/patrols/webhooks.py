"""Webhooks: signed deliveries that start configured patrols. Nothing of their body is used. See decision 0041."""

from typing import TYPE_CHECKING

from coilclaw.features.patrols.patrol_job import start_patrol
from coilclaw.features.patrols.store import waiting_jobs
from coilclaw.features.patrols.target import PatrolTarget
from coilclaw.ledger.audit import add_event
from coilclaw.store.deliveries import add_delivery, is_delivered

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.webhooks import WebhookDelivery
    from coilclaw.store.tx import Tx


class Webhooks:
    """Takes deliveries for the repositories of one home."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app

    def secret(self, repo: str) -> str:
        """What signs the deliveries of a repository; empty if it takes none."""
        settings = self._app.config.repos.get(repo)
        name = "" if settings is None else settings.webhook_secret_env
        return (self._app.keyring.get(name) if name else None) or ""

    async def deliver(self, repo: str, delivery: "WebhookDelivery") -> bool:
        """Start what the configuration names, once for each delivery; False if there was nothing to start."""
        app = self._app
        settings = app.config.repos[repo]
        target = PatrolTarget(repo=repo, room=None, kinds=settings.webhook_patrols)
        if not settings.webhook_patrols or is_delivered(app.db.reader, repo, delivery.ids):
            return False
        started = waiting_jobs(app.db.reader, target.text) == 0  # one that has not begun will see this push too
        if started:  # before it is on record: the same delivery again gives the same job, so none is lost or doubled
            await start_patrol(app, target, channel="webhook", key=f"webhook:{repo}:{delivery.body_id}")
        app.reached("webhook_started")

        def record(tx: "Tx") -> None:
            if add_delivery(tx, app.clock, repo, delivery.ids):
                delivery_id = delivery.delivery_id
                add_event(tx, app.clock, "webhook_received", repo, {"delivery_id": delivery_id, "started": started})

        await app.db.write(record)
        return started
