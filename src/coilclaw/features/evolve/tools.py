"""evolve_merge, evolve_rollback, evolve_route: what the owner decides about the agent, each through the gate."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import one_line
from coilclaw.runtime.extensions import home_of
from coilclaw.tools.declare import owner_call, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.runtime.runtime import Runtime

MERGE, ROLLBACK, ROUTE = "evolve_merge", "evolve_rollback", "evolve_route"
_Commit = Annotated[str, msgspec.Meta(description="A commit.", pattern="^[0-9a-f]{40}$")]


class EvolveMergeArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of evolve_merge: everything that a yes binds."""

    branch: Annotated[str, msgspec.Meta(description="The branch.", pattern="^agent/[A-Za-z0-9._-]{1,64}$")]
    old: _Commit
    new: _Commit


class EvolveRollbackArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of evolve_rollback."""

    ref: Annotated[str, msgspec.Meta(description="A branch, tag or commit of its record.", max_length=200)]
    commit: _Commit


class EvolveRouteArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of evolve_route."""

    allowed: Annotated[bool, msgspec.Meta(description="Whether it may have a route.")]


def evolve_tools(runtime: "Runtime | None") -> tuple[Tool, ...]:
    """The tools of the agent that works on itself; without a home they can only be described."""
    home = home_of(runtime)
    return (_make_merge(home), _make_rollback(home), _make_route(home))


def _make_merge(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: EvolveMergeArgs) -> Touches:
        from coilclaw.features.evolve.changes import merge_card

        return Touches(subject=f"main, by {args.branch}", public=True, says=merge_card(home(), args))

    @tool(
        EvolveMergeArgs,
        effect="WRITE",
        destination="internal",  # main of a repository that nothing outside the container runs
        idempotent=True,  # merged twice, it is merged once
        always_ask=True,
        touches=touches,
        summary=lambda args: f"Merge {args.branch} into main of the agent that works on itself",
        callers=frozenset({"gateway"}),
    )
    async def evolve_merge(args: EvolveMergeArgs, context: Context) -> ToolOutput:
        """Merge a branch of the agent that works on itself into its main; only the runtime proposes it."""
        from coilclaw.features.evolve.changes import in_record

        made = await in_record(home(), lambda record: record.merge(args.branch, args.old, args.new))
        text = f"Merged {args.branch}: main is {made[:12]}."
        return ToolOutput(text=text, label=INTERNAL, metadata={"commit": made})

    return evolve_merge


def _make_rollback(home: "Callable[[], Runtime]") -> Tool:
    @owner_call(
        EvolveRollbackArgs,
        destination="internal",
        idempotent=True,
        touches=lambda args: Touches(
            subject=one_line(args.ref),
            public=True,
            says=f"The agent that works on itself goes back to {args.commit[:12]} ({one_line(args.ref)}): it restarts"
            " from a new branch there. Main and all history stay.",
        ),
        summary=lambda args: f"Go back to {args.commit[:12]} in the agent's repository",
    )
    async def evolve_rollback(args: EvolveRollbackArgs, context: Context) -> ToolOutput:
        """Start the agent that works on itself from an earlier commit; only `coilclaw evolve` and the panel do."""
        from coilclaw.features.evolve.changes import in_record
        from coilclaw.features.evolve.desk_files import order

        found = await in_record(home(), lambda record: record.resolve(args.commit) or "")
        if found != args.commit:
            raise ToolError(f"the record has no commit {args.commit}.", code="REF_GONE", begun=False)
        order(home(), {"kind": "rollback", "ref": args.commit})
        text = f"The watcher starts the agent from {args.commit[:12]}, on a new branch."
        return ToolOutput(text=text, label=INTERNAL, metadata={"commit": args.commit})

    return evolve_rollback


def _make_route(home: "Callable[[], Runtime]") -> Tool:
    @owner_call(
        EvolveRouteArgs,
        destination="internal",
        idempotent=True,
        touches=lambda args: Touches(
            subject="the network of the agent that works on itself",
            public=True,
            says='With `[evolve] network = "routed"` it reaches every public address directly: whatever it can read can'
            " leave, and CoilClaw does not see what. Private addresses and this machine stay out of reach."
            if args.allowed
            else "It has no route any more.",
        ),
        summary=lambda args: f"{'Allow' if args.allowed else 'Forbid'} the agent a route to public addresses",
    )
    async def evolve_route(args: EvolveRouteArgs, context: Context) -> ToolOutput:
        """Allow the agent that works on itself a route to public addresses, or no longer; only the owner does."""
        from coilclaw.features.evolve.init import needed

        mark = needed(home()).routed
        mark.touch(mode=0o600) if args.allowed else mark.unlink(missing_ok=True)
        text = "It may have a route." if args.allowed else "It has no route from its next start on."
        return ToolOutput(text=text, label=INTERNAL, metadata={})

    return evolve_route
