"""What the routes of patrols do."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from coilclaw.features.patrols.patrol_job import start_patrol
from coilclaw.features.patrols.quests import Quests
from coilclaw.features.patrols.store import mute, needed_alert, resolve
from coilclaw.features.patrols.target import target_of
from coilclaw.features.patrols.views import AlertView, BuildingView, alert_view, buildings_of
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.jobs import JobRow
    from coilclaw.store.tx import Tx

LONGEST_MUTE = timedelta(days=365)


class HttpPatrols:
    """Patrols, alerts and quests of a home for callers over HTTP."""

    def __init__(self, app: "Runtime", quests: Quests) -> None:
        self.app = app
        self.quests = quests

    def buildings(self) -> list[BuildingView]:
        """Every building and how it is."""
        return buildings_of(self.app)

    async def run(self, repo: str, kinds: str, room: str | None, key: str | None) -> "JobRow":
        """Start a patrol by the word of a paired device."""
        target = target_of(self.app, repo, kinds, room)
        return await start_patrol(self.app, target, channel="panel", key=key or "")

    async def mute(self, alert_id: str, *, reason: str, until: datetime, by: str) -> AlertView:
        """Say nothing of an alert for a while."""
        return await muted(self.app, alert_id, reason=reason, until=until, by=by)

    async def resolve(self, alert_id: str, *, by: str) -> AlertView:
        """Close an alert by hand."""
        return await resolved(self.app, alert_id, by=by)


async def muted(app: "Runtime", alert_id: str, *, reason: str, until: datetime, by: str) -> AlertView:
    """Mute an alert, which needs a reason and an end that is not far away."""
    now = app.clock()
    why = app.redact(" ".join(reason.split()))
    if not why:
        raise UsageError("a muted alert needs a reason.", remedy="Say why, in a few words.")
    if not now < until <= now + LONGEST_MUTE:
        raise UsageError("an alert can be muted for at most a year.", remedy="Choose a time from now on.")

    def write(tx: "Tx") -> AlertView:
        return alert_view(mute(tx, app.clock, needed_alert(tx, alert_id), reason=why[:400], until=until, by=by), now)

    return await app.db.write(write)


async def resolved(app: "Runtime", alert_id: str, *, by: str) -> AlertView:
    """Resolve an alert; a run that sees it again raises it again."""

    def write(tx: "Tx") -> AlertView:
        return alert_view(resolve(tx, app.clock, needed_alert(tx, alert_id), by=by), app.clock())

    return await app.db.write(write)
