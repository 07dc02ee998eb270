"""A box that stays open: the supervision of every command, in its own task, with pipes to talk through."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from coilclaw.packets.box import BoxResult
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.pipes import Pipes


async def open_running(
    longest: int, run: Callable[[Pipes], Coroutine[Any, Any, BoxResult]], stopped: Callable[[], Awaitable[None]]
) -> "RunningBox":
    """Run until it has started, and return it; raises what prevents that. Cancelling ends everything first."""
    pipes = Pipes(longest)
    running = RunningBox(pipes, asyncio.ensure_future(run(pipes)), asyncio.ensure_future(_until(stopped)))
    try:
        await asyncio.wait({running.task, pipes.open_for_use}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        running.task.cancel()
        await _dead(running.task)
        raise
    if not pipes.open_for_use.done():
        if pipes.asked is not None:  # this is the reason, whatever the half-built box reports
            await _dead(running.task)
            raise ToolError(pipes.asked[1], remedy="Clear ESTOP first.", code="ESTOP", begun=False)
        running.task.result()  # raises: a box that was never released has no result
    return running


async def _until(stopped: Callable[[], Awaitable[None]]) -> None:
    await stopped()


async def _dead(task: "asyncio.Future[BoxResult]") -> bool:
    """Wait until everything inside is dead, however often we are cancelled; returns whether we were."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


class RunningBox:
    """One open box. Its opener closes it; it lives at most as long as this process and its loop."""

    def __init__(self, pipes: Pipes, task: "asyncio.Future[BoxResult]", stopped: "asyncio.Future[None]") -> None:
        self.task = task
        self._pipes = pipes
        self._stopped = stopped
        stopped.add_done_callback(self._told_to_stop)
        task.add_done_callback(self._over)

    def _told_to_stop(self, stopped: "asyncio.Future[None]") -> None:
        """End the box on ESTOP, or if the watch itself failed, because nobody would notice ESTOP any more."""
        failed = stopped.cancelled() or stopped.exception() is not None
        if not self.task.done():
            self._pipes.stop("stopped", "The watch for ESTOP failed." if failed else "ESTOP ended it.")

    def _over(self, task: "asyncio.Future[BoxResult]") -> None:
        self._stopped.cancel()
        if not task.cancelled():
            task.exception()  # delivered to `wait`, which may never be called

    async def send(self, line: bytes) -> None:
        """Write one line, waiting until the box reads; raises ToolError if it has ended."""
        await self._pipes.send(line)

    async def end_input(self) -> None:
        """Close its standard input, so that a program that reads to the end can exit."""
        await self._pipes.end_input()

    def lines(self) -> AsyncIterator[bytes]:
        """Its output, line by line; little is read ahead, so the program waits for its reader."""
        return self._pipes.lines()

    async def wait(self) -> BoxResult:
        """How it ended, once everything inside is dead."""
        return await asyncio.shield(self.task)

    async def close(self) -> BoxResult:
        """End everything inside and wait until it is dead, even if cancelled; returns how it ended."""
        self._pipes.stop("stopped", "It was closed.")
        if await _dead(self.task):
            raise asyncio.CancelledError
        return self.task.result()
