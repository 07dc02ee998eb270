"""Jobs: work in the background, handed in, looked at, called off."""

from typing import Annotated

from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter

from coilclaw.features.approvals.views import redacted
from coilclaw.features.jobs.jobs import Jobs
from coilclaw.features.jobs.views import NO_REASON, CancelJob, Job, JobShown, NewJob, StateWord, states_of
from coilclaw.packets.job import CoarseState
from coilclaw.server.core import Core
from coilclaw.server.filters import OfThread
from coilclaw.server.pages import Cursor, Limit, Page, read_cursor, write_cursor
from coilclaw.server.problems import NotThere, problems
from coilclaw.server.timestamps import Since, moment_of
from coilclaw.store.jobs import JobRow, JobsWanted, jobs_before


class JobRoutes(Controller):
    """Work in the background."""

    path = "/v1/jobs"
    tags = ("jobs",)

    @get("/", operation_id="listJobs", summary="Jobs, newest first")
    async def list_all(
        self,
        core: NamedDependency[Core],
        jobs: NamedDependency[Jobs],
        of_state: Annotated[
            StateWord | None, QueryParameter(name="state", description="Only jobs in this state, detailed or coarse.")
        ] = None,
        status: Annotated[CoarseState | None, QueryParameter(description="Only jobs in this coarse state.")] = None,
        thread_id: OfThread = None,
        since: Since = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[Job]:
        """Jobs, newest first, each with how far it has come and what it waits for."""
        wanted = JobsWanted(states=states_of(of_state, status), thread_id=thread_id, since=moment_of(since))
        rows, ids = jobs_before(core.db.reader, wanted, read_cursor(cursor, str), limit + 1)
        there = set(ids[:limit])
        items = [redacted(core, jobs.listed(row)) for row in rows if row.job_id in there]
        return Page(items=items, next_cursor=write_cursor(ids[limit - 1]) if len(ids) > limit else None)

    @post("/", operation_id="createJob", summary="Create a job", status_code=201, responses=problems(404, 409))
    async def create(
        self,
        core: NamedDependency[Core],
        jobs: NamedDependency[Jobs],
        request_key: NamedDependency[str | None],
        data: JSONBody[NewJob],
    ) -> JobShown:
        """Make a job out of a goal. What it is given here only narrows what the configuration grants; one that the
        rules refuse comes back DENIED, with its reasons."""
        return redacted(core, jobs.shown(await jobs.create(data, request_key)))

    @get("/{job_id:str}", operation_id="getJob", summary="One job", responses=problems(404))
    async def show(self, core: NamedDependency[Core], jobs: NamedDependency[Jobs], job_id: FromPath[str]) -> JobShown:
        """A job with what was asked and planned, what happened, what waits for the owner, what it did, spent and
        left."""
        return redacted(core, jobs.shown(_found(jobs, job_id)))

    @post(
        "/{job_id:str}/cancel",
        operation_id="cancelJob",
        summary="Cancel a job",
        status_code=200,
        responses=problems(404, 409),
    )
    async def cancel(
        self,
        core: NamedDependency[Core],
        jobs: NamedDependency[Jobs],
        job_id: FromPath[str],
        data: JSONBody[CancelJob] = NO_REASON,
    ) -> JobShown:
        """Call a job off. A step that runs is cut, what waits for the owner is withdrawn; what was done stays, with
        its receipts. Calling it off again changes nothing."""
        _found(jobs, job_id)
        return redacted(core, jobs.shown(await jobs.cancel(job_id, data.reason)))

    @post(
        "/{job_id:str}/resume",
        operation_id="resumeJob",
        summary="Resume a job now",
        status_code=200,
        responses=problems(404, 409),
    )
    async def resume(self, core: NamedDependency[Core], jobs: NamedDependency[Jobs], job_id: FromPath[str]) -> JobShown:
        """Let a job that is paused, or waits before its next try, go on now."""
        _found(jobs, job_id)
        return redacted(core, jobs.shown(await jobs.resume(job_id)))


def _found(jobs: Jobs, job_id: str) -> JobRow:
    row = jobs.found(job_id)
    if row is None:
        raise NotThere("such job", "See GET /v1/jobs.")
    return row
