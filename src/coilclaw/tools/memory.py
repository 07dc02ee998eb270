"""memory_search: past messages of all conversations."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.labels import join_labels
from coilclaw.packets.ports import Context, ToolOutput
from coilclaw.tools.declare import nothing, tool


class SearchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of memory_search."""

    query: Annotated[str, msgspec.Meta(description="Words to search for.", min_length=1, max_length=1000)]
    limit: Annotated[int, msgspec.Meta(description="Maximum number of hits.", ge=1, le=50)] = 10


@tool(
    SearchArgs,
    effect="READ",
    destination="internal",
    idempotent=True,
    always_ask=False,
    touches=nothing,
    summary=lambda args: f"Search past conversations for {args.query!r}.",
)
async def memory_search(args: SearchArgs, context: Context) -> ToolOutput:
    """Search past conversations for words; the best and most recent matches come first."""
    if context.memory is None:
        raise ToolError("memory was not granted to this call.", code="NOT_GRANTED", begun=False)
    hits = [
        hit for hit in context.memory.search(args.query, limit=args.limit + 8) if hit.thread_id != context.thread_id
    ]
    hits = hits[: args.limit]
    if not hits:
        return ToolOutput(text="Nothing found.", label=INTERNAL, metadata={"hits": 0})
    lines = [f"[{hit.created_at[:16]} {hit.thread_id} {hit.role}] {hit.snippet}" for hit in hits]
    label = join_labels((INTERNAL, *(hit.label for hit in hits)))
    return ToolOutput(text="\n".join(lines), label=label, metadata={"hits": len(hits)})
