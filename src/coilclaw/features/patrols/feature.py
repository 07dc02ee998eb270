"""Patrols: their routes, the open route of webhooks, and the chore that looks after quests."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving
    from coilclaw.work.worker import Chore


def patrols_part(serving: "Serving") -> "Part":
    """The routes of patrols, alerts, quests and webhooks."""
    from coilclaw.features.patrols.http_patrols import HttpPatrols
    from coilclaw.features.patrols.quests import Quests
    from coilclaw.features.patrols.routes import AlertRoutes, PatrolRoutes, QuestRoutes, WebhookRoutes
    from coilclaw.features.patrols.webhooks import Webhooks
    from coilclaw.server.part import Part

    quests = Quests(serving.runtime, serving.core.conveyor)
    return Part(
        controllers=(PatrolRoutes, AlertRoutes, QuestRoutes, WebhookRoutes),
        given={"http_patrols": HttpPatrols(serving.runtime, quests), "webhooks": Webhooks(serving.runtime)},
    )


def _chores(runtime: "Runtime", conveyor: "Conveyor") -> "tuple[Chore, ...]":
    from coilclaw.features.patrols.quests import Quests
    from coilclaw.work.worker import Chore

    return (Chore(name="quests", every=5.0, run=Quests(runtime, conveyor).upkeep),)


FEATURE = Feature(part=patrols_part, chores=_chores)
