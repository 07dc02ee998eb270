"""Runs of SOPs: looked at, those begun at a terminal too. Nothing here changes one."""

from typing import Annotated

from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from coilclaw.features.approvals.views import redacted
from coilclaw.features.sops.sop_runs import SopRuns
from coilclaw.features.sops.store import run_ids_before
from coilclaw.features.sops.views import SopRun, SopRunShown
from coilclaw.server.core import Core
from coilclaw.server.pages import Cursor, Limit, Page, read_cursor, write_cursor
from coilclaw.server.problems import NotThere, problems
from coilclaw.store.sops import RunState


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
