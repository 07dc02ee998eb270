"""Pull requests, the bot and its intel over HTTP. The merge itself is answered at /v1/approvals, as every question."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from litestar import Controller, Request, Response, get, post, put
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, PathParameter, QueryParameter

from coilclaw.features.forge.http_forge import HttpForge
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.store import load_pull, pulls_before
from coilclaw.features.forge.views import (
    BotView,
    ChangedFile,
    FileDiff,
    IntelView,
    PullShown,
    PullView,
    check_view,
    pull_view,
)
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.forge import Check, PullRequest, PullState
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor, write_cursor
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.server.webhooks import signed_delivery

T = TypeVar("T")
Number = Annotated[int, PathParameter(ge=1, le=1 << 53)]
FilesLimit = Annotated[int, QueryParameter(ge=1, le=100, description="Maximum number of files.")]

ListedLimit = Annotated[int, QueryParameter(ge=1, le=1000, description="Maximum number of files.")]


class AskChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change."""

    words: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]


class ClosePull(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why it is closed."""

    reason: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class SetMode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pull requests merge without a question."""

    mode: Literal["strict", "whitelist", "yolo"]
    hours: Annotated[int, msgspec.Meta(ge=1, le=24)] | None = None
    """How long yolo lasts; only for yolo."""


class ForgeWoken(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that was accepted."""

    woken: bool
    """False if it came before, or is of no interest."""


class ModeSet(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    bot: BotView
    action_id: str | None
    """The action that waits for the owner's proof; null when it is done."""


class CheckList(msgspec.Struct, frozen=True, kw_only=True):
    """The checks of a pull request."""

    items: list[Check]
    checked_sha: str
    """The commit on main they were run against; empty before they ran."""


class IntelFile(IntelView, frozen=True, kw_only=True):
    """A file of findings."""

    content: str
    """Hidden characters by their numbers; empty where it is too long or no text."""
    cut: bool


def _step(
    name: str, operation_id: str, summary: str, about: str, work: Callable[[Pulls, int], Awaitable[PullRequest]]
) -> HTTPRouteHandler:
    """A route that takes one pull request a step further."""

    @post(
        f"/{{number:int}}/{name}",
        operation_id=operation_id,
        summary=summary,
        description=about,
        status_code=200,
        responses=problems(404, 409),
    )
    async def step(
        self: Controller, core: NamedDependency[Core], http_forge: NamedDependency[HttpForge], number: Number
    ) -> PullShown:
        _found(core, number)
        return await _done(http_forge, work(http_forge.pulls, number))

    return step


class PullRoutes(Controller):
    """Pull requests."""

    path = "/v1/pulls"
    tags = ("pulls",)

    @get("/", operation_id="listPulls", summary="Pull requests, newest first", sync_to_thread=True)
    def list_all(
        self,
        core: NamedDependency[Core],
        of_state: Annotated[
            PullState | None, QueryParameter(name="state", description="Only pull requests in this state.")
        ] = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[PullView]:
        """What jobs changed, newest first, each with its checks and its merge question."""
        states: tuple[PullState, ...] = ("OPEN", "MERGED", "CLOSED") if of_state is None else (of_state,)
        rows = pulls_before(core.db.reader, states, read_cursor(cursor, int), limit + 1)
        return page_of([pull_view(row, core.said) for row in rows], limit, [row.number for row in rows])

    @get("/{number:int}", operation_id="getPull", summary="One pull request", responses=problems(404))
    async def show(
        self, core: NamedDependency[Core], http_forge: NamedDependency[HttpForge], number: Number
    ) -> PullShown:
        """A pull request with its text, its checks and what became of it."""
        return await asyncio.to_thread(http_forge.shown, _found(core, number))

    @get("/{number:int}/files", operation_id="listPullFiles", summary="The files it changes", responses=problems(404))
    async def files(
        self,
        core: NamedDependency[Core],
        http_forge: NamedDependency[HttpForge],
        number: Number,
        limit: ListedLimit = 1000,
        cursor: Cursor = None,
    ) -> Page[ChangedFile]:
        """The files it changes, by path, without their differences."""
        pull, place = _found(core, number), max(0, read_cursor(cursor, int) or 0)
        items, more = await _read(lambda: http_forge.files(pull, place, limit))
        return Page(items=items, next_cursor=write_cursor(place + limit) if more else None)

    @get("/{number:int}/diff", operation_id="getPullDiff", summary="What it changes, by file", responses=problems(404))
    async def diff(
        self,
        core: NamedDependency[Core],
        http_forge: NamedDependency[HttpForge],
        number: Number,
        path: Annotated[
            str | None, QueryParameter(max_length=16_384, description="Only the file of this path, as it is listed.")
        ] = None,
        limit: FilesLimit = 20,
        cursor: Cursor = None,
    ) -> Page[FileDiff]:
        """The difference it makes, file by file. Long and binary files are named with their sizes."""
        pull, place = _found(core, number), max(0, read_cursor(cursor, int) or 0)
        items, more = await _read(lambda: http_forge.diff(pull, place, limit, path))
        return Page(items=items, next_cursor=write_cursor(place + limit) if more else None)

    @get("/{number:int}/checks", operation_id="getPullChecks", summary="Its checks", responses=problems(404))
    async def checks(self, core: NamedDependency[Core], number: Number) -> CheckList:
        """How its checks ended."""
        pull = _found(core, number)
        return CheckList(items=[check_view(each, core.said) for each in pull.checks], checked_sha=pull.checked_sha)

    @post(
        "/{number:int}/changes",
        operation_id="askPullChanges",
        summary="Ask for changes",
        status_code=200,
        responses=problems(404, 409),
    )
    async def changes(
        self,
        core: NamedDependency[Core],
        http_forge: NamedDependency[HttpForge],
        number: Number,
        data: JSONBody[AskChanges],
    ) -> PullShown:
        """Its job goes on with these words, then asks again."""
        _found(core, number)
        return await _done(http_forge, http_forge.pulls.want(number, data.words))

    @post(
        "/{number:int}/close",
        operation_id="closePull",
        summary="Close it without merging",
        status_code=200,
        responses=problems(404, 409),
    )
    async def close(
        self,
        core: NamedDependency[Core],
        http_forge: NamedDependency[HttpForge],
        number: Number,
        data: JSONBody[ClosePull | None] = None,
    ) -> PullShown:
        """Close it without merging; its branch stays, its job ends."""
        _found(core, number)
        return await _done(http_forge, http_forge.pulls.close(number, "" if data is None else data.reason))

    reopen = _step(
        "reopen",
        "reopenPull",
        "Open it again",
        "Open it again and ask about its merge, while its branch is there and its job is not over.",
        Pulls.reopen,
    )
    ask = _step(
        "ask",
        "askPull",
        "Ask about its merge again",
        "Run the checks of an open one and ask about its merge again, where the question has expired.",
        Pulls.ask,
    )
    revert = _step(
        "revert",
        "revertPull",
        "Take a merged one back",
        "A new pull request that takes a merged one back; the one that is open already, if there is one.",
        Pulls.revert,
    )


class BotRoutes(Controller):
    """The bot's repository."""

    path = "/v1/bot"
    tags = ("pulls",)

    @get("/", operation_id="getBot", summary="The bot's repository")
    async def show(self, http_forge: NamedDependency[HttpForge]) -> BotView:
        """Whether pull requests work, what merges by itself, and where main is."""
        return await _read(http_forge.bot)

    @put(
        "/mode",
        operation_id="setMergeMode",
        summary="Which pull requests merge without a question",
        status_code=200,
        responses={
            202: ResponseSpec(data_container=ModeSet, description="It waits for the owner.", generate_examples=False),
            **problems(403, 409, 422),
        },
    )
    async def set_mode(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_forge: NamedDependency[HttpForge],
        data: JSONBody[SetMode],
        request_key: NamedDependency[str | None],
    ) -> Response[ModeSet]:
        """Stricter holds at once. Anything else is an action that waits for the owner's proof."""
        if (data.mode == "yolo") != (data.hours is not None):
            raise Trouble(422, "HOURS", "yolo lasts for some hours, and only yolo does.", remedy="Send `hours`.")
        try:
            action = await asyncio.shield(http_forge.set_mode(data.mode, data.hours, by=caller.by, key=request_key))
        except UsageError as error:
            raise Trouble(422, "MODE_INVALID", core.said(error.message), remedy=error.remedy) from error
        view = await _read(http_forge.bot)
        if action is None or action.status == "EXECUTED":
            return Response(ModeSet(bot=view, action_id=None), status_code=200)
        if action.status not in ("PENDING", "APPROVED"):
            raise Trouble(403, "DENIED", f"it was denied ({action.action_id}).", remedy="See GET /v1/actions.")
        return Response(ModeSet(bot=view, action_id=action.action_id), status_code=202)


class ForgeWebhookRoutes(Controller):
    """Deliveries of the forge that shows the bot's pull requests. Open at the door: the signature is the proof."""

    path = "/v1/forge/webhook"
    tags = ("pulls",)

    @post(
        "/",
        operation_id="deliverForgeWebhook",
        summary="A signed delivery of GitHub",
        status_code=202,
        responses=problems(403),
    )
    async def deliver(self, http_forge: NamedDependency[HttpForge], request: Request[Any, Any, Any]) -> ForgeWoken:
        """Look at GitHub now instead of within a minute. The body is only checked against its signature."""
        delivery = await signed_delivery(request, http_forge.webhook_secret())
        return ForgeWoken(woken=await http_forge.wake(delivery))


class IntelRoutes(Controller):
    """What the agent found out and the owner merged."""

    path = "/v1/intel"
    tags = ("pulls",)

    @get("/", operation_id="listIntel", summary="Findings on main, last path first")
    async def list_all(
        self, http_forge: NamedDependency[HttpForge], limit: Limit = 50, cursor: Cursor = None
    ) -> Page[IntelView]:
        """The files below intel/ on main."""
        place = max(0, read_cursor(cursor, int) or 0)
        items, more = await _read(lambda: http_forge.intel(place, limit))
        return Page(items=items, next_cursor=write_cursor(place + limit) if more else None)

    @get("/show", operation_id="getIntel", summary="One file of findings", responses=problems(404))
    async def show(
        self,
        http_forge: NamedDependency[HttpForge],
        path: Annotated[str, QueryParameter(max_length=4096, description="Its path below intel/.")],
    ) -> IntelFile:
        """A file below intel/ as it stands on main."""
        found = await _read(lambda: http_forge.intel_file(path))
        if found is None:
            raise NotThere("such file", "See GET /v1/intel.")
        view, content, cut = found
        return IntelFile(path=view.path, size=view.size, content=content, cut=cut)


def _found(core: Core, number: int) -> PullRequest:
    pull = load_pull(core.db.reader, number)
    if pull is None:
        raise NotThere("such pull request", "See GET /v1/pulls.")
    return pull


async def _done(http_forge: HttpForge, work: Awaitable[PullRequest]) -> PullShown:
    """What became of it; whatever stands in the way is a conflict with how it is now."""
    try:
        pull = await asyncio.shield(work)
    except (UsageError, ToolError) as error:
        raise Trouble(409, "PULL_STATE", error.message, remedy=error.remedy) from error
    return await asyncio.to_thread(http_forge.shown, pull)


async def _read(work: Callable[[], T]) -> T:
    """What git says, in a thread; a repository that cannot be read is a conflict."""
    try:
        return await asyncio.to_thread(work)
    except ToolError as error:
        raise Trouble(409, "REPOSITORY", error.message, remedy=error.remedy) from error
