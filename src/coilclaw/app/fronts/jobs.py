"""Jobs and procedures as the server is given them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from coilclaw.app.fronts.front import Front
from coilclaw.app.job_views import evidence_of, waiting_for
from coilclaw.jobs.checkpoint import Checkpoint, CheckpointRefused, read_checkpoint
from coilclaw.jobs.desk import Request
from coilclaw.jobs.lifecycle import COARSE
from coilclaw.packets.errors import StorageError, UsageError
from coilclaw.packets.ids import new_id
from coilclaw.packets.job import ENDED
from coilclaw.packets.text import visible
from coilclaw.server.problems import NotThere, Trouble
from coilclaw.server.views.work import (
    Job,
    JobProgress,
    JobShown,
    NewJob,
    SopFault,
    SopListed,
    SopStepListed,
)
from coilclaw.server.views.work_questions import question_of
from coilclaw.store.job_calls import calls_of_job
from coilclaw.store.jobs import JobRow, load_job
from coilclaw.store.threads import thread_exists

if TYPE_CHECKING:
    from coilclaw.app.sops.shelf import SopFile
    from coilclaw.packets.job import Plan

CHANNEL = "panel"
EVENTS = 200


class Jobs:
    """The desk and the shelf of one App."""

    def __init__(self, front: Front) -> None:
        self._app = front.app
        self._core = front.core
        self._background = front.background

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
            progress=self._progress(row, is_sop=bool(sop)),
            waiting=[question_of(self._core, action) for action in waiting],
            created_at=row.created_at,
            updated_at=row.updated_at,
        )

    def shown(self, row: JobRow) -> JobShown:
        """A job with everything."""
        from coilclaw.store.job_trail import job_artifacts, last_answer
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
            events=job_events(db, row.job_id, EVENTS),
            files=job_files(db, row.job_id),
            artifacts=job_artifacts(db, row.job_id),
            evidence=dict(evidence) if isinstance(evidence, Mapping) else None,
            answer=last_answer(db, row),
        )

    def _progress(self, row: JobRow, *, is_sop: bool) -> JobProgress:
        try:
            place = read_checkpoint(row.checkpoint) if row.checkpoint else Checkpoint()
        except CheckpointRefused:
            place = Checkpoint()
        done, of = place.position, len(row.plan.steps) if row.plan is not None else 0
        if is_sop:
            done, of = self._sop_progress(row.job_id, done, of)
        if row.state == "DONE":
            done = of
        return JobProgress(done=min(done, of), of=of, calls=calls_of_job(self._app.db.reader, row.job_id))

    def _sop_progress(self, job_id: str, done: int, of: int) -> tuple[int, int]:
        from coilclaw.agent.sops.sop import thaw
        from coilclaw.store.sops import run_of_job

        try:
            run = run_of_job(self._app.db.reader, job_id)
            return (done, of) if run is None else (run.position, len(thaw(run.sop_json).steps))
        except StorageError:  # the job is shown all the same
            return done, of

    def _plan(self, row: JobRow) -> "Plan | None":
        """What the progress counts: of a job that follows a procedure, the procedure's steps."""
        from coilclaw.app.sops.job import plan_of_run
        from coilclaw.store.sops import run_of_job

        try:
            run = run_of_job(self._app.db.reader, row.job_id)
            return row.plan if run is None else plan_of_run(run, row.job_id)
        except StorageError:  # the job is shown all the same
            return row.plan

    # Changing

    async def create(self, asked: NewJob, key: str | None) -> JobRow:
        """Make a job; the same request again gives the one it made."""
        if asked.sop is not None:
            self._must_hold(asked)
        elif not asked.goal.strip():
            raise UsageError("the goal is empty.", remedy="Say what you want done, or name an SOP.")
        if asked.thread_id is not None and not thread_exists(self._app.db.reader, asked.thread_id):
            raise NotThere("such conversation", "Leave thread_id out for a new one.")
        return await self._background.desk().create(
            Request(
                goal=asked.goal if asked.goal.strip() else f"Run the SOP {asked.sop}.",
                thread_id=asked.thread_id or new_id("conv", self._app.clock()),
                channel=CHANNEL,
                constraints=asked.constraints.constraints(),
                steps=tuple(asked.steps),
                evidence=tuple(asked.evidence),
                sop=asked.sop or "",
                key=key or "",
            )
        )

    def _must_hold(self, asked: NewJob) -> None:
        from coilclaw.app.sops.procedures import Procedures
        from coilclaw.app.sops.shelf import SopBroken

        if asked.steps:
            raise UsageError("an SOP has steps of its own.", remedy="Leave steps out, or sop.")
        try:
            Procedures(self._app).load(asked.sop or "")
        except SopBroken as error:
            raise Trouble(409, "SOP_BROKEN", error.message, remedy="Mend its file; GET /v1/sops tells why.") from error

    async def cancel(self, job_id: str, reason: str) -> JobRow:
        """Call a job off; one that was called off stays so."""
        try:
            return await self._background.desk().cancel(job_id, reason)
        except UsageError as error:
            row = load_job(self._app.db.reader, job_id)
            if row is not None and row.state == "CANCELLED":
                return row
            raise _does_not_fit(row, error) from error

    async def resume(self, job_id: str) -> JobRow:
        """Make a job due that is paused, or waits before its next try."""
        try:
            return await self._background.desk().resume(job_id)
        except UsageError as error:
            row = load_job(self._app.db.reader, job_id)
            if row is not None and row.state == "WAITING_APPROVAL":
                raise Trouble(
                    409, "JOB_WAITS", f"{job_id} waits for your answer.", remedy="Answer what it waits for."
                ) from error
            raise _does_not_fit(row, error) from error

    # Procedures

    def sops(self) -> list[SopListed]:
        """Every procedure in the workspace, also those that do not hold."""
        from coilclaw.app.sops.shelf import SopShelf

        return [_listed(file) for file in SopShelf(self._app).every()]


def _does_not_fit(row: JobRow | None, error: UsageError) -> Trouble:
    if row is not None and row.state in ENDED:
        text = f"{row.job_id} is {row.state} and stays so."
        return Trouble(409, "JOB_ENDED", text, remedy="Make a new job.")
    return Trouble(409, "JOB_MOVED", error.message, remedy="Look at it again.")


def _listed(file: "SopFile") -> SopListed:
    made = file.read.sop
    return SopListed(
        name=file.name,
        valid=made is not None,
        description=made.description if made is not None else "",
        steps=[SopStepListed(id=step.id, kind=step.kind, tool=step.tool or None) for step in made.steps]
        if made is not None
        else [],
        faults=[SopFault(step=fault.step or "", message=fault.message) for fault in file.read.faults],
        file_hash=file.file_hash,
        labels=list(file.labels),
    )
