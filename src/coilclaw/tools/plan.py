"""plan_update: the model's plan for a longer piece of work, for the owner to follow."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import tool

StepState: TypeAlias = Literal["todo", "doing", "done", "dropped"]


class PlannedStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step and its progress."""

    title: Annotated[str, msgspec.Meta(description="What this step does.", min_length=1, max_length=200)]
    state: Annotated[StepState, msgspec.Meta(description="Its progress.")] = "todo"


class PlanArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of plan_update."""

    steps: Annotated[
        tuple[PlannedStep, ...],
        msgspec.Meta(description="The whole plan; replaces the previous one.", min_length=1, max_length=30),
    ]


def _summary(args: PlanArgs) -> str:
    now = next((step.title for step in args.steps if step.state == "doing"), "")
    done = sum(step.state == "done" for step in args.steps)
    return f"Plan: {done} of {len(args.steps)} steps done{f', now: {one_line(now)}' if now else ''}."


@tool(
    PlanArgs,
    effect="READ",
    destination="internal",
    idempotent=True,
    always_ask=False,
    touches=lambda _: Touches(public=True),
    summary=_summary,
)
async def plan_update(args: PlanArgs, context: Context) -> ToolOutput:
    """Show the owner your plan for work of several steps, and again whenever a step starts or is done."""
    open_steps = sum(step.state in ("todo", "doing") for step in args.steps)
    return ToolOutput(text=f"The owner sees the plan. {open_steps} steps are open.", label=INTERNAL)
