"""patrol_run: one run of a patrol, which its job asks for and no model can."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.config.runner import PatrolKind
from coilclaw.packets.action import untrusted
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import one_line
from coilclaw.runtime.extensions import home_of
from coilclaw.tools.declare import tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.runtime.runtime import Runtime

RUN = "patrol_run"


class RunPatrolArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of patrol_run."""

    run_id: Annotated[str, msgspec.Meta(description="The run.", pattern="^patrol_[0-9a-z]{10,50}$")]
    job_id: Annotated[str, msgspec.Meta(description="Its job.", max_length=64)]
    repo: Annotated[str, msgspec.Meta(description="The repository.", max_length=200)]
    room: Annotated[str, msgspec.Meta(description="A folder of it; empty: all of it.", max_length=200)]
    kind: Annotated[PatrolKind, msgspec.Meta(description="What is looked at.")]
    command: Annotated[str, msgspec.Meta(description="The command; empty: found in its files.", max_length=4096)]
    ref: Annotated[str, msgspec.Meta(description="A commit; empty: the current branch.", max_length=64)]
    quest_id: Annotated[str, msgspec.Meta(description="The quest it is for, if any.", max_length=64)]
    domains: Annotated[tuple[str, ...], msgspec.Meta(description="Hosts it may reach.", max_length=50)]


def patrol_tools(runtime: "Runtime | None") -> tuple[Tool, ...]:
    """The tools of patrols; without a home they can only be described."""
    return (_make_run(home_of(runtime)),)


def _make_run(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: RunPatrolArgs) -> Touches:
        from coilclaw.features.patrols.target import settings_of

        seconds = settings_of(home(), args.repo).patrol_timeout_seconds
        what = one_line(args.command) if args.command else "what its files suggest"
        where = f"It can reach {', '.join(args.domains)}." if args.domains else "It has no network."
        return Touches(
            subject=f"{args.kind} of {args.repo}",
            domains=args.domains,
            public=True,
            seconds=int(seconds) + 1800,  # making and setting up the checkout
            says=f"Run {what} in a box, in a checkout of its own of {one_line(args.repo)}. {where}",
        )

    @tool(
        RunPatrolArgs,
        effect="WRITE",
        destination="internal",  # a throwaway checkout without network: what it leaves are our own rows
        idempotent=True,  # a repeat works in a new checkout, and what a run told is told once
        always_ask=False,
        touches=touches,
        summary=lambda args: f"Patrol {one_line(args.repo)}: {args.kind}",
        callers=frozenset({"gateway"}),
    )
    async def patrol_run(args: RunPatrolArgs, context: Context) -> ToolOutput:
        """Run one patrol of a repository in a box and record what it found; only patrol jobs do."""
        from coilclaw.features.patrols.patrol_run import PatrolArgs, run_patrol
        from coilclaw.features.patrols.views import run_words
        from coilclaw.store.actions import action_with_key

        app = home()
        action = action_with_key(app.db.reader, RUN, context.idempotency_key)
        if action is None:
            raise ToolError("its action is not known.", code="NOT_GRANTED", begun=False)
        with app.commands.during(action):  # its own time limit counts, not that of a job's step
            run = await run_patrol(app, msgspec.convert(args, PatrolArgs, from_attributes=True))
        app.reached("patrol_recorded")
        label = untrusted("patrol")
        if run is None:
            return ToolOutput(text=f"There is no {args.kind} command for {args.repo}.", label=label, code="NO_COMMAND")
        told = run.state != "error"
        return ToolOutput(text=run_words(run), label=label, success=told, code="" if told else "NOT_RUN")

    return patrol_run
