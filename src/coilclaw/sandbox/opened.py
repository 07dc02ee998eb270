"""A box that stays open: the supervision of every command, in its own task, with pipes or a terminal."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from coilclaw.packets.box import BoxResult
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.pipes import Pipes
from coilclaw.sandbox.terminal import BoxTerminal


async def open_running(
    longest: int, run: Callable[[Pipes], Coroutine[Any, Any, BoxResult]], stopped: Callable[[], Awaitable[None]]
) -> "RunningBox":
    """Run until it has started, and return it; raises what prevents that. Cancelling ends everything first."""
    pipes = Pipes(longest)
    return RunningBox(pipes, await open_streams(pipes, run(pipes), stopped))


async def open_streams(
    streams: Pipes | BoxTerminal, run: Coroutine[Any, Any, BoxResult], stopped: Callable[[], Awaitable[None]]
) -> "RunningStreams":
    """The same with streams that the caller has, such as a terminal."""
    running = RunningStreams(streams, asyncio.ensure_future(run), asyncio.ensure_future(_until(stopped)))
    await _started(running.task, streams)
    return running


async def _started(task: "asyncio.Future[BoxResult]", streams: Pipes | BoxTerminal) -> None:
    try:
        await asyncio.wait({task, streams.open_for_use}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        await _dead(task)
        raise
    if not streams.open_for_use.done():
        if streams.asked is not None:  # this is the reason, whatever the half-built box reports
            await _dead(task)
            raise ToolError(streams.asked[1], remedy="Clear ESTOP first.", code="ESTOP", begun=False)
        task.result()  # raises: a box that was never released has no result


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


class RunningStreams:
    """One open box, with any streams. Its opener closes it; it lives at most as long as this process and its loop."""

    def __init__(
        self, streams: Pipes | BoxTerminal, task: "asyncio.Future[BoxResult]", stopped: "asyncio.Future[None]"
    ) -> None:
        self.task = task
        self._streams = streams
        self._stopped = stopped
        stopped.add_done_callback(self._told_to_stop)
        task.add_done_callback(self._over)

    def _told_to_stop(self, stopped: "asyncio.Future[None]") -> None:
        """End the box on ESTOP, or if the watch itself failed, because nobody would notice ESTOP any more."""
        failed = stopped.cancelled() or stopped.exception() is not None
        if not self.task.done():
            self._streams.stop("stopped", "The watch for ESTOP failed." if failed else "ESTOP ended it.")

    def _over(self, task: "asyncio.Future[BoxResult]") -> None:
        self._stopped.cancel()
        if not task.cancelled():
            task.exception()  # delivered to `wait`, which may never be called

    async def wait(self) -> BoxResult:
        """How it ended, once everything inside is dead."""
        return await asyncio.shield(self.task)

    async def close(self) -> BoxResult:
        """End everything inside and wait until it is dead, even if cancelled; returns how it ended."""
        self._streams.stop("stopped", "It was closed.")
        if await _dead(self.task):
            raise asyncio.CancelledError
        return self.task.result()


class RunningBox:
    """One open box with pipes: lines in, lines out."""

    def __init__(self, pipes: Pipes, running: RunningStreams) -> None:
        self._pipes = pipes
        self._running = running

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
        return await self._running.wait()

    async def close(self) -> BoxResult:
        """End everything inside and wait until it is dead, even if cancelled; returns how it ended."""
        return await self._running.close()
