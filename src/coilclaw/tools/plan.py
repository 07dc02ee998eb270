"""plan_update: the model's plan for a longer piece of work, for the owner to follow."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.canonical import Json
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import tool

StepState: TypeAlias = Literal["todo", "doing", "done", "dropped"]
SIGNS: dict[StepState, str] = {"todo": "·", "doing": "▸", "done": "✓", "dropped": "✗"}
SHOWN_LIVE = 6
"""Lines of a plan that are shown at a terminal each time it changes; `/plan` shows all of it."""


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


def plan_lines(steps: Sequence[PlannedStep], most: int = 30) -> list[str]:
    """A plan as it is read at a terminal, a line for each step; of a long one those around the step it is at."""
    lines = [f"{SIGNS[step.state]} {one_line(step.title)}" for step in steps]
    if len(lines) <= most:
        return lines
    at = next((place for place, step in enumerate(steps) if step.state in ("doing", "todo")), len(steps))
    first = max(0, min(at - 1, len(lines) - most + 2))
    last = first + most - 2
    before = [f"… {first} before"] if first else []
    after = [f"… {len(lines) - last} more"] if last < len(lines) else []
    return [*before, *lines[first:last], *after]


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
    shown: list[Json] = [*plan_lines(args.steps, SHOWN_LIVE)]
    return ToolOutput(
        text=f"The owner sees the plan. {open_steps} steps are open.", label=INTERNAL, metadata={"plan": shown}
    )
