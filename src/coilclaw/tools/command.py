"""command_status and command_stop: the state of a background command, and ending it."""

from typing import Annotated

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import CommandState, Context, ToolOutput, Touches
from coilclaw.tools.declare import tool

LONGEST_WAIT = 60
_Handle = Annotated[
    str, msgspec.Meta(description="The handle that shell returned.", pattern="^act_[0-9a-z]+$", max_length=60)
]


class CommandStatusArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of command_status."""

    handle: _Handle
    wait_seconds: Annotated[
        int, msgspec.Meta(description="How long to wait for its end if it is still running.", ge=0, le=LONGEST_WAIT)
    ] = 0


class CommandStopArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of command_stop."""

    handle: _Handle


def _output(handle: str, state: CommandState) -> ToolOutput:
    text = f"{handle} {state.words}."
    return ToolOutput(
        text=f"{text}\n{state.output}" if state.output else text,
        label=state.label,
        metadata={"running": state.running},
    )


def _not_granted() -> ToolError:
    return ToolError("background commands were not granted to this call.", code="NOT_GRANTED", begun=False)


@tool(
    CommandStatusArgs,
    effect="READ",
    destination="internal",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(handle=args.handle, seconds=args.wait_seconds),
    summary=lambda args: f"Check the background command {args.handle}.",
)
async def command_status(args: CommandStatusArgs, context: Context) -> ToolOutput:
    """Return the state of a background command of this conversation, with the end of its output."""
    if context.command_status is None:
        raise _not_granted()
    return _output(args.handle, await context.command_status(args.handle, float(args.wait_seconds)))


@tool(
    CommandStopArgs,
    effect="WRITE",
    destination="internal",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(handle=args.handle),
    summary=lambda args: f"End the background command {args.handle}.",
)
async def command_stop(args: CommandStopArgs, context: Context) -> ToolOutput:
    """End a background command of this conversation with everything it started, and return how it ended."""
    if context.command_stop is None:
        raise _not_granted()
    return _output(args.handle, await context.command_stop(args.handle))
