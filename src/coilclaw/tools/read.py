"""file_read: a text file in the workspace, whole or by lines, or a picture."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import msgspec

from coilclaw.packets.action import OWNER
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.kinds import LOOKED_AT, kind_of, text_of
from coilclaw.packets.pictures import MAX_PICTURE, PictureRef, media_type_of
from coilclaw.packets.ports import Context, Files, ToolOutput, Touches
from coilclaw.tools.declare import tool
from coilclaw.tools.files import Path, granted_files

MAX_READ = 256 * 1024
"""Maximum bytes per result."""
MAX_LINES = 2000
"""Lines per result by default."""
LONGEST_LINE = 2000
"""Maximum characters per line; the rest is cut off. A whole small file is not cut."""
MAX_SCANNED = 512 << 20
"""How many bytes of a file to scan for a line, and to count lines."""
_PIECE = 1 << 16


class ReadArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_read."""

    path: Path
    offset: Annotated[int, msgspec.Meta(description="The first line to read, counted from 1.", ge=1, le=1 << 40)] = 1
    limit: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=20_000)] | None,
        msgspec.Meta(description=f"How many lines to read; default: all, or {MAX_LINES} of a large file."),
    ] = None
    numbers: Annotated[bool, msgspec.Meta(description="Number the lines.")] = False


class LineRange(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a file."""

    texts: tuple[str, ...]
    total: int
    """How many lines the file has."""
    counted: bool
    """False if the file is too large to count them all."""


@tool(
    ReadArgs,
    effect="READ",
    destination="workspace",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(reads=(args.path,)),
    summary=lambda args: f"Read {args.path}." if args.offset == 1 else f"Read {args.path} from line {args.offset}.",
)
async def file_read(args: ReadArgs, context: Context) -> ToolOutput:
    """Read a UTF-8 text file in the workspace, whole or by lines, or view a picture (PNG, JPEG, GIF, WebP)."""
    files = granted_files(context)
    with files.open(args.path) as file:
        head = file.read(MAX_READ + 1)
        media_type = media_type_of(kind_of(head))
        if media_type:
            return _picture(args.path, head + file.read(MAX_PICTURE + 1 - len(head)), media_type, files)
        if len(head) <= MAX_READ and args.offset == 1 and args.limit is None:
            return _whole(args, head)
        if b"\0" in head[:LOOKED_AT]:
            raise _not_text(args.path, f"byte {head.index(0)}")
        found = await asyncio.to_thread(_lines, file, args)
    return _some(args, found)


def _whole(args: ReadArgs, data: bytes) -> ToolOutput:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_text(args.path, f"byte {error.start} of {len(data)}") from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    about: dict[str, Json] = {"bytes": len(data), "lines": len(lines)}
    return ToolOutput(text=_numbered(lines, 1) if args.numbers else text, label=OWNER, metadata=about)


def _some(args: ReadArgs, found: LineRange) -> ToolOutput:
    of = f"{found.total}" if found.counted else f"more than {found.total}"
    if not found.texts:
        raise ToolError(
            f"{args.path} has {of} lines; there is none at offset {args.offset}.", code="FILE_RANGE", begun=False
        )
    last = args.offset + len(found.texts) - 1
    more = f" Go on with offset {last + 1}." if last < found.total or not found.counted else ""
    text = _numbered(found.texts, args.offset) if args.numbers else "\n".join(found.texts)
    about: dict[str, Json] = {"lines": found.total, "first": args.offset, "last": last}
    return ToolOutput(text=f"{text}\n[lines {args.offset} to {last} of {of}.{more}]", label=OWNER, metadata=about)


def _numbered(lines: list[str] | tuple[str, ...], first: int) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, start=first))


def _lines(file: BinaryIO, args: ReadArgs) -> LineRange:
    """The requested lines of a file of any size, without holding more in memory."""
    file.seek(0)
    most = MAX_LINES if args.limit is None else args.limit
    texts: list[str] = []
    number = held = 0
    for line, size in _bounded_lines(file):
        number += 1
        if number >= args.offset:
            text = _shown(line, size, args.path, number)
            held += len(text.encode()) + 1
            if texts and held > MAX_READ:
                number -= 1
                file.seek(-size, 1)
                break
            texts.append(text)
        if len(texts) == most or file.tell() > MAX_SCANNED:
            break
    total, counted = _count_on(file, number)
    return LineRange(texts=tuple(texts), total=total, counted=counted)


def _bounded_lines(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Each line as shown, and its size including the line break."""
    while piece := file.readline(_PIECE):
        start, size = piece[: LONGEST_LINE * 4 + 1], len(piece)
        while not piece.endswith(b"\n") and file.tell() <= MAX_SCANNED and (piece := file.readline(_PIECE)):
            size += len(piece)
        yield start, size


def _shown(line: bytes, size: int, path: str, number: int) -> str:
    whole = len(line) == size
    text = text_of(line.removesuffix(b"\n"), whole=whole)
    if text is None:
        raise _not_text(path, f"line {number}")
    if len(text) <= LONGEST_LINE and whole:
        return text
    return f"{text[:LONGEST_LINE]} … [cut: the line has {size} bytes]"


def _count_on(file: BinaryIO, number: int) -> tuple[int, bool]:
    """The number of lines, given those read so far, and whether it is complete."""
    last = b"\n"
    while file.tell() <= MAX_SCANNED:
        piece = file.read(1 << 20)
        if not piece:
            return number + (last != b"\n"), True
        number, last = number + piece.count(b"\n"), piece[-1:]
    return number, False


def _picture(path: str, data: bytes, media_type: str, files: Files) -> ToolOutput:
    """One line for every model; those with vision get the picture it names by path and hash."""
    kind = media_type.partition("/")[2].upper()
    if len(data) > MAX_PICTURE:
        return ToolOutput(text=f"{path}: a {kind} picture of more than {MAX_PICTURE} bytes, too large to look at.",
                          label=OWNER)  # fmt: skip
    about = PictureRef(path=files.place(path), sha256=sha256_hex(data), media_type=media_type, size=len(data))
    return ToolOutput(
        text=f"{path}: a {kind} picture, {len(data)} bytes.",
        label=OWNER,
        metadata={"bytes": len(data), "picture": msgspec.to_builtins(about)},
    )


def _not_text(path: str, where: str) -> ToolError:
    return ToolError(
        f"{path} is not UTF-8 text ({where}).",
        remedy="Use `shell` with file, od or strings to look at binary files.",
        code="FILE_NOT_TEXT",
        begun=False,
    )
