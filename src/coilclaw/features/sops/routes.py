"""Procedures over HTTP: listed and run as jobs; and their runs, those begun at a terminal too."""

from typing import Annotated

from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from coilclaw.features.approvals.views import redacted
from coilclaw.features.jobs.jobs import Jobs
from coilclaw.features.jobs.views import JobShown, NewJob
from coilclaw.features.sops.sop_runs import SopRuns
from coilclaw.features.sops.store import run_ids_before
from coilclaw.features.sops.views import SopListed, SopRun, SopRunShown
from coilclaw.server.core import Core
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor, write_cursor
from coilclaw.server.problems import NotThere, problems
from coilclaw.store.sops import RunState


class SopRoutes(Controller):
    """Procedures that the owner wrote down."""

    path = "/v1/sops"
    tags = ("sops",)

    @get("/", operation_id="listSops", summary="Procedures")
    async def list_all(
        self,
        core: NamedDependency[Core],
        sop_runs: NamedDependency[SopRuns],
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[SopListed]:
        """The procedures in the workspace by name, with their steps, or with what is wrong with them."""
        after = read_cursor(cursor, str) or ""
        found = sorted((each for each in sop_runs.sops() if each.name > after), key=lambda each: each.name)[: limit + 1]
        return page_of([redacted(core, each) for each in found], limit, [each.name for each in found])

    @post(
        "/{name:str}/run",
        operation_id="runSop",
        summary="Run a procedure",
        status_code=201,
        responses=problems(404, 409),
    )
    async def run(
        self,
        core: NamedDependency[Core],
        jobs: NamedDependency[Jobs],
        sop_runs: NamedDependency[SopRuns],
        request_key: NamedDependency[str | None],
        name: FromPath[str],
    ) -> JobShown:
        """Run a procedure as a job: the worker goes through its steps, and it waits as jobs do."""
        if len(name) > 64 or name not in {each.name for each in sop_runs.sops()}:
            raise NotThere("such procedure", "See GET /v1/sops.")
        return redacted(core, jobs.shown(await jobs.create(NewJob(sop=name), request_key)))


class SopRunRoutes(Controller):
    """Runs of procedures."""

    path = "/v1/sop-runs"
    tags = ("sops",)

    @get("/", operation_id="listSopRuns", summary="Runs of procedures, newest first")
    async def list_all(
        self,
        core: NamedDependency[Core],
        sop_runs: NamedDependency[SopRuns],
        of_state: Annotated[
            RunState | None, QueryParameter(name="state", description="Only runs stored in this state.")
        ] = None,
        alone: Annotated[
            bool, QueryParameter(description="Only runs started at a terminal: the others belong to jobs.")
        ] = False,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[SopRun]:
        """Runs of procedures, newest first, each with the step it stands at and what it waits for."""
        states = None if of_state is None else (of_state,)
        ids = run_ids_before(core.db.reader, read_cursor(cursor, str), limit + 1, states=states, alone=alone)
        found = [sop_runs.listed(run_id) for run_id in ids[:limit]]
        items = [redacted(core, each) for each in found if each is not None]
        return Page(items=items, next_cursor=write_cursor(ids[limit - 1]) if len(ids) > limit else None)

    @get("/{run_id:str}", operation_id="getSopRun", summary="One run of a procedure", responses=problems(404))
    async def show(
        self, core: NamedDependency[Core], sop_runs: NamedDependency[SopRuns], run_id: FromPath[str]
    ) -> SopRunShown:
        """A run with its steps as they were when it began, how each stands, and what it left."""
        run = sop_runs.shown(run_id)
        if run is None:
            raise NotThere("such run", "See GET /v1/sop-runs.")
        return redacted(core, run)
