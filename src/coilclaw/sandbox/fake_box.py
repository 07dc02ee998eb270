"""A box that runs nothing: it records specs and returns prepared results. For tests of other rooms."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from coilclaw.packets.box import BoxEnd, BoxResult, BoxSpec, OnOutput, Probe, Tier
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Serve


def finished(stdout: bytes = b"", *, exit_code: int = 0, stderr: bytes = b"") -> BoxResult:
    """A command that exited."""
    return BoxResult(end="exited", exit_code=exit_code, stdout=stdout, stderr=stderr, seconds=0.0, tier="A")


class FakeOpenBox:
    """An open box without a program: each sent line is answered with lines."""

    def __init__(self, reply: Callable[[bytes], Iterable[bytes]], stopped: Callable[[], Awaitable[None]]) -> None:
        self.sent: list[bytes] = []
        self._reply = reply
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._result: asyncio.Future[BoxResult] = asyncio.get_running_loop().create_future()
        self._watching = asyncio.ensure_future(self._watch(stopped))

    async def _watch(self, stopped: Callable[[], Awaitable[None]]) -> None:
        await stopped()
        self.end("stopped", "ESTOP ended it.")

    def end(self, how: BoxEnd = "exited", reason: str = "", exit_code: int = 0) -> None:
        """End it, like a program that exits or is killed."""
        if not self._result.done():
            ended = BoxResult(
                end=how, exit_code=exit_code, stdout=b"", stderr=b"", seconds=0.0, tier="A", reason=reason
            )  # fmt: skip
            self._result.set_result(ended)
            self._lines.put_nowait(None)

    async def send(self, line: bytes) -> None:
        """Record the line and answer it."""
        if self._result.done():
            raise ToolError("The box has ended, so nothing can be sent to it.", code="BOX_OVER")
        self.sent.append(line)
        for answer in self._reply(line):
            self._lines.put_nowait(answer)

    async def end_input(self) -> None:
        """A program that reads to the end exits."""
        self.end()

    async def lines(self) -> AsyncIterator[bytes]:
        """The replies so far, and later ones."""
        while (line := await self._lines.get()) is not None:
            yield line

    async def wait(self) -> BoxResult:
        """How it ended."""
        return await asyncio.shield(self._result)

    async def close(self) -> BoxResult:
        """End it."""
        self.end("stopped", "It was closed.", 137)
        self._watching.cancel()
        await asyncio.wait({self._watching})
        return self._result.result()


class FakeBox:
    """The Box port with prepared results."""

    def __init__(
        self,
        answer: Callable[[BoxSpec], BoxResult] = lambda _: finished(b"ok\n"),
        reply: Callable[[bytes], Iterable[bytes]] = lambda line: (line,),
    ) -> None:
        """`answer` is the result of a command, `reply` an open box's reply to each line; it echoes by default."""
        self.specs: list[BoxSpec] = []
        self.opened: list[FakeOpenBox] = []
        self._reply = reply
        self.killed = 0
        self.hang = False
        """True makes every command run until it is cancelled."""
        self._answer = answer

    @property
    def tier(self) -> Tier:
        """It claims the best tier."""
        return "A"

    async def run(
        self, spec: BoxSpec, *, released: Callable[[], None] | None = None, on_output: OnOutput | None = None
    ) -> BoxResult:
        """Record the spec and return the answer, after passing on its output."""
        self.specs.append(spec)
        if released is not None:
            released()
        if self.hang:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.killed += 1
                raise
        answer = self._answer(spec)
        if on_output is not None and answer.stdout:
            on_output("stdout", answer.stdout)
        if on_output is not None and answer.stderr:
            on_output("stderr", answer.stderr)
        return answer

    async def open(
        self,
        spec: BoxSpec,
        *,
        stopped: Callable[[], Awaitable[None]],
        serve: Serve | None = None,
        released: Callable[[], None] | None = None,
    ) -> FakeOpenBox:
        """Record the spec and open a box that replies."""
        self.specs.append(spec)
        if released is not None:
            released()
        self.opened.append(FakeOpenBox(self._reply, stopped))
        return self.opened[-1]

    def probes(self) -> list[Probe]:
        """Nothing to probe."""
        return []
