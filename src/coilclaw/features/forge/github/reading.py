"""forge_read: an issue, a pull request or a comment of a listed repository on GitHub. Anybody may have written it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from coilclaw.packets.action import untrusted
from coilclaw.packets.canonical import Json, JsonObject, as_object
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import one_line, visible
from coilclaw.tools.declare import tool

if TYPE_CHECKING:
    from coilclaw.features.forge.github.api import GitHubApi
    from coilclaw.runtime.runtime import Runtime

TEXT = 50_000
MOST_COMMENTS = 100
GITHUB = untrusted("github")


class ForgeReadArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of forge_read."""

    kind: Annotated[Literal["issue", "pull", "comment"], msgspec.Meta(description="What to read.")]
    number: Annotated[int, msgspec.Meta(description="Its number; of a comment, its id.", ge=1, le=1 << 53)]
    repository: Annotated[
        str, msgspec.Meta(description="As owner/name, one of those listed; empty for the bot's own.", max_length=140)
    ] = ""


def make_read(home: "Callable[[], Runtime]") -> Tool:
    """The tool of a home. It keeps its connection, so that limits and tokens are kept."""
    connected: list[GitHubApi] = []

    def api() -> "GitHubApi":
        from coilclaw.features.forge.github.api import GitHubApi

        app = home()
        if not connected or connected[0].settings != app.config.forge.github:
            connected[:] = [GitHubApi(app)]
        return connected[0]

    @tool(
        ForgeReadArgs,
        effect="READ",
        destination="external",
        idempotent=True,
        always_ask=False,
        touches=lambda args: Touches(subject=_subject(home(), args), fault=_fault(home(), args)),
        summary=lambda args: f"Read {_named(args)} on GitHub.",
    )
    async def forge_read(args: ForgeReadArgs, context: Context) -> ToolOutput:
        """Read an issue, a pull request or a comment of a listed repository on GitHub, with its comments."""
        if fault := _fault(home(), args):
            raise fault
        text = await _read(api(), _repository(home(), args), args)
        return ToolOutput(text=text, label=GITHUB)

    return forge_read


async def _read(api: "GitHubApi", repository: str, args: ForgeReadArgs) -> str:
    if args.kind == "comment":
        return _shown(await _there(api, repository, f"/issues/comments/{args.number}", args))[:TEXT]
    where = "pulls" if args.kind == "pull" else "issues"
    told = await _there(api, repository, f"/{where}/{args.number}", args)
    rows = await api.read_of(repository, f"/issues/{args.number}/comments?per_page={MOST_COMMENTS}")
    state = "merged" if told.get("merged") is True else str(told.get("state"))
    head = f"{one_line(visible(str(told.get('title'))))} ({args.kind} #{args.number}, {one_line(state)})"
    parts = [f"{head}\n{_shown(told)}", *(_shown(each) for each in rows.rows)]
    return "\n\n".join(parts)[:TEXT]


async def _there(api: "GitHubApi", repository: str, path: str, args: ForgeReadArgs) -> JsonObject:
    answer = await api.read_of(repository, path)
    if answer.status == 404:
        raise ToolError(f"{_named(args)} is not there for the bot.", code="NOT_FOUND", begun=False)
    return answer.fields


def _shown(told: JsonObject) -> str:
    """Who wrote what. Nothing hidden stays hidden."""
    labels = told.get("labels")
    names = [_label(each) for each in labels] if isinstance(labels, Sequence) and not isinstance(labels, str) else []
    by = one_line(visible(str(as_object(told.get("user")).get("login"))))
    about = f"{by}, labels {one_line(visible(', '.join(names)))}" if names else by
    return f"{about}:\n{visible(str(told.get('body') or ''))}"


def _label(each: Json) -> str:
    return str(as_object(each).get("name"))


def _repository(app: "Runtime", args: ForgeReadArgs) -> str:
    """The repository as the owner listed it; empty for one that is not listed."""
    github = app.config.forge.github
    wanted = args.repository.lower() or github.repository.lower()
    return next((each for each in (github.repository, *github.reads) if each.lower() == wanted), "")


def _fault(app: "Runtime", args: ForgeReadArgs) -> ToolError | None:
    if _repository(app, args):
        return None
    remedy = "The owner lists repositories in forge.github.reads."
    return ToolError("this repository is not listed.", remedy=remedy, code="NOT_LISTED", begun=False)


def _subject(app: "Runtime", args: ForgeReadArgs) -> str:
    return f"{args.kind} {args.number} of {_repository(app, args) or 'a repository that is not listed'}"


def _named(args: ForgeReadArgs) -> str:
    return f"{args.kind} {args.number}" + (f" of {args.repository}" if args.repository else "")
