"""file_show: looks at a workspace file for the owner and says what it is. The panel shows what has that hash."""

from coilclaw.packets.action import OWNER
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.kinds import kind_of
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool
from coilclaw.tools.files import ReadArgs

MAX_SHOWN = 32 << 20
"""What is larger is not read at all: its hash would take its time, and nobody looks at it in a browser."""


@tool(
    ReadArgs,
    effect="READ",
    destination="workspace",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(reads=(args.path,)),
    summary=lambda args: f"Show {args.path}.",
    callers=frozenset({"gateway"}),
)
async def file_show(args: ReadArgs, context: Context) -> ToolOutput:
    """Look at a workspace file for the owner; only the panel does."""
    if context.files is None:
        raise ToolError("no file was granted to this call.", code="NOT_GRANTED", begun=False)
    data = context.files.read(args.path, max_bytes=MAX_SHOWN)
    kind, digest = kind_of(data), sha256_hex(data)
    return ToolOutput(
        text=f"{args.path}: {kind}, {len(data)} bytes, SHA-256 {digest}.",
        label=OWNER,
        metadata={"kind": kind, "size": len(data), "sha256": digest},
    )
