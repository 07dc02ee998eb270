"""artifact_put and artifact_get: larger pieces of work that outlive a turn, with their labels."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Notes, ToolOutput
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import nothing, tool

PAGE_BYTES = 10_000
"""The most that is read at once: less than a result shows to any model, so that a page is never cut again."""


class PutArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of artifact_put."""

    name: Annotated[str, msgspec.Meta(description="What it is called.", min_length=1, max_length=200)]
    kind: Annotated[
        str,
        msgspec.Meta(description="Its kind: report, patch, data, …", pattern=r"^[a-z][a-z0-9_-]{0,31}$"),
    ]
    content: Annotated[str, msgspec.Meta(description="The whole content, at most 2 MB.")]


class GetArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of artifact_get."""

    artifact_id: Annotated[
        str, msgspec.Meta(description="The id returned by artifact_put.", min_length=1, max_length=100)
    ]
    offset: Annotated[int, msgspec.Meta(description="The first byte to read.", ge=0, le=1 << 31)] = 0
    limit: Annotated[int, msgspec.Meta(description="How many bytes to read.", ge=4, le=PAGE_BYTES)] = PAGE_BYTES


def _shelf(context: Context) -> Notes:
    if context.notes is None:
        raise ToolError("artifacts were not granted to this call.", code="NOT_GRANTED", begun=False)
    return context.notes


@tool(
    PutArgs,
    effect="WRITE",
    destination="internal",
    idempotent=True,
    always_ask=False,
    touches=nothing,
    summary=lambda args: f"Store the {args.kind} {one_line(args.name)!r} ({len(args.content.encode())} bytes).",
)
async def artifact_put(args: PutArgs, context: Context) -> ToolOutput:
    """Store a piece of work (a report, a patch, data) beyond this turn; returns an id to read it back."""
    shelf = _shelf(context)
    if any(one_line(text) != text for text in (args.name, args.kind)):
        raise ToolError(
            "the name and the kind must each be one line of visible text.",
            remedy="Give it a plain name.",
            code="BAD_NAME",
            begun=False,
        )
    if args.kind == "evidence_manifest":
        raise ToolError(
            "only the runtime writes evidence manifests.",
            remedy="Choose another kind.",
            code="BAD_NAME",
            begun=False,
        )
    content = args.content.encode("utf-8")
    artifact_id = await shelf.put_artifact(kind=args.kind, name=args.name, content=content)
    return ToolOutput(
        text=f"Stored {args.name} as {artifact_id}.",
        label=INTERNAL,
        metadata={"artifact_id": artifact_id, "bytes": len(content)},
    )


@tool(
    GetArgs,
    effect="READ",
    destination="internal",
    idempotent=True,
    always_ask=False,
    touches=nothing,
    summary=lambda args: f"Read the artifact {one_line(args.artifact_id)}.",
)
async def artifact_get(args: GetArgs, context: Context) -> ToolOutput:
    """Read an artifact by its id, 10 KB at a time: what is longer says at which `offset` to go on."""
    found = _shelf(context).get_artifact(args.artifact_id)
    if found is None:
        raise ToolError(
            f"there is no artifact {one_line(args.artifact_id)!r}.",
            remedy="artifact_put returns the id when it stores one.",
            code="NO_SUCH_ARTIFACT",
            begun=False,
        )
    data, label = found
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{args.artifact_id} is not UTF-8 text ({len(data)} bytes).", code="ARTIFACT_NOT_TEXT", begun=False
        ) from error
    first = _between_characters(data, args.offset)
    last = _between_characters(data, first + args.limit)
    text = data[first:last].decode("utf-8")
    if first or last < len(data):
        more = f" Go on with offset {last}." if last < len(data) else ""
        text += f"\n[bytes {first} to {last} of {len(data)}.{more}]"
    return ToolOutput(text=text, label=label, metadata={"bytes": len(data)})


def _between_characters(data: bytes, at: int) -> int:
    """The nearest place at or before `at` where UTF-8 text can be cut."""
    at = min(at, len(data))
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:
        at -= 1
    return at
