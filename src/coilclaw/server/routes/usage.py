"""Usage over HTTP: tokens, what they cost, and how much of the budgets is left."""

from collections.abc import Awaitable
from typing import Annotated, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

UsageBy: TypeAlias = Literal["model", "provider", "day", "job"]
Grouped: TypeAlias = Annotated[UsageBy, QueryParameter(description="What the rows are added up by.")]
Days: TypeAlias = Annotated[int, QueryParameter(ge=1, le=366, description="How many days, with today; days are UTC.")]


class UsageBill(msgspec.Struct, frozen=True, kw_only=True):
    """What one group took, and what it cost as far as prices are known."""

    group: str
    """The model, the provider, the day as 2026-03-01, or the job; empty for what belongs to no job."""
    answers: int
    input_tokens: int
    output_tokens: int
    estimated_tokens: int
    """How many of the tokens are our own estimate, because a provider did not say."""
    cost_millionths: int | None
    """In millionths of the currency that the prices are in; null when no price is known."""
    unpriced_tokens: int
    """Tokens of models without a price; the cost leaves them out."""


class UsageBudgets(msgspec.Struct, frozen=True, kw_only=True):
    """The ceilings, and what is left of them today."""

    daily_tokens: int
    used_today: int
    left_today: int
    job_tokens: int
    """What one job may use."""
    turn_tokens: int
    """What one turn may use."""


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """What answers took."""

    by: UsageBy
    since: str
    rows: list[UsageBill]
    total: UsageBill
    budgets: UsageBudgets


@runtime_checkable
class UsageDesk(Protocol):
    """Usage, as the App adds it up."""

    def report(self, by: UsageBy, days: int) -> Awaitable[UsageReport]:
        """What was used in so many days."""
        ...


class UsageController(Controller):
    """Tokens and what they cost."""

    path = "/v1/usage"
    tags = ("usage",)

    @get(operation_id="getUsage")
    async def show(self, usage_desk: NamedDependency[UsageDesk], by: Grouped = "model", days: Days = 7) -> UsageReport:
        """The tokens that were used, what they cost, and what is left of today's budget."""
        return await usage_desk.report(by, days)
