"""Runs of SOPs: looked at, those begun at a terminal too. Nothing here changes one."""

from typing import Annotated

from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from coilclaw.server.core import Core
from coilclaw.server.pages import Cursor, Limit, Page, read_cursor, write_cursor
from coilclaw.server.problems import problems
from coilclaw.server.views.actions import redacted
from coilclaw.server.views.sop_runs import RunDesk, SopRun, SopRunShown
from coilclaw.store.sop_run_pages import run_ids_before
from coilclaw.store.sops import RunState


class SopRunRoutes(Controller):
    """Runs of procedures."""

    path = "/v1/sop-runs"
    tags = ("sops",)

    @get("/", operation_id="listSopRuns", summary="Runs of procedures, newest first")
    async def list_all(
        self,
        core: NamedDependency[Core],
        run_desk: NamedDependency[RunDesk],
        of_state: Annotated[
            RunState | None, QueryParameter(name="state", description="Only runs that are kept in this state.")
        ] = None,
        alone: Annotated[
            bool, QueryParameter(description="Only runs begun at a terminal: the others are the work of jobs.")
        ] = False,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[SopRun]:
        """Runs of procedures, newest first, each with the step it stands at and what it waits for."""
        states = None if of_state is None else (of_state,)
        ids = run_ids_before(core.db.reader, read_cursor(cursor, str), limit + 1, states=states, alone=alone)
        found = [run_desk.listed(run_id) for run_id in ids[:limit]]
        items = [redacted(core, each) for each in found if each is not None]
        return Page(items=items, next_cursor=write_cursor(ids[limit - 1]) if len(ids) > limit else None)

    @get("/{run_id:str}", operation_id="getSopRun", summary="One run of a procedure", responses=problems(404))
    async def show(
        self, core: NamedDependency[Core], run_desk: NamedDependency[RunDesk], run_id: FromPath[str]
    ) -> SopRunShown:
        """A run with its steps as they were when it began, how each stands, and what it left."""
        return redacted(core, run_desk.shown(run_id))
