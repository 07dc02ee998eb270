"""Schedules: work by the clock, declared, changed, started by hand, previewed."""

import asyncio
from typing import Annotated, TypeAlias

from litestar import Controller, Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, HeaderParameter, JSONBody

from coilclaw.features.approvals.views import redacted
from coilclaw.features.schedules.owner_schedules import OwnerSchedules, run_shown
from coilclaw.features.schedules.preview import Preview, PreviewAsk, preview
from coilclaw.features.schedules.store.schedule_runs import ever_ran, runs_before
from coilclaw.features.schedules.store.schedules import ScheduleRow, load_schedule, origin_of, schedules_after
from coilclaw.features.schedules.views import (
    EditSchedule,
    NewSchedule,
    RunStarted,
    Schedule,
    ScheduleRun,
    Schedules,
    ScheduleShown,
    ScheduleUnreadable,
)
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor, write_cursor
from coilclaw.server.problems import NotThere, problems

MOST_FOLLOWUPS = 500
IfMatch: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        max_length=200,
        description="`hash` of the schedule as it was read, in quotes: if it has changed since, nothing is done (412).",
    ),
]


class ScheduleRoutes(Controller):
    """Work by the clock."""

    path = "/v1/schedules"
    tags = ("schedules",)

    @get("/", operation_id="listSchedules", summary="Schedules and follow-ups")
    async def list_all(
        self,
        core: NamedDependency[Core],
        schedules: NamedDependency[OwnerSchedules],
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Schedules:
        """Schedules by name and when each runs next, the agent's own follow-ups apart, and what is wrong with the
        registry."""
        after, db = read_cursor(cursor, str) or "", core.db.reader
        rows, ids = schedules_after(db, "registry", after, limit + 1)
        there = ids[:limit]
        planned, planned_ids = ([], []) if after else schedules_after(db, "followup", "", MOST_FOLLOWUPS)
        unreadable = sorted({*there, *planned_ids} - {row.schedule_id for row in (*rows, *planned)})
        broken, changed = await schedules.trouble()
        items: list[Schedule] = []
        for row in rows:
            if row.schedule_id in set(there):
                items.append(schedules.listed(row))
                await asyncio.sleep(0)  # when a schedule runs next is looked for; others come in between
        listed = Schedules(
            items=items,
            next_cursor=write_cursor(there[-1]) if len(ids) > limit else None,
            followups=[schedules.listed(row) for row in planned if row.next_run_utc],
            unreadable=[
                ScheduleUnreadable(schedule_id=name, message="Its row cannot be read, so it does not run.")
                for name in unreadable
            ],
            registry_broken=broken or None,
            registry_changed=changed,
        )
        return await asyncio.to_thread(redacted, core, listed)

    @post("/", operation_id="createSchedule", summary="Add a schedule", status_code=201, responses=problems(409))
    async def create(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        schedules: NamedDependency[OwnerSchedules],
        request_key: NamedDependency[str | None],
        data: JSONBody[NewSchedule],
    ) -> Response[ScheduleShown]:
        """Declare a schedule in cron/jobs.json. What it is given here only narrows what the configuration grants. Like
        every edit of schedules it passes the gate and leaves an action with a receipt; 403 says why the gate denies."""
        return _tagged(core, schedules, await schedules.create(data, caller.by, request_key), 201)

    @post("/preview", operation_id="previewSchedule", summary="Preview a trigger", status_code=200)
    async def look_ahead(self, core: NamedDependency[Core], data: JSONBody[PreviewAsk]) -> Preview:
        """Say what a trigger means and when it would run, without scheduling anything. An invalid
        trigger is an answer too: `valid` is false, and the faults name the field and how to write it."""
        return redacted(core, preview(data, core.clock()))

    @get("/{schedule_id:str}", operation_id="getSchedule", summary="One schedule", responses=problems(404))
    async def show(
        self, core: NamedDependency[Core], schedules: NamedDependency[OwnerSchedules], schedule_id: FromPath[str]
    ) -> ScheduleShown:
        """A schedule: what it does, when, what may surprise, how its runs went."""
        row = load_schedule(core.db.reader, schedule_id)
        if row is None:
            raise _not_there()
        return redacted(core, schedules.shown(row))

    @patch(
        "/{schedule_id:str}",
        operation_id="editSchedule",
        summary="Change a schedule",
        responses=problems(404, 409, 412),
    )
    async def change(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        schedules: NamedDependency[OwnerSchedules],
        schedule_id: FromPath[str],
        data: JSONBody[EditSchedule],
        if_match: IfMatch = None,
    ) -> Response[ScheduleShown]:
        """Change what is declared, or switch it on or off. A new time counts from now; everything else leaves the next
        run where it is."""
        _must_be_there(core, schedule_id)
        wanted = data.if_hash if isinstance(data.if_hash, str) else _unquoted(if_match)
        return _tagged(core, schedules, await schedules.change(schedule_id, data, wanted, caller.by), 200)

    @delete(
        "/{schedule_id:str}",
        operation_id="deleteSchedule",
        summary="Remove a schedule",
        responses=problems(404, 409, 412),
    )
    async def remove(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        schedules: NamedDependency[OwnerSchedules],
        schedule_id: FromPath[str],
        if_match: IfMatch = None,
    ) -> None:
        """Remove a schedule, or a follow-up of the agent's. A job it started goes on; its runs stay on record."""
        _must_be_there(core, schedule_id)
        await schedules.remove(schedule_id, _unquoted(if_match), caller.by)

    @post(
        "/{schedule_id:str}/run-now",
        operation_id="runSchedule",
        summary="Start a run now",
        status_code=201,
        responses=problems(404, 409),
    )
    async def run_now(
        self,
        core: NamedDependency[Core],
        schedules: NamedDependency[OwnerSchedules],
        request_key: NamedDependency[str | None],
        schedule_id: FromPath[str],
    ) -> RunStarted:
        """Start a run at once, beside whatever runs. The next run by the clock stays where it is. While ESTOP holds,
        none is started (409)."""
        _must_be_there(core, schedule_id)
        made = await schedules.run_now(schedule_id, request_key)
        return redacted(core, RunStarted(run=run_shown(core, made), job_id=made.job_id))

    @get("/{schedule_id:str}/runs", operation_id="listScheduleRuns", summary="Runs", responses=problems(404))
    async def runs(
        self, core: NamedDependency[Core], schedule_id: FromPath[str], limit: Limit = 50, cursor: Cursor = None
    ) -> Page[ScheduleRun]:
        """Runs of a schedule, newest first, also of one that was removed."""
        db = core.db.reader
        if origin_of(db, schedule_id) is None and not ever_ran(db, schedule_id):
            raise _not_there()
        found = runs_before(db, schedule_id, read_cursor(cursor, tuple[str, str]), limit + 1)
        shown = [redacted(core, run_shown(core, each)) for each in found]
        return page_of(shown, limit, [(each.created_at, each.scheduled_at) for each in found])


def _not_there() -> NotThere:
    return NotThere("such schedule", "See GET /v1/schedules.")


def _must_be_there(core: Core, schedule_id: str) -> None:
    if origin_of(core.db.reader, schedule_id) is None:
        raise _not_there()


def _unquoted(tag: str | None) -> str | None:
    """What an If-Match asks for; `*` is whatever there is."""
    if tag is None or tag.strip() == "*":
        return None
    return tag.strip().strip('"')


def _tagged(core: Core, schedules: OwnerSchedules, row: ScheduleRow, status: int) -> Response[ScheduleShown]:
    shown = redacted(core, schedules.shown(row))
    return Response(shown, status_code=status, headers={"ETag": f'"{shown.hash}"'})
