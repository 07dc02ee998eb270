"""The overview: what happened over some days, for charts, and what waits for the owner now."""

import asyncio
from typing import Annotated, Protocol, runtime_checkable

import msgspec
from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from coilclaw.packets.decision import Risk, Verdict
from coilclaw.server.core import Core
from coilclaw.server.views.actions import redacted


class OverviewDay(msgspec.Struct, frozen=True, kw_only=True):
    """One day (UTC): the jobs that were made on it by how they stand now, and what was spent on it."""

    day: str
    completed: int
    failed: int
    cancelled: int
    open: int
    """Jobs that are not over."""
    input_tokens: int
    output_tokens: int
    cost_millionths: int | None
    """In millionths of the currency that the prices are in; null when no price is known."""
    unpriced_tokens: int
    """Tokens of models without a price; the cost leaves them out."""


class OverviewAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """What was put to the owner, and what they said."""

    asked: int
    approved: int
    rejected: int
    """Refused by the owner, or withdrawn because nobody needed it any more."""
    expired: int
    waiting: int
    median_wait_seconds: float | None
    """From a question to its answer; null when there was none."""


class OverviewTool(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one tool, by what became of them."""

    tool: str
    calls: int
    executed: int
    rejected: int
    failed: int
    unknown: int
    waiting: int
    """Not answered, or approved and not carried out yet."""


class OverviewRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of schedules, by how they ended."""

    started: int
    succeeded: int
    failed: int
    cancelled: int
    running: int
    queued: int
    skipped_slots: int
    success_percent: float | None
    """Of the runs that succeeded or failed; null when there were none."""


class OverviewEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are over, and how many of them left all they had to."""

    looked_at: int
    """The newest thousand at most."""
    complete: int
    percent: float | None


class OverviewWaiting(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for the owner now."""

    approvals: int
    unknown_actions: int
    """Actions whose end nobody knows."""
    paused_schedules: int
    paused_jobs: int
    """Jobs that stopped because a budget is used up."""
    waiting_jobs: int
    """Jobs that wait for an approval."""
    notifications: int
    """Not seen yet, but for questions that were answered since; counted up to a thousand."""


class OverviewBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Today's share of the tokens."""

    daily_tokens: int
    used_today: int
    left_today: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything for the first screen."""

    since: str
    """The first day."""
    days: list[OverviewDay]
    """The oldest first, every day of them."""
    verdicts: dict[Verdict, int]
    """Decisions of the gate by what it said."""
    risks: dict[Risk, int]
    """The same decisions by risk."""
    approvals: OverviewAnswers
    tools: list[OverviewTool]
    """The fifty that were called most."""
    schedules: OverviewRuns
    evidence: OverviewEvidence
    waiting: OverviewWaiting
    budget: OverviewBudget
    estop: bool
    """ESTOP is engaged: everything is held."""


@runtime_checkable
class OverviewDesk(Protocol):
    """Who counts."""

    async def count(self, days: int) -> Overview:
        """Count the last days, today included."""
        ...


class OverviewRoutes(Controller):
    """The state of things."""

    path = "/v1/overview"
    tags = ("overview",)

    @get("/", operation_id="getOverview", summary="What happened, and what waits")
    async def show(
        self,
        core: NamedDependency[Core],
        overview_desk: NamedDependency[OverviewDesk],
        days: Annotated[int, QueryParameter(ge=1, le=366, description="How many days, with today.")] = 30,
    ) -> Overview:
        """What happened over some days, counted by day, and what waits for the owner now. Days are UTC; a day that is
        over for long may be some minutes old."""
        return await asyncio.to_thread(redacted, core, await overview_desk.count(days))  # a year takes its time
