"""time: the current time."""

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.ids import stamp
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool


class TimeArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """time takes no arguments."""


@tool(
    TimeArgs,
    effect="READ",
    destination="internal",
    idempotent=True,
    always_ask=False,
    touches=lambda _: Touches(public=True),
    summary=lambda _: "Look at the clock.",
)
async def time(args: TimeArgs, context: Context) -> ToolOutput:
    """Return the current local time, the time in UTC and the time zone."""
    now = context.clock()
    local = now.astimezone()
    zone = local.tzname() or "unknown"
    text = f"local: {local.isoformat(timespec='seconds')}\nutc: {stamp(now)}\ntimezone: {zone}"
    return ToolOutput(text=text, label=INTERNAL)
