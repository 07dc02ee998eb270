"""Usage over HTTP: tokens, what they cost, and how much of the budgets is left."""

from typing import Annotated, TypeAlias

from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from coilclaw.features.status.usage_cost import UsageBy, UsageReport, UsageReports

Grouped: TypeAlias = Annotated[UsageBy, QueryParameter(description="What the rows are added up by.")]
Days: TypeAlias = Annotated[int, QueryParameter(ge=1, le=366, description="How many days, with today; days are UTC.")]


class UsageController(Controller):
    """Show token usage and cost."""

    path = "/v1/usage"
    tags = ("usage",)

    @get(operation_id="getUsage")
    async def show(self, usage: NamedDependency[UsageReports], by: Grouped = "model", days: Days = 7) -> UsageReport:
        """The tokens that were used, what they cost, and what is left of today's budget."""
        return await usage.report(by, days)
