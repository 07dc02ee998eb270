"""Filters shared by lists, and a page of matching actions."""

from typing import Annotated, TypeAlias

from litestar.params import QueryParameter

from coilclaw.packets.action import Action
from coilclaw.server.core import Core
from coilclaw.server.pages import read_cursor
from coilclaw.store.action_pages import ActionPlace, WantedActions, page_of_actions
from coilclaw.store.refusals import Refusal

OfTool: TypeAlias = Annotated[str | None, QueryParameter(max_length=200, description="Only calls of this tool.")]
OfThread: TypeAlias = Annotated[str | None, QueryParameter(max_length=200, description="Only of this conversation.")]
OfJob: TypeAlias = Annotated[str | None, QueryParameter(max_length=200, description="Only of this job.")]
OfSession: TypeAlias = Annotated[
    str | None, QueryParameter(max_length=200, description="Only what the program of this coding session asked for.")
]
OfAction: TypeAlias = Annotated[str | None, QueryParameter(max_length=200, description="Only of this action.")]
Refused: TypeAlias = Annotated[Refusal | None, QueryParameter(description="Only actions refused in this way.")]


def actions_at(
    core: Core, wanted: WantedActions, cursor: str | None, limit: int
) -> tuple[list[Action], ActionPlace | None]:
    """The matching actions from a cursor, newest first, and the next cursor."""
    return page_of_actions(core.db.reader, wanted, read_cursor(cursor, ActionPlace), limit)
