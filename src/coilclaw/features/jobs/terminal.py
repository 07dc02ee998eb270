"""Showing jobs: how one stands, and working on one in this process while its progress is told."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from coilclaw.cli.output import counted, moment
from coilclaw.cli.phrases import JOBS
from coilclaw.features.jobs.job_views import models_of, waiting_for
from coilclaw.packets.job import ENDED, JobState
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.features.jobs.background import Background
    from coilclaw.packets.action import Action
    from coilclaw.runtime import Runtime
    from coilclaw.store.jobs import JobEvent, JobRow

POLL_SECONDS = 0.2
GRACE_SECONDS = 1.0
"""How long a step may continue after its watcher has left."""
RESTS: frozenset[JobState] = frozenset({*ENDED, "WAITING_APPROVAL", "PAUSED_BUDGET"})
"""Where nothing more happens by itself for a while."""


def lines(app: "Runtime", row: "JobRow") -> list[str]:
    """The same for people."""
    from coilclaw.store.job_history import job_artifacts, last_answer, pull_named, sessions_named
    from coilclaw.store.jobs import job_events, job_files
    from coilclaw.store.usage import tokens_of_job

    db = app.db.reader
    told = [
        f"job:       {row.job_id}",
        f"goal:      {one_line(row.goal)}",
        f"state:     {JOBS[row.state]}{': ' + one_line(row.reason) if row.reason else ''}",
        f"thread:    {row.thread_id}",
        f"created:   {moment(row.created_at)}, due by {moment(row.deadline_at or '-')}",
        f"tokens:    {tokens_of_job(db, row.job_id)} of {row.budget.tokens}",
    ]
    if row.state not in ENDED and row.worker is None and row.next_wakeup_at and row.state != "WAITING_APPROVAL":
        told.append(f"resumes:   {moment(row.next_wakeup_at)}{f' (try {row.attempt + 1})' if row.attempt else ''}")
    pull = pull_named(db, row.job_id)
    if pull is not None:
        told.append(f"pull:      #{pull.number}, {pull.state.lower()}: coilclaw pr show {pull.number}")
    for session_id, state in sessions_named(db, job_id=row.job_id):
        told.append(f"session:   {session_id}, {state}: coilclaw session attach {session_id}")
    told += _limits(row)
    if row.plan is not None and len(row.plan.steps) > 1:
        told += ["plan:", *(f"  {number + 1}. {one_line(s.description)}" for number, s in enumerate(row.plan.steps))]
    models = models_of(app, row)
    if models:
        told += ["models:", *(f"  {each.part}: {one_line(f'{each.provider} ({each.model})')}" for each in models)]
    waiting = waiting_for(app, row)
    if waiting:
        told += ["waiting for you:", *(_question(action) for action in waiting)]
    files = job_files(db, row.job_id)
    if files:
        told += ["files changed:", *(f"  {one_line(path)}" for path in files)]
    artifacts = job_artifacts(db, row.job_id)
    if artifacts:
        told += ["artifacts:", *(f"  {a.artifact_id}  {one_line(a.kind)}  {one_line(a.name)}" for a in artifacts)]
    told += ["events:", *(_event(event) for event in job_events(db, row.job_id, 40))]
    answer = last_answer(db, row)
    if answer:
        from coilclaw.packets.text import visible

        told += ["answer:", *(f"  {line}" for line in visible(answer).splitlines())]
    return told


def _limits(row: "JobRow") -> list[str]:
    limits, told = row.spec.constraints, list[str]()
    if limits.allowed_tools is not None:
        told.append(f"tools:     {', '.join(limits.allowed_tools)}")
    if limits.allowed_domains is not None:
        told.append(f"domains:   {', '.join(limits.allowed_domains)}")
    if limits.max_files_changed is not None:
        told.append(f"max files: {limits.max_files_changed}")
    if limits.max_prs is not None:
        told.append(f"max PRs:   {limits.max_prs}")
    if row.spec.outputs.evidence_required:
        told.append(f"evidence:  {', '.join(row.spec.outputs.evidence_required)}")
    return told


def _question(action: "Action") -> str:
    return f"  {action.call.tool} until {moment(action.expires_at)}: coilclaw approvals approve {action.action_id}"


def _event(event: "JobEvent") -> str:
    payload = event.payload
    match event.type:
        case "state":
            words = f"{payload.get('from')} → {payload.get('to')} {payload.get('reason') or ''}"
        case "step":
            calls = payload.get("calls")
            calls = calls if isinstance(calls, int) else 0
            words = f"step {payload.get('step')}: {payload.get('stage')}, {counted(calls, 'call')}"
        case "draft":
            used = "" if payload.get("used") else f" (not used: {payload.get('reason')})"
            words = f"{payload.get('what')} by {payload.get('provider') or 'no model'}{used}"
        case "retry":
            again = moment(str(payload.get("until")))
            words = f"try {payload.get('attempt')} failed, again at {again}: {payload.get('reason')}"
        case _:
            words = event.type
    return f"  {moment(event.created_at, 'seconds')}  {one_line(words).rstrip()}"


class Follower:
    """Tells what happened to a job since it was asked last."""

    def __init__(self, app: "Runtime", job_id: str) -> None:
        self._app = app
        self._job_id = job_id
        self._seen: set[str] = set()

    def news(self) -> list[str]:
        """Events that were not told yet."""
        from coilclaw.store.jobs import job_events

        fresh = [e for e in job_events(self._app.db.reader, self._job_id, 100) if e.event_id not in self._seen]
        self._seen.update(event.event_id for event in fresh)
        return [_event(event).strip() for event in fresh if event.type in ("state", "step", "draft", "retry")]


async def work_on(
    app: "Runtime", background: "Background", row: "JobRow", tell: Callable[[str], None] | None
) -> "JobRow":
    """Work on one job here until it is over or rests; if somebody else is at it already, watch."""
    desk = background.desk()
    stop = asyncio.Event()
    follower = Follower(app, row.job_id)
    with background.named() as name:
        work = asyncio.ensure_future(
            background.worker(name, slots=1, only={row.job_id}, grace_seconds=GRACE_SECONDS).run(stop)
        )
        try:
            while True:
                row = desk.find(row.job_id)
                if tell is not None:
                    for line in follower.news():
                        tell(line)
                if row.state in RESTS or work.done():
                    return row
                await asyncio.sleep(POLL_SECONDS)
        finally:
            stop.set()
            await work
