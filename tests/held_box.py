"""A box whose commands run until a test lets them end."""

import asyncio

from coilclaw.sandbox.fake_box import FakeBox, finished


class HeldBox(FakeBox):
    """A box whose commands run until the test lets them end."""

    def __init__(self):
        super().__init__()
        self.result = finished(b"built\n")
        self.writes = b"half\n"
        self.started = asyncio.Event()
        self.let_end = asyncio.Event()

    async def run(self, spec, *, released=None, on_output=None):
        self.specs.append(spec)
        if released is not None:
            released()
        on_output("stdout", self.writes)
        self.started.set()
        try:
            await self.let_end.wait()
        except asyncio.CancelledError:
            self.killed += 1
            raise
        return self.result
