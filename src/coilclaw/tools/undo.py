"""undo: take back what was written in the workspace."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool


class UndoArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of undo."""

    snapshot: Annotated[str, msgspec.Meta(description="A snapshot's id; empty for the last turn.", max_length=64)] = ""


@tool(
    UndoArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=True,
    always_ask=True,
    touches=lambda args: Touches(restores=args.snapshot),
    summary=lambda args: f"Restore workspace files as they were before {args.snapshot or 'the last turn'}.",
)
async def undo(args: UndoArgs, context: Context) -> ToolOutput:
    """Take back what was written in the workspace since a snapshot: files come back, and made ones are removed."""
    if context.restore is None:
        raise ToolError("no snapshot was granted to this call.", code="NOT_GRANTED", begun=False)
    done = await context.restore(args.snapshot)
    if not done:
        return ToolOutput(text="Nothing to restore: no file was deleted or changed.", label=INTERNAL)
    back = [path for path, is_back in done if is_back]
    removed = [path for path, is_back in done if not is_back]
    text = "\n".join(part for part in (_listed("Brought back", back), _listed("Removed", removed)) if part)
    return ToolOutput(text=text, label=INTERNAL, metadata={"paths": [path for path, _ in done]})


def _listed(what: str, paths: list[str]) -> str:
    if not paths:
        return ""
    listed = "\n".join(paths[:100]) + (f"\n… and {len(paths) - 100} more" if len(paths) > 100 else "")
    return f"{what} {len(paths)} {'file' if len(paths) == 1 else 'files'}:\n{listed}"
