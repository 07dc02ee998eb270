"""Unbroken work: from the claim of an action to its receipt, a cancellation ends the call under way and nothing else.

Whoever asked may go at any moment: a turn is stopped, a step takes too long, Ctrl-C. What was claimed is written down
to its end all the same; then the cancellation goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class CancelRequest:
    """Whether the caller is gone, and with it the call that is under way."""

    def __init__(self) -> None:
        self.asked = False
        self._work: asyncio.Future[Any] | None = None

    def over(self, work: "asyncio.Future[Any]") -> None:
        """From now on this is the call that a cancellation ends."""
        self._work = work
        if self.asked:
            work.cancel()

    def ask(self) -> None:
        """The caller is gone."""
        self.asked = True
        if self._work is not None:
            self._work.cancel()


async def uncancellable(work: Callable[[CancelRequest], Awaitable[T]]) -> T:
    """What the work gives; or the cancellation that came meanwhile, once the work is over."""
    cut = CancelRequest()
    whole = asyncio.ensure_future(work(cut))
    while not whole.done():
        try:
            await asyncio.wait({whole})
        except asyncio.CancelledError:
            cut.ask()
    if not cut.asked:
        return whole.result()
    if not whole.cancelled() and (error := whole.exception()) is not None:
        raise asyncio.CancelledError from error
    raise asyncio.CancelledError
