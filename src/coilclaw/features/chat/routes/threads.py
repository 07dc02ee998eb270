"""Conversations: the list, making one, its title, deleting it."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, TypeAlias

import msgspec
from litestar import Controller, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import UNSET, UnsetType

from coilclaw.features.approvals.views import refusals_of
from coilclaw.features.chat.models import ConversationModels
from coilclaw.features.chat.routes.lookups import found_thread, id_of, shown_text
from coilclaw.features.chat.store.thread_list import LastWords, Place, ThreadOverview, list_overviews, overview_of
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import Action, Status
from coilclaw.packets.chat import Role
from coilclaw.packets.errors import RowDamaged
from coilclaw.packets.ids import new_id
from coilclaw.packets.labels import is_untrusted
from coilclaw.packets.text import one_line
from coilclaw.server.core import Core
from coilclaw.server.naming import sentence_of
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.store.actions import load_action
from coilclaw.store.projects import project_named
from coilclaw.store.refusals import Refusal
from coilclaw.store.threads import delete_thread, ensure_thread, rename_thread, thread_exists
from coilclaw.store.tx import Tx

EXCERPT = 140
Title = Annotated[str, msgspec.Meta(max_length=200, description="The conversation's title; one line.")]
Words = Annotated[str, QueryParameter(max_length=200, description="Only conversations whose title contains this text.")]
Talks = Annotated[
    bool, QueryParameter(description="Only conversations started by a person, not by a job, a schedule or a procedure.")
]
ThreadId = Annotated[str, PathParameter(max_length=100, description="The conversation.")]


class NewThread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation to be made."""

    title: Title = ""
    model: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    """The configured provider that answers in it; null: the default one."""
    project: Annotated[
        str, msgspec.Meta(max_length=64, description="The project it works in; empty: the workspace.")
    ] = ""


UNTITLED = NewThread()


class Renamed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation's new title, or who answers in it from now on."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    model: Annotated[str, msgspec.Meta(max_length=200)] | UnsetType | None = UNSET
    """A configured provider; null for the default one."""


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """The last thing that was said in a conversation, shortened to a line."""

    role: Role
    text: str
    untrusted: bool
    """Somebody else's words may be in it."""
    created_at: str


class CameOfIt(msgspec.Struct, frozen=True, kw_only=True):
    """How an action ended that had waited when the last words were said."""

    action_id: str
    status: Status
    refusal: Refusal | None
    """Who said no; null unless it is REJECTED."""
    summary: str
    """What it is, in a sentence."""


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation."""

    thread_id: str
    title: str
    channel: str
    """Where it was begun: panel, cli, job, …"""
    model: str | None
    """The provider that was chosen to answer in it; null: the default one."""
    project: str | None
    """The name of the project it works in; null for the workspace."""
    created_at: str
    updated_at: str
    messages: int
    """How many; counted up to 10,000."""
    last: Excerpt | None
    came_of_it: CameOfIt | None
    """What came of it after the last words were said; null while anything of it is open, and when nothing did."""
    running_turn_id: str | None
    """The turn that is being answered now."""
    waiting_turns: int
    """Messages that wait for their turn."""
    waiting_approvals: int
    """Actions of this conversation that wait for the owner."""


class Threads(Controller):
    """Conversations with the agent."""

    path = "/v1/chat/threads"
    tags = ("chat",)

    @get("/", operation_id="listThreads", summary="Conversations")
    async def every(
        self,
        core: NamedDependency[Core],
        limit: Limit = 30,
        cursor: Cursor = None,
        q: Words = "",
        talks: Talks = False,
    ) -> Page[Thread]:
        """Conversations, the most recently touched first."""
        found = list_overviews(core.db.reader, limit + 1, after=read_cursor(cursor, Place), words=q, talks=talks)
        ends = _ends(core, found)
        shown = await asyncio.to_thread(lambda: [_shown(core, each, ends) for each in found])
        return page_of(shown, limit, [(each.updated_at, each.number) for each in found])

    @post("/", operation_id="createThread", summary="Start a conversation")
    async def create(
        self,
        core: NamedDependency[Core],
        models: NamedDependency[ConversationModels],
        request_key: NamedDependency[str | None],
        data: JSONBody[NewThread] = UNTITLED,
    ) -> Thread:
        """Make a conversation. Without a title it is named after its first message."""
        thread_id = id_of("conv", request_key) or new_id("conv", core.clock())
        title = one_line(core.said(data.title)).strip()
        chosen = None if data.model is None else models.checked(data.model)
        project = project_named(core.db.reader, data.project) if data.project else None
        if data.project and project is None:
            raise Trouble(422, "NO_PROJECT", "there is no such project.", remedy="See `coilclaw project list`.")

        def write(tx: Tx) -> None:
            if not thread_exists(tx, thread_id):
                where = None if project is None else project.project_id
                ensure_thread(tx, core.clock, thread_id, "panel", title, project=where)
                add_event(tx, core.clock, "thread_created", thread_id, {})
                if chosen is not None:
                    models.keep(tx, thread_id, chosen)

        await core.db.write(write)
        return _found(core, thread_id)

    @get(
        "/{thread_id:str}",
        operation_id="getThread",
        summary="One conversation",
        responses=problems(404),
        sync_to_thread=False,
    )
    def one(self, core: NamedDependency[Core], thread_id: ThreadId) -> Thread:
        """One conversation."""
        return _found(core, thread_id)

    @patch("/{thread_id:str}", operation_id="renameThread", summary="Another title or model", responses=problems(404))
    async def rename(
        self,
        core: NamedDependency[Core],
        models: NamedDependency[ConversationModels],
        thread_id: ThreadId,
        data: JSONBody[Renamed],
    ) -> Thread:
        """Give a conversation another title, or have another configured provider answer in it from now on."""
        title = "" if data.title is UNSET else one_line(core.said(data.title)).strip()
        if data.title is not UNSET and not title:
            raise Trouble(422, "UNFIT", "the title is empty.", remedy="Give the conversation a title.")
        if data.title is UNSET and data.model is UNSET:
            raise Trouble(422, "UNFIT", "there is nothing to change.", remedy="Give a title or a model.")
        chosen = models.checked(data.model) if isinstance(data.model, str) else None

        def write(tx: Tx) -> None:
            if title and rename_thread(tx, thread_id, title[:200]):
                add_event(tx, core.clock, "thread_renamed", thread_id, {})
            if data.model is not UNSET:
                models.keep(tx, thread_id, chosen)

        await core.db.write(write)
        return _found(core, thread_id)

    @delete(
        "/{thread_id:str}", operation_id="deleteThread", summary="Delete a conversation", responses=problems(404, 409)
    )
    async def remove(self, core: NamedDependency[Core], thread_id: ThreadId) -> None:
        """Forget a conversation. Its actions, receipts and jobs stay on record; while something of it still goes on or
        waits for the owner, it is refused."""
        found_thread(core, thread_id)

        def write(tx: Tx) -> bool:
            gone = delete_thread(tx, thread_id)
            if gone is not None:
                add_event(tx, core.clock, "thread_deleted", thread_id, {"messages": gone})
            return gone is not None

        if not await core.db.write(write):
            raise Trouble(
                409,
                "THREAD_BUSY",
                "something in this conversation is still running or waiting for you.",
                remedy="Stop its turns, answer its approvals and end its jobs first.",
            )


def _found(core: Core, thread_id: str) -> Thread:
    overview = overview_of(core.db.reader, thread_id)
    if overview is None:
        raise NotThere("such conversation")
    return _shown(core, overview, _ends(core, (overview,)))


Ends: TypeAlias = dict[str, tuple[Action, Refusal | None]]


def _ends(core: Core, threads: Iterable[ThreadOverview]) -> Ends:
    """The actions that ended last in these conversations, and who refused them; read here, told elsewhere."""
    ended: list[Action] = []
    for thread in threads:
        with suppress(RowDamaged):  # what cannot be read is not told of
            action = load_action(core.db.reader, thread.ended_action_id) if thread.ended_action_id else None
            ended += [] if action is None else [action]
    refusals = refusals_of(core, ended)
    return {action.action_id: (action, refusals.get(action.action_id)) for action in ended}


def _came_of_it(core: Core, thread: ThreadOverview, ends: Ends) -> CameOfIt | None:
    if thread.ended_action_id not in ends:
        return None
    action, refusal = ends[thread.ended_action_id]
    summary = sentence_of(core, action)
    return CameOfIt(action_id=action.action_id, status=action.status, refusal=refusal, summary=summary)


def _shown(core: Core, thread: ThreadOverview, ends: Ends) -> Thread:
    return Thread(
        thread_id=thread.thread_id,
        title=one_line(core.said(thread.title)),
        channel=thread.channel,
        model=thread.model,
        project=thread.project,
        created_at=thread.created_at,
        updated_at=thread.updated_at,
        messages=thread.messages,
        last=None if thread.last is None else _excerpt(core, thread.last),
        came_of_it=_came_of_it(core, thread, ends),
        running_turn_id=thread.running_turn_id,
        waiting_turns=thread.waiting_turns,
        waiting_approvals=thread.waiting_approvals,
    )


def _excerpt(core: Core, last: LastWords) -> Excerpt:
    text = " ".join(shown_text(core, last.text).split())
    return Excerpt(
        role=last.role,
        text=text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…",
        untrusted=is_untrusted(last.label),
        created_at=last.created_at,
    )
