"""schedule_followup: work that the agent plans for itself."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, ToolOutput
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import outlasting, tool


class FollowupArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of schedule_followup."""

    goal: Annotated[str, msgspec.Meta(description="What to do then, self-contained.", min_length=1, max_length=8192)]
    at: Annotated[
        str | None, msgspec.Meta(description="When: RFC 3339 with an offset, such as 2026-12-01T09:00:00Z.")
    ] = None
    in_minutes: Annotated[int, msgspec.Meta(description="Or in how many minutes.", ge=1, le=525_600)] | None = None


def _summary(args: FollowupArgs) -> str:
    when = f"at {one_line(args.at)}" if args.at is not None else f"in {args.in_minutes} minutes"
    return f"Wake up {when} and continue with: {one_line(args.goal)[:200]}"


@tool(
    FollowupArgs,
    effect="WRITE",
    destination="internal",
    idempotent=True,
    always_ask=False,
    touches=outlasting,
    summary=_summary,
)
async def schedule_followup(args: FollowupArgs, context: Context) -> ToolOutput:
    """Plan to continue something later: a job with this goal starts at that time. Few may be open."""
    if context.follow_up is None:
        raise ToolError("follow-ups were not granted to this call.", code="NOT_GRANTED", begun=False)
    if (args.at is None) == (args.in_minutes is None):
        raise ToolError("give either at or in_minutes.", remedy="Use one of the two.", code="BAD_TIME", begun=False)
    made, when = await context.follow_up(args.goal, _moment(args.at), args.in_minutes)
    return ToolOutput(text=f"Planned {made} for {when}.", label=INTERNAL, metadata={"followup": made, "at": when})


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):  # not a time, or one without an equivalent in UTC
        pass
    raise ToolError(
        f"{one_line(text[:40])!r} is not a time with an offset.",
        remedy="Write it like 2026-12-01T09:00:00Z.",
        code="BAD_TIME",
        begun=False,
    )
