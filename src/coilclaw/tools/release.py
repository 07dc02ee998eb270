"""quarantine_release: releases files that a command made and other programs execute. Only the runtime calls it."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool


class ReleaseArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of quarantine_release."""

    action: Annotated[str, msgspec.Meta(description="The action whose command made them.", max_length=100)]
    files: Annotated[
        dict[str, str],
        msgspec.Meta(description="The held files by path: the SHA-256 of a file, or a link's target.", min_length=1),
    ]


def _listed(args: ReleaseArgs) -> str:
    lines = (f"  {path}  ({content})" for path, content in sorted(args.files.items()))
    return (
        "A command made or changed these. Other programs execute them on their own, outside any box, so they are held"
        f" in the quarantine of CoilClaw's home ({args.action}):\n" + "\n".join(lines)
    )


@tool(
    ReleaseArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=True,
    always_ask=True,
    touches=lambda args: Touches(writes=tuple(sorted(args.files)), says=_listed(args), releases=args.action),
    summary=lambda args: (
        f"Put {len(args.files)} held {'file' if len(args.files) == 1 else 'files'} in place that other"
        f" programs execute on their own: {', '.join(sorted(args.files)[:5])}{'…' if len(args.files) > 5 else '.'}"
    ),
    callers=frozenset({"gateway"}),
)
async def quarantine_release(args: ReleaseArgs, context: Context) -> ToolOutput:
    """Release files that a command made and other programs execute; only the runtime can call it."""
    if context.release is None:
        raise ToolError("no held files were granted to this call.", code="NOT_GRANTED", begun=False)
    placed = await context.release(args.action, args.files)
    names = ", ".join(placed[:20]) + (f" and {len(placed) - 20} more" if len(placed) > 20 else "")
    return ToolOutput(text=f"In place: {names}.", label=INTERNAL, metadata={"paths": list(placed)})
