"""A box that runs nothing: it records what it was asked and plays prepared results. For tests of other rooms."""

import asyncio
from collections.abc import Callable

from coilclaw.packets.box import BoxResult, BoxSpec, Probe, Tier


def finished(stdout: bytes = b"", *, exit_code: int = 0, stderr: bytes = b"") -> BoxResult:
    """A command that ended by itself."""
    return BoxResult(end="exited", exit_code=exit_code, stdout=stdout, stderr=stderr, seconds=0.0, tier="A")


class FakeBox:
    """The Box port, prepared."""

    def __init__(self, answer: Callable[[BoxSpec], BoxResult] = lambda _: finished(b"ok\n")) -> None:
        self.specs: list[BoxSpec] = []
        self.killed = 0
        self.hang = False
        """True makes every command run until it is cancelled."""
        self._answer = answer

    @property
    def tier(self) -> Tier:
        """It claims the best."""
        return "A"

    async def run(self, spec: BoxSpec) -> BoxResult:
        """Record the spec and play the answer."""
        self.specs.append(spec)
        if self.hang:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.killed += 1
                raise
        return self._answer(spec)

    def probes(self) -> list[Probe]:
        """Nothing to probe."""
        return []
