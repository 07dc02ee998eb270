"""An attempt: one run of one granted call, under its time limit and the emergency stop."""

import asyncio
import math
from collections.abc import Awaitable, Callable

from coilclaw.gate.ends import End, end_of, interrupted, looked_up
from coilclaw.gate.estop import POLL_SECONDS, Estop
from coilclaw.gate.facts import Inspected
from coilclaw.gate.grants import Granter
from coilclaw.gate.turn import Turn
from coilclaw.gate.unbroken import Cut
from coilclaw.packets.action import Action
from coilclaw.packets.errors import EffectUncertain, StorageError
from coilclaw.packets.ports import Context, Tool, ToolOutput


class Attempts:
    """Runs granted calls."""

    def __init__(self, granter: Granter, estop: Estop, redact: Callable[[str], str]) -> None:
        self._granter = granter
        self._estop = estop
        self._redact = redact

    async def run(self, action: Action, inspected: Inspected, turn: Turn, cut: Cut) -> End:
        """Do it, or find out that it was done; however it goes, there is an end to write down."""
        tool, args = inspected.tool, inspected.args
        if tool is None or args is None:
            raise StorageError("a call without a tool was let through.", remedy="Please report this.")
        context = self._granter.grant(action, inspected, turn)
        if not (action.uncertain and tool.recovery(args) == "lookup"):
            return await self._under_limits(tool, tool.invoke(args, context), context, cut)
        return await self._under_limits(tool, _look_then_do(tool, inspected, context), context, cut)

    async def _under_limits(self, tool: Tool, call: Awaitable[ToolOutput], context: Context, cut: Cut) -> End:
        end = await self._waited_for(tool, call, context, cut)
        if cut.asked and end.status != "allowed" and end.result.code != "CANCELLED":
            # whoever asked is gone: nothing of it is tried again, and what it says of itself stands beside that
            return interrupted(tool, "CANCELLED", f"It was cancelled. {end.result.output}")
        return end

    async def _waited_for(self, tool: Tool, call: Awaitable[ToolOutput], context: Context, cut: Cut) -> End:
        work = asyncio.ensure_future(call)
        cut.over(work)
        time = asyncio.get_running_loop().time
        timeout = math.inf if tool.name == "ask_user" else context.timeout_seconds
        deadline = time() + timeout
        try:
            await asyncio.sleep(0)  # most calls that only look something up are over after their first step
            while not work.done():
                if self._estop.engaged():
                    return interrupted(tool, "ESTOP", "ESTOP ended it.")
                left = deadline - time()
                if left <= 0:
                    return interrupted(tool, "TOOL_TIMEOUT", f"It ran longer than {timeout:g} seconds.")
                await asyncio.wait({work}, timeout=min(POLL_SECONDS, left))
            if work.cancelled():
                return interrupted(tool, "CANCELLED", "It was cancelled.")
            return looked_up() if _was_done(work) else end_of(work, self._redact)
        finally:
            if not work.done():
                await _put_down(work)


class _AlreadyDone(Exception):
    pass


def _was_done(work: "asyncio.Future[ToolOutput]") -> bool:
    return isinstance(work.exception(), _AlreadyDone)


async def _look_then_do(tool: Tool, inspected: Inspected, context: Context) -> ToolOutput:
    """An earlier attempt may have had its effect: ask before doing it again."""
    assert inspected.args is not None  # noqa: S101 - the caller looked
    known = await tool.lookup(inspected.args, context)
    if known is None:
        raise EffectUncertain("Whether an earlier attempt arrived could not be looked up.", code="LOOKUP_FAILED")
    if known:
        raise _AlreadyDone
    return await tool.invoke(inspected.args, context)


async def _put_down(work: "asyncio.Future[ToolOutput]") -> None:
    """Cancel and wait until it is really over; what it still says is of no interest."""
    work.cancel()
    await asyncio.wait({work})
    if not work.cancelled():
        work.exception()
