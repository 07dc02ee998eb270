"""session_start and session_end: a session begins by the owner's word, and its end has a receipt too."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.features.runner.agent_tools import agent_tools
from coilclaw.features.runner.spec import StartSession
from coilclaw.features.runner.states import EndCode
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import one_line
from coilclaw.runtime.extensions import home_of
from coilclaw.tools.declare import tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.runtime.runtime import Runtime

START, END = "session_start", "session_end"
LONGEST_START = 1800
SessionId = Annotated[str, msgspec.Meta(description="The session.", pattern="^sess_[0-9a-z]{10,40}$")]


class StartArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of session_start."""

    session_id: SessionId
    session: Annotated[StartSession, msgspec.Meta(description="What is asked for.")]


class EndArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of session_end: how it ended, and the evidence."""

    session_id: SessionId
    code: Annotated[EndCode, msgspec.Meta(description="Why it ended.")]
    reason: Annotated[str, msgspec.Meta(description="In a sentence.", max_length=2000)]
    exit_code: Annotated[int | None, msgspec.Meta(description="The exit status, if there is one.")]
    seconds: Annotated[int, msgspec.Meta(description="How long it ran.", ge=0)]
    terminal: Annotated[str, msgspec.Meta(description="SHA-256 of its recorded terminal; empty without one.")]
    files: Annotated[int, msgspec.Meta(description="How many files it changed.", ge=0)]


def runner_tools(runtime: "Runtime | None") -> tuple[Tool, ...]:
    """The tools of sessions; without a home they can only be described."""
    home = home_of(runtime)

    from coilclaw.features.runner.adapter_tool import adapter_tool
    from coilclaw.features.runner.drafts import draft_tool
    from coilclaw.features.runner.leaving import push_tool
    from coilclaw.features.runner.session_tools import session_tools

    # Without a repository to work on they would only cost room in every request.
    of_agent = agent_tools(home) if runtime is None or runtime.config.repos else ()
    return (
        _make_start(home), _make_end(home), *session_tools(home), push_tool(home), draft_tool(home),
        adapter_tool(home), *of_agent,
    )  # fmt: skip


def _make_start(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: StartArgs) -> Touches:
        from coilclaw.features.runner.box import domains_for
        from coilclaw.features.runner.words import start_words

        app = home()
        says = start_words(app, args.session)
        return Touches(
            subject=args.session.repo.text,
            domains=domains_for(app, args.session),
            public=True,
            seconds=LONGEST_START,
            says=says,
        )

    @tool(
        StartArgs,
        effect="WRITE",
        destination="machine",
        idempotent=True,  # a repeat goes on where it was interrupted
        always_ask=False,
        touches=touches,
        summary=lambda args: f"Open a {args.session.provider} in a checkout of {one_line(args.session.repo.text)}",
        callers=frozenset({"gateway"}),
    )
    async def session_start(args: StartArgs, context: Context) -> ToolOutput:
        """Start a boxed terminal in a checkout of its own; only `coilclaw session` and the runner's API do."""
        from coilclaw.features.runner.sessions import sessions_of
        from coilclaw.store.actions import action_with_key

        app = home()
        action = action_with_key(app.db.reader, START, context.idempotency_key)
        session = await sessions_of(app).start(
            args.session_id,
            args.session,
            action_id="" if action is None else action.action_id,
            by="" if action is None or action.approved_by is None else action.approved_by,
        )
        text = f"Session {session.session_id} is {session.state}."
        return ToolOutput(text=text, label=INTERNAL, metadata={"session_id": session.session_id})

    return session_start


def _make_end(home: "Callable[[], Runtime]") -> Tool:
    @tool(
        EndArgs,
        effect="WRITE",
        destination="internal",
        idempotent=True,
        always_ask=False,
        touches=lambda args: Touches(
            subject=args.session_id, public=True, says=f"The session has ended: {args.reason}", tightens=True
        ),
        summary=lambda args: f"Record the end of {args.session_id}: {args.code}",
        callers=frozenset({"gateway"}),
    )
    async def session_end(args: EndArgs, context: Context) -> ToolOutput:
        """Record how a session ended; only the runtime does."""
        from coilclaw.features.runner.sessions import sessions_of

        await sessions_of(home()).record_end(args.session_id, args.code, args.reason, args.exit_code)
        return ToolOutput(text=f"{args.session_id} ended: {args.code}. {args.reason}", label=INTERNAL)

    return session_end
