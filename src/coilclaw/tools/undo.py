"""undo: revert writes in the workspace."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Restore, ToolOutput, Touches
from coilclaw.tools.declare import tool

MOST_PATHS = 200
"""So many files can be taken back by name."""


class UndoArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of undo."""

    snapshot: Annotated[str, msgspec.Meta(description="A snapshot's id; empty for the last turn.", max_length=64)] = ""
    paths: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=4096)], ...],
        msgspec.Meta(
            description="Only these files; without them, everything since but what governs the agent.",
            max_length=MOST_PATHS,
        ),
    ] = ()


@tool(
    UndoArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=True,
    always_ask=True,
    touches=lambda args: Touches(restores=Restore(snapshot=args.snapshot, paths=args.paths)),
    summary=lambda args: (
        f"Take back what was written to {_few(args.paths)}."
        if args.paths
        else f"Restore workspace files as they were before {args.snapshot or 'the last turn'}."
    ),
)
async def undo(args: UndoArgs, context: Context) -> ToolOutput:
    """Revert writes in the workspace since a snapshot: restores files and removes new ones."""
    if context.restore is None:
        raise ToolError("no snapshot was granted to this call.", code="NOT_GRANTED", begun=False)
    done = await context.restore()
    if not done:
        return ToolOutput(text="Nothing to restore: no file was deleted or changed.", label=INTERNAL)
    back = [path for path, is_back in done if is_back]
    removed = [path for path, is_back in done if not is_back]
    text = "\n".join(part for part in (_listed("Brought back", back), _listed("Removed", removed)) if part)
    return ToolOutput(text=text, label=INTERNAL, metadata={"paths": [path for path, _ in done]})


def _few(paths: tuple[str, ...]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _listed(what: str, paths: list[str]) -> str:
    if not paths:
        return ""
    listed = "\n".join(paths[:100]) + (f"\n… and {len(paths) - 100} more" if len(paths) > 100 else "")
    return f"{what} {len(paths)} {'file' if len(paths) == 1 else 'files'}:\n{listed}"
