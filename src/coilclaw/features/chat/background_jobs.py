"""Jobs beside a conversation: made in it, worked on here when no worker runs, told of when they end or wait."""

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

from coilclaw.cli.output import print_line
from coilclaw.cli.phrases import JOBS
from coilclaw.features.chat.turn_ends import nobody_runs
from coilclaw.features.jobs.job_views import waiting_for
from coilclaw.features.jobs.terminal import GRACE_SECONDS, POLL_SECONDS, RESTS
from coilclaw.packets.job import ENDED, JobState
from coilclaw.packets.ports import Channel
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coilclaw.features.jobs.background import Background
    from coilclaw.gate.outcomes import Outcome
    from coilclaw.runtime import Runtime
    from coilclaw.store.jobs import JobRow
    from coilclaw.work.worker import Tally


class BackgroundJobs:
    """The jobs of one sitting."""

    def __init__(self, app: "Runtime", channel: Channel) -> None:
        self._app = app
        self._channel = channel
        self._made: dict[str, JobState] = {}
        """Each job made here, and the state that was told last."""
        self._background: Background | None = None
        self._work: asyncio.Task[Tally] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._held = ExitStack()

    async def begin(self, goal: str, thread_id: str) -> None:
        """Make a job in this conversation and see that somebody works on it."""
        from coilclaw.features.jobs.job_requests import Request

        job = await self._parts().desk().create(Request(goal=goal, thread_id=thread_id, channel="cli"))
        if job.state in ENDED:
            await self._channel.send(thread_id, f"{job.job_id} is {JOBS[job.state]}. {one_line(job.reason)}")
            return
        await self._take(job)

    async def take_in(self, outcomes: "Sequence[Outcome]") -> None:
        """See that somebody works on the jobs that the agent started in a turn, as on those of the owner."""
        from coilclaw.store.jobs import load_job

        for outcome in outcomes:
            job = load_job(self._app.db.reader, str(outcome.result.metadata.get("job_id", "")))
            if outcome.action.call.tool == "job_start" and job is not None and job.state not in ENDED:
                await self._take(job)
        if words := nobody_runs(self._app, outcomes, ("schedule_add",)):
            print_line(words)

    async def _take(self, job: "JobRow") -> None:
        self._made[job.job_id] = job.state
        await self._channel.send(job.thread_id, f"{job.job_id} is created. {self._somebody(self._parts())}")
        if self._watch is None:
            self._watch = asyncio.ensure_future(self._follow())

    def _parts(self) -> "Background":
        if self._background is None:
            from coilclaw.features.jobs.background import Background

            self._background = Background(self._app, say=lambda _event, _fields: None)
        return self._background

    def _somebody(self, background: "Background") -> str:
        from coilclaw.gate.executor import worker_is_running

        if worker_is_running(self._app.home.locks_dir):
            return "A worker will pick it up."
        if self._work is None or self._work.done():
            name = self._held.enter_context(background.named())
            worker = background.worker(name, only=self._made.keys(), grace_seconds=GRACE_SECONDS)
            self._work = asyncio.ensure_future(worker.run(self._stop))
        return "No worker is running, so it runs here for as long as this conversation is open."

    async def _follow(self) -> None:
        from coilclaw.store.jobs import load_job

        while True:
            for job_id, told in list(self._made.items()):
                job = load_job(self._app.db.reader, job_id)
                if job is not None and job.state != told:
                    self._made[job_id] = job.state
                    if job.state in RESTS:
                        await self._tell_of(job)
            await asyncio.sleep(POLL_SECONDS)

    async def _tell_of(self, job: "JobRow") -> None:
        lines = [f"{job.job_id} is {JOBS[job.state]}. {one_line(job.reason)}".rstrip()]
        waiting = waiting_for(self._app, job) if job.state == "WAITING_APPROVAL" else ()
        lines += [f"  {action.call.tool}: coilclaw approvals approve {action.action_id}" for action in waiting]
        if job.state == "DONE":
            from coilclaw.store.job_history import last_answer

            lines.append(f"  {one_line(last_answer(self._app.db.reader, job))}")
        await self._channel.send(job.thread_id, "\n".join(lines))

    def rows(self) -> list[tuple[str, ...]]:
        """Recent jobs, the newest first."""
        from coilclaw.store.jobs import OPEN, list_jobs

        found = list_jobs(self._app.db.reader, (*OPEN, *sorted(ENDED)), 20)
        return [(job.job_id, JOBS[job.state], one_line(job.goal)) for job in found]

    async def close(self) -> None:
        """Stop working here; what is not done stays, and a worker goes on with it."""
        self._stop.set()
        if self._watch is not None:
            self._watch.cancel()
        if self._work is not None:
            await asyncio.wait({self._work})
        self._held.close()
        left = [job_id for job_id, state in self._made.items() if state not in ENDED]
        if left:
            print_line(f"Not done: {', '.join(left)}. `coilclaw worker` finishes the rest.")
