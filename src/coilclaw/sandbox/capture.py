"""Reading a command's output up to a cap, and feeding its input, without ever blocking the loop."""

import asyncio
import os
from collections.abc import Callable

from coilclaw.packets.box import BoxEnd
from coilclaw.sandbox.root_thread import Streams

_CHUNK = 64 << 10


class Capture:
    """The three streams of one command: ours are read and written by the loop, the command's are handed over."""

    def __init__(self, stdin: bytes, cap: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._cap = cap
        self._stop: Callable[[BoxEnd, str], None] | None = None
        self._taken = 0
        self._pending = memoryview(stdin)
        self._ours: set[int] = set()
        self._outputs: dict[int, bytearray] = {}
        self._theirs: list[int] = []
        self._buffers: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._ended: asyncio.Future[None] = self._loop.create_future()

    def open(self, stop: Callable[[BoxEnd, str], None]) -> Streams:
        """Make the command's ends; `stop` ends the box, with the reason."""
        self._stop = stop
        outputs = (self._output(buffer) for buffer in self._buffers)
        return Streams(stdin=self._input(), stdout=next(outputs), stderr=next(outputs))

    def begun(self) -> None:
        """The command may begin now; whoever waits for its result needs not know."""

    def _input(self) -> int:
        if not self._pending:
            theirs = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        else:
            theirs, ours = os.pipe()
            os.set_blocking(ours, False)
            self._ours.add(ours)
            self._loop.add_writer(ours, self._write, ours)
        self._theirs.append(theirs)
        return theirs

    def _output(self, buffer: bytearray) -> int:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        self._ours.add(ours)
        self._outputs[ours] = buffer
        self._theirs.append(theirs)
        self._loop.add_reader(ours, self._read, ours, buffer)
        return theirs

    def _write(self, ours: int) -> None:
        try:
            self._pending = self._pending[os.write(ours, self._pending[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # the command does not want the rest
            self._pending = self._pending[:0]
        if not self._pending:
            self._end(ours)

    def _read(self, ours: int, buffer: bytearray) -> bool:
        """Take one chunk; whether there may be more."""
        try:
            data = os.read(ours, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._end(ours)
            return False
        room = self._cap - self._taken
        buffer += data[:room]
        self._taken += min(len(data), room)
        if len(data) > room and self._stop is not None:
            self._stop("output_limit", f"It was stopped after {self._cap} bytes of output.")
        return len(data) <= room

    def _end(self, ours: int) -> None:
        self._loop.remove_reader(ours)
        self._loop.remove_writer(ours)
        self._ours.discard(ours)
        os.close(ours)
        if self._outputs.keys().isdisjoint(self._ours) and not self._ended.done():
            self._ended.set_result(None)

    def hand_over(self) -> None:
        """Close the command's ends here, once the command has them."""
        while self._theirs:
            os.close(self._theirs.pop())

    def drained(self) -> bool:
        """Read what is there without waiting; whether both outputs came to their end."""
        for ours, buffer in tuple(self._outputs.items()):
            while ours in self._ours and self._read(ours, buffer):
                pass
        return self._outputs.keys().isdisjoint(self._ours)

    async def drain(self, seconds: float) -> None:
        """Read what is left after the command ended; its writers are gone, so this takes no time."""
        if not self.drained():
            await asyncio.wait([self._ended], timeout=seconds)

    def close(self) -> tuple[bytes, bytes]:
        """Stop reading; what was captured of stdout and stderr."""
        self.hand_over()
        for ours in tuple(self._ours):
            self._end(ours)
        return bytes(self._buffers[0]), bytes(self._buffers[1])
