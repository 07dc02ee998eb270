"""reach_out: a message to an absent owner."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, TypeAlias

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, ToolOutput
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import Declared, outlasting

Post: TypeAlias = Callable[[str, str, str], Awaitable[tuple[str, str | None]]]
"""Posts a message with a reason, once per idempotency key. Returns its conversation and, if the owner was notified a
short while ago and is not notified again, when the next notification is possible."""

MESSAGE = 2000
WHEN = (
    "Notify the owner, who is away, and post a message to this conversation. Only for what cannot wait: a question that"
    " blocks you, something only they can do, urgent news. Progress, results and approvals are announced anyway. At"
    " most one in ten minutes reaches them."
)


class ReachOutArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of reach_out."""

    reason: Annotated[
        Literal["operator_attention_needed", "clarification_needed", "important_update", "follow_up_available"],
        msgspec.Meta(
            description="operator_attention_needed: they must do or decide something. clarification_needed: you are"
            " stuck without an answer. follow_up_available: something they asked for can go on."
        ),
    ]
    message: Annotated[
        str, msgspec.Meta(description="What to tell the owner, self-contained.", min_length=1, max_length=MESSAGE)
    ]


async def _nowhere(_key: str, _reason: str, _message: str) -> tuple[str, str | None]:
    raise ToolError("reaching out was not granted to this call.", code="NOT_GRANTED", begun=False)


def make_reach_out(post: Post | None) -> Declared[ReachOutArgs]:
    """The tool, with a way to post; without one, it is declared but refuses."""
    say = post or _nowhere

    async def reach_out(args: ReachOutArgs, context: Context) -> ToolOutput:
        if not args.message.strip() or "\0" in args.message:
            raise ToolError("the message is empty or not text.", code="BAD_MESSAGE", begun=False)
        if not context.thread_id:
            raise ToolError(
                "there is no conversation to post it to.",
                remedy="Reach out from a conversation or a job.",
                code="NO_THREAD",
                begun=False,
            )
        thread_id, again_at = await say(context.idempotency_key, args.reason, args.message)
        if again_at is not None:
            return ToolOutput(
                text="RATE_LIMITED: the message is in this conversation, but the owner is not notified,"
                f" because they were notified a short while ago. Reach out again after {again_at} if still needed.",
                label=INTERNAL,
                code="RATE_LIMITED",
                metadata={"thread_id": thread_id, "reason": args.reason, "retry_at": again_at},
            )
        return ToolOutput(
            text="The owner is notified. Their answer, if any, arrives as a message in this conversation.",
            label=INTERNAL,
            metadata={"thread_id": thread_id, "reason": args.reason},
        )

    reach_out.__doc__ = WHEN
    return Declared(
        reach_out,
        ReachOutArgs,
        effect="WRITE",
        destination="internal",
        idempotent=True,
        always_ask=False,
        touches=outlasting,
        summary=lambda args: f"Tell the owner ({args.reason}): {one_line(args.message)[:200]}",
    )
