"""The overview: what happened over some days, counted, and what waits for the owner now."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.jobs.lifecycle import COARSE
from coilclaw.features.status.store import Counted, DayCount, OverviewReader
from coilclaw.features.status.usage_cost import bill
from coilclaw.packets.decision import Risk, Verdict
from coilclaw.packets.job import CoarseState

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

MOST_TOOLS = 50


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


class OverviewCounts:
    """Counts for the overview, apart from everything else."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._reader = OverviewReader(app.db.path, app.clock)

    async def count(self, days: int) -> Overview:
        """Count the last days, today included."""
        counted = await asyncio.to_thread(self._reader.count, days)
        today = counted.days[-1].usage
        used, daily = sum(row.input_tokens + row.output_tokens for row in today), self._app.config.budgets.daily_tokens
        waits, evidence = counted.waits, counted.evidence
        verdicts, risks = counted.total("verdicts"), counted.total("risks")
        return Overview(
            since=counted.days[0].day,
            days=[self._day(day) for day in counted.days],
            verdicts={"allow": verdicts["allow"], "ask": verdicts["ask"], "deny": verdicts["deny"]},
            risks={"R0": risks["R0"], "R1": risks["R1"], "R2": risks["R2"], "R3": risks["R3"]},
            approvals=_answers(counted),
            tools=_tools(counted),
            schedules=_runs(counted),
            evidence=OverviewEvidence(
                looked_at=evidence.looked_at,
                complete=evidence.complete,
                percent=_percent(evidence.complete, evidence.looked_at),
            ),
            waiting=OverviewWaiting(
                approvals=waits.approvals,
                unknown_actions=waits.unknown_actions,
                paused_schedules=waits.paused_schedules,
                paused_jobs=waits.paused_jobs,
                waiting_jobs=waits.waiting_jobs,
                notifications=waits.notifications,
            ),
            budget=OverviewBudget(daily_tokens=daily, used_today=used, left_today=max(0, daily - used)),
            estop=self._app.estop.engaged(),
        )

    def _day(self, day: DayCount) -> OverviewDay:
        spent = bill(day.day, day.usage, self._app.config.prices)
        states: dict[CoarseState, int] = {}
        for state, count in day.jobs.items():
            states[COARSE[state]] = states.get(COARSE[state], 0) + count
        over = {name: states.pop(name, 0) for name in ("COMPLETED", "FAILED", "CANCELLED")}
        return OverviewDay(
            day=day.day,
            completed=over["COMPLETED"],
            failed=over["FAILED"],
            cancelled=over["CANCELLED"],
            open=sum(states.values()),
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cost_millionths=spent.cost_millionths,
            unpriced_tokens=spent.unpriced_tokens,
        )


def _answers(counted: Counted) -> OverviewAnswers:
    said = counted.total("answers")
    return OverviewAnswers(
        asked=said.total(),
        approved=said["approved"],
        rejected=said["rejected"],
        expired=said["expired"],
        waiting=said["waiting"],
        median_wait_seconds=counted.median_wait(),
    )


def _tools(counted: Counted) -> list[OverviewTool]:
    return [
        OverviewTool(
            tool=tool,
            calls=count.total(),
            executed=count["EXECUTED"],
            rejected=count["REJECTED"],
            failed=count["FAILED"],
            unknown=count["UNKNOWN"],
            waiting=count["PENDING"] + count["APPROVED"],
        )
        for tool, count in counted.tools(MOST_TOOLS)
    ]


def _runs(counted: Counted) -> OverviewRuns:
    ends = counted.total("runs")
    failed = ends["FAILED"] + ends["TIMED_OUT"] + ends["DENIED"]
    return OverviewRuns(
        started=ends["DONE"] + failed + ends["CANCELLED"] + ends["STARTED"],
        succeeded=ends["DONE"],
        failed=failed,
        cancelled=ends["CANCELLED"],
        running=ends["STARTED"],
        queued=ends["QUEUED"],
        skipped_slots=ends["SKIPPED"],
        success_percent=_percent(ends["DONE"], ends["DONE"] + failed),
    )


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None
