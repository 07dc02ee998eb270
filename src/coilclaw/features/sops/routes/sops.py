"""SOPs: the owner's procedures, listed, and run as jobs."""

from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from coilclaw.features.approvals.views import redacted
from coilclaw.features.jobs.jobs import Jobs
from coilclaw.features.jobs.views import JobShown, NewJob
from coilclaw.features.sops.sop_runs import SopRuns
from coilclaw.features.sops.views import SopListed
from coilclaw.server.core import Core
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor
from coilclaw.server.problems import NotThere, problems


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
            raise NotThere("such SOP", "See GET /v1/sops.")
        return redacted(core, jobs.shown(await jobs.create(NewJob(sop=name), request_key)))
