"""Time limits of SOP steps: the seconds in which the owner is being asked do not count."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from coilclaw.packets.errors import CoilclawError

T = TypeVar("T")
Q = TypeVar("Q")
SLICE_SECONDS = 0.1


class OutOfTime(CoilclawError):
    """A step took longer than it may."""


class Stopwatch:
    """Runs while work is done, stands while somebody is asked."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._asking = 0

    def pausing(self, ask: Callable[[Q], Awaitable[T]]) -> Callable[[Q], Coroutine[Any, Any, T]]:
        """The same question, while whose answer is awaited the watch stands."""

        async def asked(question: Q) -> T:
            self._asking += 1
            try:
                return await ask(question)
            finally:
                self._asking -= 1

        return asked

    async def bound(self, work: Coroutine[Any, Any, T], seconds: float | None, cut: Callable[[], None]) -> T:
        """Do it within so many seconds. `cut` is called before it is ended, and its end is waited for."""
        task = asyncio.ensure_future(work)
        spent = 0.0
        try:
            while not task.done():
                began, asking = self._now(), self._asking > 0
                await asyncio.wait({task}, timeout=SLICE_SECONDS if seconds is not None else None)
                if not (asking or self._asking):
                    spent += self._now() - began
                if not task.done() and seconds is not None and spent >= seconds:
                    cut()
                    raise OutOfTime(f"It took longer than {seconds:g} seconds.")
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})  # whatever ran has its receipt before anything goes on
                if not task.cancelled():
                    task.exception()
