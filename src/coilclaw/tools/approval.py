"""sop_approval: an SOP's question to the owner. The gate asks; the tool itself does nothing."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.card import BESIDE
from coilclaw.packets.errors import ToolError
from coilclaw.packets.job import JobLimits
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.attachments import attachment_save
from coilclaw.tools.configure import make_settings_change
from coilclaw.tools.declare import runtime_names, tool
from coilclaw.tools.release import quarantine_release
from coilclaw.tools.show import file_show


class ApprovalArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of sop_approval."""

    sop: Annotated[str, msgspec.Meta(description="The procedure that asks.", max_length=64)]
    step: Annotated[str, msgspec.Meta(description="The step that asks.", max_length=64)]
    message: Annotated[str, msgspec.Meta(description="The question to the owner.", min_length=1, max_length=16_000)]


def _question(message: str) -> str:
    """Only the question: the text shown after it may be somebody else's words."""
    before, found, _ = message.rpartition(BESIDE)
    return before if found else message


@tool(
    ApprovalArgs,
    effect="READ",
    destination="internal",
    idempotent=True,
    always_ask=True,
    touches=lambda args: Touches(says=args.message, public=True),
    summary=lambda args: f"Procedure {args.sop}, step {args.step}: {_question(args.message)[:500]}",
    callers=frozenset({"sop"}),
)
async def sop_approval(args: ApprovalArgs, context: Context) -> ToolOutput:
    """Ask the owner whether a procedure may continue; only a step of a procedure can call it."""
    if context.source != "sop":
        raise ToolError(
            "only a step of a procedure can ask for approval this way.",
            remedy="Propose the call you need; the gate asks the owner if necessary.",
            code="NOT_A_STEP",
            begun=False,
        )
    return ToolOutput(text=f"The owner approved step {args.step}.", label=INTERNAL)


RUNTIME_TOOLS = runtime_names(
    (sop_approval, attachment_save, file_show, quarantine_release, make_settings_change(None))
)
"""Tools that declare the runtime as their only caller: not offered to models, not allowed in steps."""


def with_runtime_tools(limits: JobLimits) -> JobLimits:
    """A job's limits, extended so that its SOP can always ask the owner."""
    allowed = limits.constraints.allowed_tools
    if allowed is None:
        return limits
    wider = msgspec.structs.replace(limits.constraints, allowed_tools=(*allowed, *sorted(RUNTIME_TOOLS)))
    return msgspec.structs.replace(limits, constraints=wider)
