"""file_list and file_write: the granted part of the workspace."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL, OWNER
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Files, ToolOutput, Touches
from coilclaw.tools.declare import tool

MAX_ENTRIES = 500
MAX_WRITE = 1024 * 1024
Path = Annotated[str, msgspec.Meta(description="A path inside the workspace.", min_length=1, max_length=4096)]


class ListArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_list."""

    path: Annotated[str, msgspec.Meta(description="A directory inside the workspace.", max_length=4096)] = "."


class WriteArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_write."""

    path: Path
    content: Annotated[str, msgspec.Meta(description="The whole new content, UTF-8.")]


def granted_files(context: Context) -> Files:
    """The files of a call; an error if it was granted none."""
    if context.files is None:
        raise ToolError("no file was granted to this call.", code="NOT_GRANTED", begun=False)
    return context.files


def _bytes(data: bytes) -> str:
    return f"{len(data)} byte{'' if len(data) == 1 else 's'}"


@tool(
    ListArgs,
    effect="READ",
    destination="workspace",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(reads=(args.path,)),
    summary=lambda args: "List the files of the workspace." if args.path == "." else f"List the files in {args.path}.",
)
async def file_list(args: ListArgs, context: Context) -> ToolOutput:
    """List the files and folders in a directory of the workspace; file_search with a glob finds those below it too."""
    entries = granted_files(context).list(args.path, limit=MAX_ENTRIES + 1)
    lines = [f"{entry.name}/" if entry.kind == "dir" else f"{entry.name}  {_note(entry.kind, entry.size)}"
             for entry in entries[:MAX_ENTRIES]]  # fmt: skip
    if len(entries) > MAX_ENTRIES:
        lines.append(f"… and more: only the first {MAX_ENTRIES} are listed.")
    text = "\n".join(lines) if lines else "(the directory is empty)"
    return ToolOutput(text=text, label=OWNER, metadata={"entries": len(entries)})


def _note(kind: str, size: int) -> str:
    return f"{size} bytes" if kind == "file" else f"({kind})"


@tool(
    WriteArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(writes=(args.path,)),
    summary=lambda args: f"Write {_bytes(args.content.encode('utf-8', 'replace'))} to {args.path}.",
)
async def file_write(args: WriteArgs, context: Context) -> ToolOutput:
    """Write a whole UTF-8 text file in the workspace, new or replaced; folders are made. file_edit changes a part."""
    data = args.content.encode("utf-8")
    if len(data) > MAX_WRITE:
        raise ToolError(
            f"the content is {len(data)} bytes, more than the {MAX_WRITE} that may be written at once.",
            code="FILE_TOO_LARGE",
            begun=False,
        )
    granted_files(context).write(args.path, data)
    return ToolOutput(text=f"Wrote {_bytes(data)} to {args.path}.", label=INTERNAL, metadata={"bytes": len(data)})
