"""Jobs over HTTP: shown, made, called off, resumed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.jobs.background import Background, kind_of
from coilclaw.features.jobs.checkpoint import CheckpointRefused, read_checkpoint
from coilclaw.features.jobs.job_requests import OtherPacket, Request
from coilclaw.features.jobs.job_views import evidence_of, models_of, waiting_for
from coilclaw.features.jobs.lifecycle import COARSE
from coilclaw.features.jobs.questions import question_of
from coilclaw.features.jobs.store import calls_of_job
from coilclaw.features.jobs.views import (
    Job,
    JobProgress,
    JobShown,
    NewJob,
)
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import new_id
from coilclaw.packets.job import ENDED
from coilclaw.packets.text import visible
from coilclaw.server.problems import NotThere, Trouble
from coilclaw.server.serving import Serving
from coilclaw.store.jobs import JobRow
from coilclaw.store.threads import thread_exists

if TYPE_CHECKING:
    from coilclaw.packets.job import Plan

CHANNEL = "panel"
EVENTS = 200


class Jobs:
    """The jobs of one home."""

    def __init__(self, serving: Serving) -> None:
        self._app = serving.runtime
        self._core = serving.core
        self._background = Background(serving.runtime, serving.core.conveyor)

    # Showing

    def listed(self, row: JobRow) -> Job:
        """A job for a list."""
        run = row.spec.inputs.get("schedule_run")
        scheduled = run.get("schedule_id") if isinstance(run, Mapping) else None
        sop = row.spec.inputs.get("sop")
        waiting = waiting_for(self._app, row) if row.state == "WAITING_APPROVAL" else []
        return Job(
            job_id=row.job_id,
            thread_id=row.thread_id,
            goal=visible(row.goal),
            state=row.state,
            status=COARSE[row.state],
            reason=row.reason,
            attempt=row.attempt,
            next_wakeup_at=row.next_wakeup_at,
            deadline_at=row.deadline_at,
            working=row.worker is not None,
            sop=sop if isinstance(sop, str) and sop else None,
            schedule_id=scheduled if isinstance(scheduled, str) else None,
            progress=self._progress(row),
            waiting=[question_of(self._core, action) for action in waiting],
            created_at=row.created_at,
            updated_at=row.updated_at,
        )

    def shown(self, row: JobRow) -> JobShown:
        """A job with everything."""
        from coilclaw.store.job_history import job_artifacts, last_answer, pull_named
        from coilclaw.store.jobs import job_events, job_files
        from coilclaw.store.usage import tokens_of_job

        db = self._app.db.reader
        evidence = evidence_of(self._app, row)
        return JobShown(
            **msgspec.structs.asdict(self.listed(row)),
            turn_id=row.turn_id,
            spec=row.spec,
            plan=self._plan(row),
            budget=row.budget,
            tokens=tokens_of_job(db, row.job_id),
            models=models_of(self._app, row),
            events=job_events(db, row.job_id, EVENTS),
            pull=pull_named(db, row.job_id),
            files=job_files(db, row.job_id),
            artifacts=job_artifacts(db, row.job_id),
            evidence=dict(evidence) if isinstance(evidence, Mapping) else None,
            answer=last_answer(db, row),
        )

    def _progress(self, row: JobRow) -> JobProgress:
        place = self._place(row)
        if place is None:
            done, of = self._own_position(row), len(row.plan.steps) if row.plan is not None else 0
        else:
            done, of = place[0], len(place[1].steps)
        if row.state == "DONE":
            done = of
        return JobProgress(done=min(done, of), of=of, calls=calls_of_job(self._app.db.reader, row.job_id))

    def _own_position(self, row: JobRow) -> int:
        try:
            return read_checkpoint(row.checkpoint).position if row.checkpoint else 0
        except CheckpointRefused:
            return 0

    def _place(self, row: JobRow) -> "tuple[int, Plan] | None":
        """Of a job that follows something else: how many of its steps are over, and these as the job's plan."""
        kind = kind_of(self._app, row)
        return None if kind is None else kind.place(self._app, row.job_id)

    def _plan(self, row: JobRow) -> "Plan | None":
        place = self._place(row)
        return row.plan if place is None else place[1]

    def found(self, job_id: str) -> JobRow | None:
        """The job of that id, or of the packet with that id."""
        try:
            return self._background.desk().find(job_id)
        except UsageError:
            return None

    # Changing

    async def create(self, asked: NewJob, key: str | None) -> JobRow:
        """Make a job; the same request again gives the one it made."""
        if asked.sop is not None:
            self._must_hold(asked)
        elif not (asked.goal or asked.intent).strip():
            raise UsageError("the goal is empty.", remedy="Say what you want done, or name a procedure.")
        if asked.goal and asked.intent:
            raise UsageError("goal and intent are two names of one thing.", remedy="Send one of them.")
        if asked.thread_id is not None and not thread_exists(self._app.db.reader, asked.thread_id):
            raise NotThere("such conversation", "Leave thread_id out for a new one.")
        request = Request(
            goal=asked.goal.strip() or asked.intent.strip() or f"Run the procedure {asked.sop}.",
            thread_id=asked.thread_id or new_id("conv", self._app.clock()),
            channel=CHANNEL,
            constraints=asked.constraints.constraints(),
            steps=tuple(asked.steps),
            evidence=tuple(dict.fromkeys((*asked.evidence, *asked.outputs.evidence_required))),
            repo=asked.repo,
            pr_required=asked.outputs.pr_required,
            inputs=asked.inputs,
            packet_id=asked.job_id,
            sop=asked.sop or "",
            key=key or "",
        )
        try:
            return await self._background.desk().create(request)
        except OtherPacket as error:
            raise Trouble(409, "IDEMPOTENCY_CONFLICT", error.message, remedy=error.remedy) from error

    def _must_hold(self, asked: NewJob) -> None:
        if asked.steps:
            raise UsageError("a procedure has steps of its own.", remedy="Leave steps out, or sop.")
        self._app.extensions.job_kinds()["sop"].check(self._app, asked.sop or "")

    async def cancel(self, job_id: str, reason: str) -> JobRow:
        """Call a job off; one that was called off stays so."""
        try:
            return await self._background.desk().cancel(job_id, reason)
        except UsageError as error:
            row = self.found(job_id)
            if row is not None and row.state == "CANCELLED":
                return row
            raise _does_not_fit(row, error) from error

    async def resume(self, job_id: str) -> JobRow:
        """Make a job due that is paused, or waits before its next try."""
        try:
            return await self._background.desk().resume(job_id)
        except UsageError as error:
            row = self.found(job_id)
            if row is not None and row.state == "WAITING_APPROVAL":
                raise Trouble(
                    409, "JOB_WAITS", f"{job_id} waits for your answer.", remedy="Answer what it waits for."
                ) from error
            raise _does_not_fit(row, error) from error


def _does_not_fit(row: JobRow | None, error: UsageError) -> Trouble:
    if row is not None and row.state in ENDED:
        text = f"{row.job_id} is {row.state} and stays so."
        return Trouble(409, "JOB_ENDED", text, remedy="Make a new job.")
    return Trouble(409, "JOB_MOVED", error.message, remedy="Look at it again.")
