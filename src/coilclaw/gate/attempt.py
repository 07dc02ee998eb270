"""An attempt: one run of one granted call, under its time limit and the emergency stop."""

import asyncio
import math
from collections.abc import Awaitable, Callable

from coilclaw.gate.estop import POLL_SECONDS, Estop
from coilclaw.gate.facts import Inspected
from coilclaw.gate.grants import Granter
from coilclaw.gate.outcomes import End, cancelled_in_box, end_of, interrupted, looked_up, not_begun
from coilclaw.gate.turn import Turn
from coilclaw.gate.uncancellable import CancelRequest
from coilclaw.packets.action import Action
from coilclaw.packets.errors import EffectUncertain, StorageError, ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput


class Release:
    """The point from which an attempt may have its effect. Passing it is recorded first, so it survives a crash."""

    def __init__(self, note: Callable[[], None]) -> None:
        self._note = note
        self.passed = False

    def __call__(self) -> None:
        """Pass it."""
        if not self.passed:
            self._note()
            self.passed = True


class Attempts:
    """Runs granted calls."""

    def __init__(
        self, granter: Granter, estop: Estop, redact: Callable[[str], str], releasing: Callable[[Action], None]
    ) -> None:
        self._granter = granter
        self._estop = estop
        self._redact = redact
        self._releasing = releasing
        self._running: set[asyncio.Future[ToolOutput]] = set()

    def stop_calls(self) -> bool:
        """Cancel only the calls that run now; their callers learn of it. False when there are none."""
        stopped = [call.cancel() for call in self._running]
        return any(stopped)

    @property
    def tool_seconds(self) -> float:
        """How long a call may take."""
        return self._granter.limits.tool_seconds

    async def run(self, action: Action, inspected: Inspected, turn: Turn, cut: CancelRequest) -> End:
        """Do it, or find out that it was done; in every case there is an outcome to record."""
        tool, args = inspected.tool, inspected.args
        if tool is None or args is None:
            raise StorageError("a call without a tool was allowed.", remedy="Please report this.")
        release = Release(lambda: self._releasing(action) if action.begun else None)
        context = self._granter.grant(action, inspected, turn, release)
        if not inspected.touches.command and not inspected.touches.sends:
            release()  # a command is released by its box, a message when it is sent
        looks = action.uncertain and tool.recovery(args) == "lookup"
        if inspected.fault is not None:
            call = _refuse(inspected.fault)
        else:
            call = _look_then_do(tool, inspected, context) if looks else tool.invoke(args, context)
        return await self._under_limits(inspected, call, context, cut, release)

    async def _under_limits(
        self, inspected: Inspected, call: Awaitable[ToolOutput], context: Context, cut: CancelRequest, release: Release
    ) -> End:
        def over(code: str, text: str) -> End:
            return _cut_short(inspected, code, text, begun=release.passed)

        asks = inspected.tool is not None and inspected.tool.name == "ask_user"
        timeout = math.inf if asks else context.timeout_seconds
        stopped = lambda: self._estop.engaged() and not inspected.despite_estop  # noqa: E731
        end = await self._waited_for(call, timeout, cut, over, stopped)
        if cut.asked and end.status != "allowed" and end.result.code != "CANCELLED":
            # the caller is gone: nothing is retried, and what the attempt reports is recorded beside that
            return over("CANCELLED", f"It was cancelled. {end.result.output}")
        return end

    async def _waited_for(
        self,
        call: Awaitable[ToolOutput],
        timeout: float,
        cut: CancelRequest,
        over: Callable[[str, str], End],
        stopped: Callable[[], bool],
    ) -> End:
        work = asyncio.ensure_future(call)
        cut.over(work)
        self._running.add(work)
        work.add_done_callback(self._running.discard)
        time = asyncio.get_running_loop().time
        deadline = time() + timeout
        try:
            await asyncio.sleep(0)  # most calls that only look something up are over after their first step
            while not work.done():
                if stopped():
                    return over("ESTOP", "ESTOP ended it.")
                left = deadline - time()
                if left <= 0:
                    return over("TOOL_TIMEOUT", f"It ran longer than {timeout:g} seconds.")
                await asyncio.wait({work}, timeout=min(POLL_SECONDS, left))
            if work.cancelled():
                return over("CANCELLED", "It was cancelled.")
            return looked_up() if _was_done(work) else end_of(work, self._redact)
        finally:
            if not work.done():
                await _put_down(work)


def _cut_short(inspected: Inspected, code: str, text: str, *, begun: bool) -> End:
    """The end of a call that was cut off. See docs/decisions/0017 for commands, which can only change the workspace."""
    if not begun:
        return not_begun(code, text)
    boxed = inspected.facts.command is not None and not inspected.touches.domains and not inspected.facts.unsafe
    return cancelled_in_box(text) if boxed and code == "CANCELLED" else interrupted(inspected.tool, code, text)


class _AlreadyDone(Exception):
    pass


def _was_done(work: "asyncio.Future[ToolOutput]") -> bool:
    return isinstance(work.exception(), _AlreadyDone)


async def _refuse(fault: ToolError) -> ToolOutput:
    raise fault


async def _look_then_do(tool: Tool, inspected: Inspected, context: Context) -> ToolOutput:
    """An earlier attempt may have had its effect: ask before doing it again."""
    assert inspected.args is not None  # noqa: S101 - the caller looked
    try:
        known = await tool.lookup(inspected.args, context)
    except Exception:  # however a lookup breaks, it did not find that nothing arrived
        known = None
    if known is None:
        raise EffectUncertain("It could not be determined whether an earlier attempt arrived.", code="LOOKUP_FAILED")
    if known:
        raise _AlreadyDone
    return await tool.invoke(inspected.args, context)


async def _put_down(work: "asyncio.Future[ToolOutput]") -> None:
    """Cancel and wait until it is really over; its result is ignored."""
    work.cancel()
    await asyncio.wait({work})
    if not work.cancelled():
        work.exception()
