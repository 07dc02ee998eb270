"""Work over HTTP: jobs, procedures, schedules, the overview, notifications."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.app.bills import bill
from coilclaw.app.fronts.front import Front
from coilclaw.app.fronts.jobs import Jobs
from coilclaw.app.fronts.schedules import TimeTable
from coilclaw.app.fronts.sop_runs import SopRuns
from coilclaw.jobs.lifecycle import COARSE
from coilclaw.packets.job import CoarseState
from coilclaw.server.part import Part
from coilclaw.server.routes.jobs import JobRoutes
from coilclaw.server.routes.notifications import NotificationRoutes
from coilclaw.server.routes.overview import (
    Overview,
    OverviewAnswers,
    OverviewBudget,
    OverviewDay,
    OverviewEvidence,
    OverviewRoutes,
    OverviewRuns,
    OverviewTool,
    OverviewWaiting,
)
from coilclaw.server.routes.schedules import ScheduleRoutes
from coilclaw.server.routes.sop_runs import SopRunRoutes
from coilclaw.server.routes.sops import SopRoutes
from coilclaw.store.overview import Almanac, Counted, DayCount

if TYPE_CHECKING:
    from coilclaw.app.app import App

MOST_TOOLS = 50


def work_part(front: Front) -> Part:
    """Everything about work."""
    return Part(
        controllers=(JobRoutes, SopRoutes, SopRunRoutes, ScheduleRoutes, OverviewRoutes, NotificationRoutes),
        given={
            "job_desk": Jobs(front),
            "run_desk": SopRuns(front),
            "schedule_desk": TimeTable(front),
            "overview_desk": Statistics(front.app),
        },
    )


class Statistics:
    """Counts for the overview, apart from everything else."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._almanac = Almanac(app.db.path, app.clock)

    async def count(self, days: int) -> Overview:
        """Count the last days, today included."""
        counted = await asyncio.to_thread(self._almanac.count, days)
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
