"""The audit: everything that happened, in order, and the story of one action."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from litestar import Controller, get
from litestar.di import NamedDependency, Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from coilclaw.features.approvals.views import StoryTold, story_shown
from coilclaw.ledger.audit import AuditEvent
from coilclaw.ledger.audit_page import Numbers, Sought, Span, events_back, events_on, numbers_of, rows_in
from coilclaw.ledger.export import export_line
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.token_recheck import may_stay
from coilclaw.server.naming import abouts
from coilclaw.server.pages import Cursor, Limit, Page, read_cursor, write_cursor
from coilclaw.server.problems import NotThere, problems
from coilclaw.server.redacting import Redacting
from coilclaw.server.timestamps import Since, Until, moment_of
from coilclaw.store.read_connection import reading_apart

LARGEST = 1 << 53
Number = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
LINES = "application/x-ndjson"


class AuditPlace(msgspec.Struct, frozen=True, array_like=True):
    """Which numbers are left."""

    first: Number
    last: Number


class AuditLine(AuditEvent, frozen=True, kw_only=True):
    """An event of the ledger, with what it is about."""

    about: str
    """The action's sentence, the job's goal or the conversation's title; empty where there is none."""


EventType = Annotated[str | None, QueryParameter(max_length=100, description="Only events of this type.")]
EntityId = Annotated[
    str | None, QueryParameter(max_length=200, description="Only events of this action, job, thread, turn or device.")
]
Quiet = Annotated[
    bool, QueryParameter(description="Without messages, turns, notifications and the single steps of jobs.")
]


def sought_of(
    event_type: EventType = None,
    entity_id: EntityId = None,
    quiet: Quiet = False,
    since: Since = None,
    until: Until = None,
) -> Sought:
    """The events that a request asks for."""
    span = Span(since=moment_of(since), until=moment_of(until))
    return Sought(span=span, event_type=event_type, entity_id=entity_id, quiet=quiet)


_SOUGHT = {"sought": Provide(sought_of, sync_to_thread=False)}


class AuditRoutes(Controller):
    """What happened."""

    path = "/v1/audit"
    tags = ("audit",)
    dependencies = _SOUGHT

    @get("/", operation_id="listAudit", summary="Audit events")
    async def list_all(
        self,
        core: NamedDependency[Core],
        redacting: NamedDependency[Redacting],
        sought: NamedDependency[Sought],
        after: Annotated[
            int | None,
            QueryParameter(
                ge=0,
                le=LARGEST,
                schema_extra={"minimum": 0, "maximum": LARGEST},  # lost otherwise, because it may be absent
                description="Start after this number, oldest first; without it, newest first.",
            ),
        ] = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[AuditLine]:
        """What happened, newest first; with `after`, the events that follow that number, oldest first. Payloads carry
        ids, codes and hashes. A page may be short, or empty, and still have a next one."""
        numbers = await _numbers(core, sought.span, after, read_cursor(cursor, AuditPlace))
        look = events_back if after is None else events_on
        events, left = look(core.db.reader, sought, numbers, limit)
        place = None if left is None else write_cursor(AuditPlace(left.first, left.last))
        names = abouts(core, (event.entity_id for event in events))
        return Page(items=await redacting.aside(lambda: _lines_of(core, events, names())), next_cursor=place)

    @get(
        "/export",
        operation_id="exportAudit",
        summary="Audit events as JSON lines",
        media_type=LINES,
        responses={
            200: ResponseSpec(
                data_container=str, generate_examples=False, media_type=LINES, description="One event per line."
            )
        },
    )
    async def export(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        redacting: NamedDependency[Redacting],
        sought: NamedDependency[Sought],
    ) -> Stream:
        """Every event that is asked for, oldest first, one JSON object a line, as it stood when the export began.
        Events that retention has pruned stand in the workspace, under `audit/`."""
        name = f"audit-{core.clock():%Y-%m-%d}{'' if sought == Sought() else '-part'}.jsonl"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Stream(_lines(core, redacting, caller, sought), media_type=LINES, headers=headers)

    @get(
        "/{action_id:str}/story",
        operation_id="getStory",
        summary="The story of an action",
        responses=problems(404),
    )
    async def story(
        self, core: NamedDependency[Core], redacting: NamedDependency[Redacting], action_id: FromPath[str]
    ) -> StoryTold:
        """The whole story of an action: who asked, what was decided, who approved, what came of it, and its proof."""
        story = await story_shown(core, redacting, action_id)
        if story is None:
            raise NotThere("such action")
        return story


async def _numbers(core: Core, span: Span, after: int | None, place: AuditPlace | None) -> Numbers:
    if place is not None:
        return Numbers(first=place.first, last=place.last)
    numbers = await _between(core, span)
    return numbers if after is None else Numbers(first=max(numbers.first, after + 1), last=numbers.last)


async def _between(core: Core, span: Span) -> Numbers:
    """Where a span of time begins and ends; a long one takes long to look through, and others must not wait for it."""
    if span == Span():
        return numbers_of(core.db.reader, span)

    def look() -> Numbers:
        with reading_apart(core.db.path) as db:
            return numbers_of(db, span)

    return await asyncio.to_thread(look)


def _lines_of(core: Core, events: list[AuditEvent], names: dict[str, str]) -> list[AuditLine]:
    return [
        AuditLine(
            seq=event.seq,
            entry_id=event.entry_id,
            event_type=core.said(event.event_type),
            entity_id=core.said(event.entity_id),
            payload=core.shown(event.payload),
            created_at=event.created_at,
            about=names.get(event.entity_id, ""),
        )
        for event in events
    ]


async def _lines(core: Core, redacting: Redacting, caller: Caller, sought: Sought) -> AsyncIterator[bytes]:
    """A few rows at a time, as fast as the reader takes them, and as long as the device may come in."""
    for rows in rows_in(core.db.reader, sought, await _between(core, sought.span)):
        piece = await redacting.aside(lambda rows=rows: b"".join(export_line(row, core.shown) for row in rows))
        if not may_stay(core, caller):
            return
        yield piece
