"""Sessions over HTTP. Their questions are answered on the one queue of approvals."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Literal, TypeVar

import msgspec
from litestar import Controller, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody, QueryParameter
from litestar.response import Stream

from coilclaw.features.runner.org_audit import OrgAuditHead, pieces
from coilclaw.features.runner.routes.http_runner import HttpRunner
from coilclaw.features.runner.sessions import Sessions
from coilclaw.features.runner.spec import RepoRef, Size, StartSession
from coilclaw.features.runner.store import MonthUsage, Session, events_after, sessions_before, usage_of
from coilclaw.features.runner.store.family import family_of
from coilclaw.features.runner.views import ChangeView, OrgView, SessionView, change_view, session_view
from coilclaw.packets.action import Status
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import ToolError
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.token_recheck import may_stay
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor
from coilclaw.server.problems import Trouble, problems

T = TypeVar("T")
_STATUS = {"OVER_PLAN": 429, "SESSION_OVER": 409, "SESSION_RUNS": 409, "FORBIDDEN_INPUT": 403, "DISK_FULL": 507}
_LONGEST_INPUT = 64 << 10
LINES = "application/x-ndjson"


class SessionStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was started, or waits for the owner."""

    session_id: str
    workspace_id: str
    worktree_path: str
    session: SessionView
    needs: str
    """What approving it takes from this device: `passkey`, `passkey_missing`, or nothing when nothing waits."""


class TypeIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input for a session."""

    data: Annotated[str, msgspec.Meta(max_length=_LONGEST_INPUT)]
    mode: Literal["raw", "line"] = "raw"
    """`line`: with Enter after it."""


class AnswerQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to a question of a session."""

    approval_id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    """The action's id."""
    decision: Literal["allow", "deny"]
    note: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class PullAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The question whether a session's commits may leave it."""

    action_id: str
    status: Status
    """`EXECUTED`: these commits are a pull request already."""
    needs: str
    """What approving it takes from this device: `passkey`, `passkey_missing`, or nothing when nothing waits."""


class SessionTree(msgspec.Struct, frozen=True, kw_only=True):
    """A family of sessions, parents before those that they began."""

    items: list[SessionView]


class EventList(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a session, in order; each with its fields at one level."""

    items: list[dict[str, Json]]
    last: int
    """The number of the newest event there is."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What a session changed."""

    files: list[ChangeView]
    path: str
    patch: str
    """The difference of that file, or of everything; hidden characters by their numbers."""
    cut: bool
    """It is longer than this."""


class RepoList(msgspec.Struct, frozen=True, kw_only=True):
    """Repositories, by name."""

    items: list[RepoRef]


class OrgList(msgspec.Struct, frozen=True, kw_only=True):
    """Organizations, by name."""

    items: list[OrgView]


class UsageList(msgspec.Struct, frozen=True, kw_only=True):
    """What sessions used, by organization, month and provider."""

    items: list[MonthUsage]


def _step(
    name: str, operation_id: str, about: str, work: Callable[[Sessions, str], Awaitable[Session]]
) -> HTTPRouteHandler:
    """A route that takes one session to another state."""

    @post(
        f"/{{session_id:str}}/{name}",
        operation_id=operation_id,
        description=about,
        status_code=200,
        responses=problems(404, 409),
    )
    async def step(
        self: Controller,
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        session_id: FromPath[str],
    ) -> SessionView:
        http_runner.may_drive(caller, session_id)
        return http_runner.shown(await _done(work(http_runner.sessions, session_id)))

    return step


class SessionRoutes(Controller):
    """Coding sessions."""

    path = "/runner/v1/sessions"
    tags = ("runner",)

    @post(
        "/",
        operation_id="startSession",
        summary="Start a session",
        responses=problems(403, 422, 429, 507),
    )
    async def start(
        self,
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        data: JSONBody[StartSession],
        request_key: NamedDependency[str | None],
    ) -> SessionStarted:
        """Start a boxed terminal in a checkout of its own. One that may reach the network waits for the owner first."""
        session, needs = await _done(http_runner.start(data, caller, request_key))
        view = http_runner.shown(session)
        return SessionStarted(
            session_id=view.session_id,
            workspace_id=view.workspace_id,
            worktree_path=view.worktree_path,
            session=view,
            needs=needs,
        )

    @get("/", operation_id="listSessions", summary="Sessions, newest first", sync_to_thread=True)
    def list_all(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        org_id: Annotated[str | None, QueryParameter(max_length=64, description="Only of this organization.")] = None,
        thread_id: Annotated[str, QueryParameter(max_length=200, description="Only of this conversation.")] = "",
        job_id: Annotated[str, QueryParameter(max_length=200, description="Only of this job.")] = "",
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[SessionView]:
        """Sessions, newest first."""
        org, before = http_runner.org_for(caller, org_id), read_cursor(cursor, str)
        rows = sessions_before(core.db.reader, before, limit + 1, org, thread_id=thread_id, job_id=job_id)
        page = page_of(rows, limit, [row.session_id for row in rows])
        views = [session_view(http_runner.app, row) for row in page.items if http_runner.seen(caller, row)]
        return Page(items=views, next_cursor=page.next_cursor)

    @get("/{session_id:str}", operation_id="getSession", summary="One session", responses=problems(404))
    async def show(
        self, caller: NamedDependency[Caller], http_runner: NamedDependency[HttpRunner], session_id: FromPath[str]
    ) -> SessionView:
        """One session."""
        return http_runner.view(caller, session_id)

    @get("/{session_id:str}/tree", operation_id="getSessionTree", summary="Its family", responses=problems(404))
    async def tree(
        self, caller: NamedDependency[Caller], http_runner: NamedDependency[HttpRunner], session_id: FromPath[str]
    ) -> SessionTree:
        """The session that began it all, and every one below it; each names its parent."""
        found = family_of(http_runner.app.db.reader, http_runner.found(caller, session_id))
        return SessionTree(items=[http_runner.shown(each) for each in found if http_runner.seen(caller, each)])

    @post("/{session_id:str}/input", operation_id="typeIn", status_code=204, responses=problems(403, 404, 409))
    async def type_in(
        self,
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        session_id: FromPath[str],
        data: JSONBody[TypeIn],
    ) -> None:
        """Type into a session."""
        http_runner.may_drive(caller, session_id)
        await _done(http_runner.sessions.type_in(session_id, data.data, line=data.mode == "line"))

    @post("/{session_id:str}/resize", operation_id="resizeSession", status_code=204, responses=problems(404, 409))
    async def resize(
        self,
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        session_id: FromPath[str],
        data: JSONBody[Size],
    ) -> None:
        """Change the size of its terminal."""
        http_runner.may_drive(caller, session_id)
        await _done(http_runner.resize(session_id, data))

    stop = _step(
        "stop", "stopSession", "Ask it to end; what does not end within five seconds is killed.", Sessions.stop
    )
    pause = _step("pause", "pauseSession", "Stop all its processes until it is resumed.", Sessions.pause)
    resume = _step("resume", "resumeSession", "Let it go on.", Sessions.resume)

    @post("/{session_id:str}/approve", operation_id="answerSession", status_code=200, responses=problems(403, 404, 409))
    async def approve(
        self,
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        session_id: FromPath[str],
        data: JSONBody[AnswerQuestion],
    ) -> SessionView:
        """Answer a question of the session: the same queue and the same proofs as `/v1/approvals`."""
        http_runner.may_drive(caller, session_id)
        allow = data.decision == "allow"
        return await _done(http_runner.answer(session_id, data.approval_id, caller, allow=allow, note=data.note))

    @post("/{session_id:str}/pull", operation_id="askForPull", status_code=200, responses=problems(403, 404, 409))
    async def pull(
        self, caller: NamedDependency[Caller], http_runner: NamedDependency[HttpRunner], session_id: FromPath[str]
    ) -> PullAsked:
        """Ask the owner whether its commits may leave it, as a pull request. Every commit is read first."""
        http_runner.may_drive(caller, session_id)
        action, needs = await _done(http_runner.ask_to_leave(session_id, caller))
        return PullAsked(action_id=action.action_id, status=action.status, needs=needs)

    @get("/{session_id:str}/diff", operation_id="getSessionDiff", responses=problems(404, 409))
    async def diff(
        self,
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        session_id: FromPath[str],
        path: Annotated[str, QueryParameter(max_length=4096, description="Only this file.")] = "",
    ) -> Difference:
        """What differs from the commit that was checked out, read by git in a box."""
        files, patch, cut = await _done(http_runner.difference(caller, session_id, path))
        return Difference(files=[change_view(http_runner.app, each) for each in files], path=path, patch=patch, cut=cut)

    @get("/{session_id:str}/terminal", operation_id="getTerminal", sync_to_thread=True, responses=problems(404))
    def terminal(
        self,
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        session_id: FromPath[str],
        form: Annotated[
            Literal["text", "asciicast"],
            QueryParameter(name="format", description="Plain text, or asciicast v2 for players."),
        ] = "text",
    ) -> Response[bytes]:
        """What was recorded of its terminal, without secrets."""
        data, kind = http_runner.recorded(caller, session_id, form)
        return Response(data, media_type=kind)

    @get("/{session_id:str}/events", operation_id="listSessionEvents", sync_to_thread=True, responses=problems(404))
    def events(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        session_id: FromPath[str],
        after: Annotated[int, QueryParameter(ge=0, description="Only events after this number.")] = 0,
        limit: Limit = 200,
    ) -> EventList:
        """What happened in the session, in order; terminal output is not among it."""
        session = http_runner.found(caller, session_id)
        found = events_after(core.db.reader, session, after, limit)
        items = [core.shown(msgspec.json.decode(each.wire())) for each in found]
        return EventList(items=[each for each in items if isinstance(each, dict)], last=session.seq)

    @delete("/{session_id:str}", operation_id="removeSession", responses=problems(404, 409))
    async def remove(
        self, caller: NamedDependency[Caller], http_runner: NamedDependency[HttpRunner], session_id: FromPath[str]
    ) -> None:
        """Remove the checkout and the recording of a session that is over; its receipts stay."""
        http_runner.may_drive(caller, session_id)
        await _done(http_runner.sessions.remove(session_id))


class RunnerRoutes(Controller):
    """What sessions work on, and what they use."""

    path = "/runner/v1"
    tags = ("runner",)

    @get("/repos", operation_id="listRepos", summary="Repositories", sync_to_thread=True)
    def repos(self, caller: NamedDependency[Caller], http_runner: NamedDependency[HttpRunner]) -> RepoList:
        """The repositories and projects that sessions may work on."""
        return RepoList(items=http_runner.repos(caller))

    @get("/orgs", operation_id="listOrgs", summary="Organizations", sync_to_thread=True)
    def orgs(self, caller: NamedDependency[Caller], http_runner: NamedDependency[HttpRunner]) -> OrgList:
        """Whom sessions are run for, and how much of their plans is used."""
        return OrgList(items=http_runner.orgs(caller))

    @get(
        "/orgs/{org_id:str}/audit",
        operation_id="exportOrgAudit",
        summary="The audit of an organization as JSON lines",
        media_type=LINES,
        responses={
            200: ResponseSpec(
                data_container=str, generate_examples=False, media_type=LINES, description="One record per line."
            ),
            **problems(404),
        },
    )
    async def audit(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        org_id: FromPath[str],
    ) -> Stream:
        """What the ledger holds about the sessions of an organization, and nothing about others'.

        Events come first, then receipts, up to the numbers that the first line gives. `coilclaw session audit --check`
        compares them with the ledger later."""
        head = http_runner.audit_head(caller, org_id)
        headers = {"content-disposition": f'attachment; filename="audit-{org_id}-{core.clock():%Y-%m-%d}.jsonl"'}
        return Stream(_audit_lines(core, caller, head), media_type=LINES, headers=headers)

    @get("/usage", operation_id="getSessionUsage", summary="Usage of sessions", sync_to_thread=True)
    def usage(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_runner: NamedDependency[HttpRunner],
        org_id: Annotated[str | None, QueryParameter(max_length=64, description="Only of this organization.")] = None,
    ) -> UsageList:
        """What sessions used, by organization, month and provider."""
        return UsageList(items=usage_of(core.db.reader, http_runner.org_for(caller, org_id)))


async def _audit_lines(core: Core, caller: Caller, head: OrgAuditHead) -> AsyncIterator[bytes]:
    """A few lines at a time, as fast as the reader takes them, and as long as the device may come in."""
    yield msgspec.json.encode(head) + b"\n"
    for piece in pieces(core.db.reader, head, core.shown):
        lines = await asyncio.to_thread(piece)
        if not may_stay(core, caller):
            return
        yield b"".join(lines)


async def _done(work: Awaitable[T]) -> T:
    """What a piece of work gives, or the problem it ended with."""
    try:
        return await work
    except ToolError as error:
        raise Trouble(_STATUS.get(error.code, 409), error.code, error.message, remedy=error.remedy) from error
