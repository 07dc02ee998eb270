"""file_move and file_delete: files and folders in the workspace, with everything in them."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool
from coilclaw.tools.files import Path, granted_files


class MoveArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_move."""

    path: Path
    target: Annotated[
        str,
        msgspec.Meta(
            description="Its new path inside the workspace, including the name; missing folders are created.",
            min_length=1,
            max_length=4096,
        ),
    ]
    overwrite: Annotated[bool, msgspec.Meta(description="Replace a file with that name.")] = False


class DeleteArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_delete."""

    path: Path


# Neither is idempotent: a second run finds nothing, or something else.
@tool(
    MoveArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=False,
    always_ask=False,
    touches=lambda args: Touches(
        writes=(args.path, args.target), moves=(args.path, args.target), overwrites=args.overwrite
    ),
    summary=lambda args: f"Move {args.path} to {args.target}.",
)
async def file_move(args: MoveArgs, context: Context) -> ToolOutput:
    """Move or rename a file or folder in the workspace; of a link, the link itself, not its target."""
    granted_files(context).move(args.path, args.target)
    return ToolOutput(text=f"Moved {args.path} to {args.target}.", label=INTERNAL)


@tool(
    DeleteArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=False,
    always_ask=False,
    touches=lambda args: Touches(writes=(args.path,), removes=args.path),
    summary=lambda args: f"Delete {args.path}.",
)
async def file_delete(args: DeleteArgs, context: Context) -> ToolOutput:
    """Delete a file or folder in the workspace with everything in it; `undo` restores files."""
    granted_files(context).remove(args.path)
    return ToolOutput(text=f"Deleted {args.path}. `undo` restores it.", label=INTERNAL)
