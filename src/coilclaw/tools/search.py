"""file_search: lines and names of workspace files."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import OWNER
from coilclaw.packets.errors import ToolError
from coilclaw.packets.labels import join_labels
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.packets.search import SearchedFile, SearchFound, SearchQuery
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import tool

MAX_OUTPUT = 64 * 1024
SECONDS = 10.0
GRACE = 4.0
"""Seconds before a call's timeout at which the search itself must end."""


class SearchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_search."""

    pattern: Annotated[
        str,
        msgspec.Meta(
            description="A Python regular expression for single lines, so escape ( [ . and the like if they are meant"
            " literally; empty to find files by `glob` only.",
            max_length=1000,
        ),
    ] = ""
    glob: Annotated[
        str,
        msgspec.Meta(description="Which files, such as *.py, src/**/*.ts or *.{c,h}; empty for all.", max_length=500),
    ] = ""
    path: Annotated[
        str, msgspec.Meta(description="A folder or file inside the workspace.", min_length=1, max_length=4096)
    ] = "."
    ignore_case: bool = False
    files_only: Annotated[bool, msgspec.Meta(description="Return only file names.")] = False
    context: Annotated[int, msgspec.Meta(description="Lines to show around each match.", ge=0, le=10)] = 0
    limit: Annotated[int, msgspec.Meta(description="How many matches to show.", ge=1, le=1000)] = 200
    ignored: Annotated[bool, msgspec.Meta(description="Include files excluded by .gitignore and .ignore.")] = False


def _summary(args: SearchArgs) -> str:
    files = f"files like {args.glob}" if args.glob else "files"
    where = "" if args.path == "." else f" in {args.path}"
    return f"Search {files}{where} for {args.pattern}." if args.pattern else f"Find {files}{where}."


@tool(
    SearchArgs,
    effect="READ",
    destination="workspace",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(reads=(args.path,), searches=True),
    summary=_summary,
)
async def file_search(args: SearchArgs, context: Context) -> ToolOutput:
    """Search text files in the workspace by regular expression, or find files by name."""
    if context.search is None:
        raise ToolError("no search was granted to this call.", code="NOT_GRANTED", begun=False)
    if not args.pattern and not args.glob:
        raise ToolError("there is neither a pattern nor a glob.", code="ARGS_INVALID", begun=False)
    found = await context.search(
        SearchQuery(
            path=args.path,
            pattern=args.pattern,
            glob=args.glob,
            ignore_case=args.ignore_case,
            files_only=args.files_only or not args.pattern,
            ignored=args.ignored,
            context=args.context,
            matches=args.limit,
            seconds=max(1.0, min(SECONDS, context.timeout_seconds - GRACE)),
        )
    )
    return ToolOutput(
        text=_told(found),
        label=join_labels((OWNER, *found.labels)) if found.labels else OWNER,
        metadata={"entries": len(found.files), "looked_at": found.looked_at},
    )


def _told(found: SearchFound) -> str:
    lines: list[str] = []
    size = 0
    notes = list(found.notes)
    for line in (line for file in found.files for line in _of_file(file)):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > MAX_OUTPUT:
            notes.append(f"Only the first {MAX_OUTPUT >> 10} KB are shown.")
            break
        lines.append(line)
    if not lines:
        lines.append(f"Nothing found in {found.looked_at} files.")
    return "\n".join([*lines, *(f"[{one_line(note)}]" for note in notes)])


def _of_file(file: SearchedFile) -> list[str]:
    """`path:line: text`, and `path-line- text` for context lines; a gap is a line with two dashes."""
    name = _name(file.path)
    if not file.lines:
        return [name]
    told: list[str] = []
    last = 0
    for line in file.lines:
        if last and line.number > last + 1 and not all(each.matches for each in file.lines):
            told.append("--")
        mark = ":" if line.matches else "-"
        told.append(f"{name}{mark}{line.number}{mark} {line.text}")
        last = line.number
    return told


def _name(path: str) -> str:
    """A path on one line with every character visible; bytes that are not text are escaped."""
    return one_line(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
