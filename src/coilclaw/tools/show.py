"""file_show: inspects a workspace file for the owner. The panel shows the content with the returned hash."""

import msgspec

from coilclaw.packets.action import OWNER
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.kinds import kind_of
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool
from coilclaw.tools.files import Path

MAX_SHOWN = 32 << 20
"""Larger files are not read: hashing them takes long, and nobody views them in a browser."""


class ShowArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_show."""

    path: Path


@tool(
    ShowArgs,
    effect="READ",
    destination="workspace",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(reads=(args.path,)),
    summary=lambda args: f"Show {args.path}.",
    callers=frozenset({"gateway"}),
)
async def file_show(args: ShowArgs, context: Context) -> ToolOutput:
    """Inspect a workspace file for the owner; only the panel can call it."""
    if context.files is None:
        raise ToolError("no file was granted to this call.", code="NOT_GRANTED", begun=False)
    data = context.files.read(args.path, max_bytes=MAX_SHOWN)
    kind, digest = kind_of(data), sha256_hex(data)
    return ToolOutput(
        text=f"{args.path}: {kind}, {len(data)} bytes, SHA-256 {digest}.",
        label=OWNER,
        metadata={"kind": kind, "size": len(data), "sha256": digest},
    )
