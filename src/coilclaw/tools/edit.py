"""file_edit: exact replacements in a file of the workspace."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Edit, ToolOutput, Touches
from coilclaw.tools.declare import tool
from coilclaw.tools.files import MAX_WRITE, Path, granted_files


class EditArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_edit."""

    path: Path
    edits: Annotated[
        tuple[Edit, ...],
        msgspec.Meta(
            description="Replacements, in order; each is applied to the result of the previous ones.",
            min_length=1,
            max_length=50,
        ),
    ]


def _counted(args: EditArgs) -> str:
    return "1 replacement" if len(args.edits) == 1 else f"{len(args.edits)} replacements"


# Not idempotent: a second run finds a different text. The gate applies the edits to what it read, shows the
# result, and binds the approval to both.
@tool(
    EditArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=False,
    always_ask=False,
    touches=lambda args: Touches(reads=(args.path,), writes=(args.path,), inputs=(args.path,), edits=args.edits),
    summary=lambda args: f"Edit {args.path} ({_counted(args)}).",
)
async def file_edit(args: EditArgs, context: Context) -> ToolOutput:
    """Replace exact pieces of a UTF-8 text file in the workspace: all of them, or none if one does not fit."""
    files = granted_files(context)
    if context.edited is None:
        raise ToolError("no edit was granted to this call.", code="NOT_GRANTED", begun=False)
    if files.read(args.path, max_bytes=MAX_WRITE) != context.inputs[0]:
        raise ToolError(
            f"{args.path} changed meanwhile; nothing was replaced.",
            remedy="Read it again, then edit its new content.",
            code="FILE_CHANGED",
            begun=False,
        )
    files.write(args.path, context.edited)
    return ToolOutput(
        text=f"Edited {args.path} ({_counted(args)}); it now has {len(context.edited)} bytes.",
        label=INTERNAL,
        metadata={"bytes": len(context.edited)},
    )
