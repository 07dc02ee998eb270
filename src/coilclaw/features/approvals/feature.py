"""Approvals and actions: their routes, and carrying out at once what was approved over HTTP."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving

GRACE_SECONDS = 10.0
"""How long what has begun may go on after the server was told to stop."""


def approvals_part(serving: "Serving") -> "Part":
    """The routes of approvals and actions."""
    from coilclaw.features.approvals.prompt_execution import PromptExecution
    from coilclaw.features.approvals.routes.actions import ActionRoutes
    from coilclaw.features.approvals.routes.approvals import ApprovalRoutes
    from coilclaw.server.part import Part
    from coilclaw.server.redacting import Redacting

    execution = PromptExecution(serving.core.conveyor)

    async def rest(stop: asyncio.Event) -> None:
        await stop.wait()
        await execution.rest(GRACE_SECONDS)

    return Part(
        controllers=(ApprovalRoutes, ActionRoutes),
        given={"execution": execution, "redacting": Redacting(serving.core)},
        beside=(rest,),
    )


FEATURE = Feature(part=approvals_part)
