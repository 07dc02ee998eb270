"""ask_user: a question to the owner, if somebody can answer."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import OWNER
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool


class AskArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ask_user."""

    question: Annotated[str, msgspec.Meta(description="One clear question.", min_length=1, max_length=2000)]


@tool(
    AskArgs,
    effect="READ",
    destination="internal",
    idempotent=False,
    always_ask=False,
    touches=lambda _: Touches(public=True),
    summary=lambda args: f"Ask the owner: {args.question[:120]}",
)
async def ask_user(args: AskArgs, context: Context) -> ToolOutput:
    """Ask the owner a question and wait for the answer."""
    if context.ask_owner is None:
        raise ToolError(
            "nobody can be asked here.",
            remedy="Say what you need in your answer instead.",
            code="NOBODY_THERE",
            begun=False,
        )
    return ToolOutput(text=await context.ask_owner(args.question), label=OWNER)
