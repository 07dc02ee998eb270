"""shell: one command line, run in a box and nowhere else."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.box import BoxResult
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool

SHOWN = 64 * 1024
CODES = {
    "timeout": "TOOL_TIMEOUT",
    "stopped": "ESTOP",
    "output_limit": "OUTPUT_LIMIT",
    "memory_limit": "MEMORY_LIMIT",
    "signalled": "SIGNALLED",
    "exited": "EXIT_NONZERO",
}


class ShellArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of shell."""

    command: Annotated[str, msgspec.Meta(description="A POSIX shell command line, run in the workspace.", min_length=1)]


def _text(data: bytes) -> str:
    shown = data[:SHOWN].decode("utf-8", "replace")
    return shown + (f"\n… {len(data) - SHOWN} more bytes" if len(data) > SHOWN else "")


def _report(result: BoxResult) -> str:
    parts = [_text(result.stdout)]
    if result.stderr:
        parts.append("[stderr]\n" + _text(result.stderr))
    if result.end != "exited":
        parts.append(f"[{result.reason or result.end}]")
    elif result.exit_code:
        parts.append(f"[exit {result.exit_code}]")
    return "\n".join(part for part in parts if part) or "(no output)"


@tool(
    ShellArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=False,
    always_ask=False,
    touches=lambda args: Touches(command=args.command),
    summary=lambda args: f"Run `{args.command.splitlines()[0][:120]}`.",
)
async def shell(args: ShellArgs, context: Context) -> ToolOutput:
    """Run a shell command in the workspace, boxed: no network, read-only system, limits on time, memory and output."""
    if context.run_command is None:
        raise ToolError("no box was granted to this call.", code="NOT_GRANTED", begun=False)
    result = await context.run_command(args.command)
    success = result.end == "exited" and result.exit_code == 0
    return ToolOutput(
        text=_report(result),
        label=INTERNAL,
        success=success,
        code="" if success else CODES[result.end],
        exit=result.exit_code,
        metadata={"seconds": round(result.seconds, 3), "tier": result.tier, "end": result.end},
    )
