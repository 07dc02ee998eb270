"""Rounds along the chain: it is verified now and then, when somebody looks and the last time is long ago."""

import asyncio
from collections.abc import Callable

from coilclaw.features.records.chain import ChainWatch, Checked

EVERY_SECONDS = 900.0
PATIENCE = 5.0
"""How long the first caller waits for a result."""


class ChainRounds:
    """Keeps the last verification from getting old. Nobody but the very first waits for one."""

    def __init__(self, now: Callable[[], float], every: float = EVERY_SECONDS) -> None:
        self._now = now
        self._every = every
        self._begun = 0.0
        self._running: asyncio.Task[Checked] | None = None

    async def last(self, watch: ChainWatch) -> Checked | None:
        """The last result for any caller; None when there is none yet."""
        if self._running is None and (watch.last is None or self._now() - self._begun >= self._every):
            self._begun = self._now()
            self._running = asyncio.ensure_future(watch.verify())
            self._running.add_done_callback(self._done)
        if self._running is not None and watch.last is None:
            await asyncio.wait({self._running}, timeout=PATIENCE)
        return watch.last

    def _done(self, task: "asyncio.Task[Checked]") -> None:
        self._running = None
        if not task.cancelled():
            task.exception()  # a verification that broke is tried again by whoever looks next
