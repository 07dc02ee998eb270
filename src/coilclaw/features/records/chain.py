"""The chain as the server watches it: verified when asked, the last result remembered."""

import asyncio
from collections.abc import Callable

import msgspec

from coilclaw.ledger.verify import Report
from coilclaw.packets.ids import Clock, stamp


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification found, and when it was done."""

    report: Report
    at: str


class ChainWatch:
    """Verifies the ledger in a thread; callers that arrive meanwhile get the same result."""

    def __init__(self, verify: Callable[[], Report], clock: Clock) -> None:
        self._verify = verify
        self._clock = clock
        self._running: asyncio.Task[Checked] | None = None
        self.last: Checked | None = None
        """What the last verification found; None while there was none since the start."""

    async def verify(self) -> Checked:
        """Verify now. It goes on when the one who asked has left."""
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
            self._running.add_done_callback(self._done)
        return await asyncio.shield(self._running)

    async def _run(self) -> Checked:
        at = stamp(self._clock())
        self.last = Checked(report=await asyncio.to_thread(self._verify), at=at)
        return self.last

    def _done(self, task: "asyncio.Task[Checked]") -> None:
        self._running = None
        if not task.cancelled():
            task.exception()  # told to whoever still waits
