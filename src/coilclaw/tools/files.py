"""file_list, file_read and file_write: the workspace, as far as it was granted."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL, OWNER
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Files, ToolOutput, Touches
from coilclaw.tools.declare import tool

MAX_ENTRIES = 500
MAX_READ = 256 * 1024
MAX_WRITE = 1024 * 1024
Path = Annotated[str, msgspec.Meta(description="A path inside the workspace.", min_length=1, max_length=4096)]


class ListArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_list."""

    path: Annotated[str, msgspec.Meta(description="A directory inside the workspace.", max_length=4096)] = "."


class ReadArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_read."""

    path: Path


class WriteArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_write."""

    path: Path
    content: Annotated[str, msgspec.Meta(description="The whole new content, UTF-8.")]


def _files(context: Context) -> Files:
    if context.files is None:
        raise ToolError("no file was granted to this call.", code="NOT_GRANTED", begun=False)
    return context.files


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
    """List the files and folders in a directory of the workspace."""
    entries = _files(context).list(args.path, limit=MAX_ENTRIES + 1)
    lines = [f"{entry.name}/" if entry.kind == "dir" else f"{entry.name}  {_note(entry.kind, entry.size)}"
             for entry in entries[:MAX_ENTRIES]]  # fmt: skip
    if len(entries) > MAX_ENTRIES:
        lines.append(f"… and more: only the first {MAX_ENTRIES} are listed.")
    text = "\n".join(lines) if lines else "(the directory is empty)"
    return ToolOutput(text=text, label=OWNER, metadata={"entries": len(entries)})


def _note(kind: str, size: int) -> str:
    return f"{size} bytes" if kind == "file" else f"({kind})"


@tool(
    ReadArgs,
    effect="READ",
    destination="workspace",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(reads=(args.path,)),
    summary=lambda args: f"Read {args.path}.",
)
async def file_read(args: ReadArgs, context: Context) -> ToolOutput:
    """Read a UTF-8 text file of the workspace."""
    data = _files(context).read(args.path, max_bytes=MAX_READ)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{args.path} is not UTF-8 text (byte {error.start} of {len(data)}).",
            remedy="Use `shell` with file, od or strings to look at binary files.",
            code="FILE_NOT_TEXT",
            begun=False,
        ) from error
    return ToolOutput(text=text, label=OWNER, metadata={"bytes": len(data)})


@tool(
    WriteArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(writes=(args.path,)),
    summary=lambda args: f"Write {len(args.content.encode('utf-8', 'replace'))} bytes to {args.path}.",
)
async def file_write(args: WriteArgs, context: Context) -> ToolOutput:
    """Write a UTF-8 text file of the workspace, replacing what is there; missing folders are made."""
    data = args.content.encode("utf-8")
    if len(data) > MAX_WRITE:
        raise ToolError(
            f"the content is {len(data)} bytes, more than the {MAX_WRITE} that may be written at once.",
            code="FILE_TOO_LARGE",
            begun=False,
        )
    _files(context).write(args.path, data)
    return ToolOutput(text=f"Wrote {len(data)} bytes to {args.path}.", label=INTERNAL, metadata={"bytes": len(data)})
