"""Draft pull requests: what a session committed, kept in this home to be looked at. Nothing leaves by them.

The owner enables them for a repository (`opens_pr`); merging one asks, whatever it holds.
"""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.features.runner.leaving import open_pull, read_leaving
from coilclaw.features.runner.tools import SessionId
from coilclaw.packets.action import INTERNAL, ToolCall
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.features.runner.store import Session
    from coilclaw.runtime.runtime import Runtime

DRAFT = "session_draft"


class DraftArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of session_draft."""

    session_id: SessionId
    head: Annotated[str, msgspec.Meta(description="The last commit.", pattern="^[0-9a-f]{40,64}$")]
    title: Annotated[str, msgspec.Meta(description="The title of its pull request.", min_length=1, max_length=200)]
    ready: Annotated[bool, msgspec.Meta(description="Its merge is asked about: it is a draft no more.")]


def draft_call(session: "Session", head: str, title: str, *, ready: bool) -> ToolCall:
    """The call that opens or updates the draft of a session."""
    return ToolCall.of(DRAFT, {"session_id": session.session_id, "head": head, "title": title[:200], "ready": ready})


def draft_tool(home: "Callable[[], Runtime]") -> Tool:
    """session_draft."""

    @tool(
        DraftArgs,
        effect="WRITE",
        destination="internal",  # a row, and objects in our own cache
        idempotent=True,  # a repeat finds the pull request of the branch
        always_ask=False,
        touches=lambda args: Touches(
            subject=args.session_id,
            says=f"Keep the commits of {args.session_id} up to {args.head[:12]} as a draft pull request.",
        ),
        summary=lambda args: f"Keep the commits of {args.session_id} as a draft: {one_line(args.title)}",
        callers=frozenset({"gateway"}),
    )
    async def session_draft(args: DraftArgs, context: Context) -> ToolOutput:
        """Keep the commits of a session as a draft pull request; only the patrols of a repository do."""
        from coilclaw.features.runner.session_tools import table_of
        from coilclaw.features.runner.sessions import sessions_of

        app = home()
        sessions = sessions_of(app)
        session = sessions.get(args.session_id)
        repo = table_of(app, session)
        if repo is None or not repo.opens_pr:
            raise ToolError(
                "drafts are not enabled for its repository.",
                remedy="Run `coilclaw config set repos.NAME.opens_pr true`.",
                code="NOT_ENABLED",
                begun=False,
            )
        leaving = await read_leaving(app, sessions, session)
        if leaving.head != args.head:
            raise ToolError("the session has committed something else since.", code="CHANGED", begun=False)
        number = await open_pull(app, session, leaving, args.title, draft=not args.ready, suggested=True)
        text = f"Pull request #{number} has the commits up to {args.head[:12]}."
        return ToolOutput(text=text, label=INTERNAL, metadata={"number": number})

    return session_draft
