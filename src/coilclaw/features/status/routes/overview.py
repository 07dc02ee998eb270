"""The overview: what happened over some days, for charts, and what waits for the owner now."""

import asyncio
from typing import Annotated

from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from coilclaw.features.approvals.views import redacted
from coilclaw.features.status.overview import Overview, OverviewCounts
from coilclaw.server.core import Core


class OverviewRoutes(Controller):
    """The state of things."""

    path = "/v1/overview"
    tags = ("overview",)

    @get("/", operation_id="getOverview", summary="What happened, and what waits")
    async def show(
        self,
        core: NamedDependency[Core],
        overview: NamedDependency[OverviewCounts],
        days: Annotated[int, QueryParameter(ge=1, le=366, description="How many days, with today.")] = 30,
    ) -> Overview:
        """What happened over some days, counted by day, and what waits for the owner now. Days are UTC; a day that is
        over for long may be some minutes old."""
        return await asyncio.to_thread(redacted, core, await overview.count(days))  # a year takes its time
