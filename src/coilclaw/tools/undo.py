"""undo: bring back what commands destroyed in the workspace."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool


class UndoArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of undo."""

    snapshot: Annotated[str, msgspec.Meta(description="A snapshot's id; empty for the last one.", max_length=64)] = ""


@tool(
    UndoArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=True,
    always_ask=True,
    touches=lambda args: Touches(restores=args.snapshot),
    summary=lambda args: f"Bring workspace files back as they were at {args.snapshot or 'the last snapshot'}.",
)
async def undo(args: UndoArgs, context: Context) -> ToolOutput:
    """Bring back workspace files that are gone or changed since a snapshot; files made since stay."""
    if context.restore is None:
        raise ToolError("no snapshot was granted to this call.", code="NOT_GRANTED", begun=False)
    paths = await context.restore(args.snapshot)
    if not paths:
        return ToolOutput(text="Nothing to bring back: no file is gone or changed.", label=INTERNAL)
    listed = "\n".join(paths[:100]) + (f"\n… and {len(paths) - 100} more" if len(paths) > 100 else "")
    return ToolOutput(
        text=f"Brought back {len(paths)} {'file' if len(paths) == 1 else 'files'}:\n{listed}",
        label=INTERNAL,
        metadata={"paths": list(paths)},
    )
