"""The three streams of an open box: lines in, lines out, and the end of stderr.

Nothing here grows with time. Standard output is read only as fast as lines are taken, so a program that writes more
blocks in its own write. Standard error is read with pauses and only its end is kept: a program that floods it slows
itself down, not our event loop.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable

from coilclaw.packets.box import BoxEnd
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.root_thread import Streams

_CHUNK = 64 << 10
_TAIL = 64 << 10
"""How much of the end of standard error is kept."""
_PAUSE = 0.01


class Pipes:
    """Our ends of the streams of one open box. One reader of lines at a time; senders wait for each other."""

    def __init__(self, longest: int) -> None:
        """`longest` is the maximum length of a line in bytes, in either direction."""
        self._loop = asyncio.get_running_loop()
        self._longest = longest
        self._stop: Callable[[BoxEnd, str], None] | None = None
        self._asked: tuple[BoxEnd, str] | None = None
        self._theirs: list[int] = []
        self._input = self._output = self._errors = -1
        self._sending = asyncio.Lock()
        self._unsent = memoryview(b"")
        self._lines = bytearray()
        self._searched = 0
        """There is no newline before this position of `_lines`."""
        self._broken = False
        """A line was too long, so reading has stopped."""
        self._tail = bytearray()
        self._pause: asyncio.TimerHandle | None = None
        self._moved = asyncio.Event()
        self._ended = asyncio.Event()
        """Whether the box is dead and all its output has been read."""
        self.open_for_use: asyncio.Future[None] = self._loop.create_future()

    # -- for the supervisor

    def open(self, stop: Callable[[BoxEnd, str], None]) -> Streams:
        """Create the command's ends; `stop` ends the box, with a reason."""
        self._stop = stop
        if self._asked is not None:
            stop(*self._asked)
        read, self._input = os.pipe()
        self._theirs.append(read)
        self._output, write = os.pipe()
        self._theirs.append(write)
        self._errors, complain = os.pipe()
        self._theirs.append(complain)
        for ours in (self._input, self._output, self._errors):
            os.set_blocking(ours, False)
        self._loop.add_reader(self._output, self._read_lines)
        self._loop.add_reader(self._errors, self._read_errors)
        return Streams(stdin=read, stdout=write, stderr=complain)

    def begun(self) -> None:
        """The command may start now."""
        if not self.open_for_use.done():
            self.open_for_use.set_result(None)

    def hand_over(self) -> None:
        """Close our copies of the command's ends."""
        while self._theirs:
            os.close(self._theirs.pop())

    async def drain(self, seconds: float) -> None:
        """Read what is left in the pipes, at most their capacity; lines can still be read afterwards."""
        deadline = self._loop.time() + seconds
        while self._output >= 0 and self._loop.time() < deadline and self._take_lines():
            pass
        while self._errors >= 0 and self._loop.time() < deadline and self._take_errors():
            pass

    def close(self) -> tuple[bytes, bytes]:
        """Close our ends; returns what follows the last complete line, and the end of standard error."""
        self.hand_over()
        if self._pause is not None:
            self._pause.cancel()
        for ours in (self._input, self._output, self._errors):
            self._forget(ours)
        self._input = self._output = self._errors = -1
        self._ended.set()
        self._moved.set()
        return bytes(self._lines[self._lines.rfind(b"\n") + 1 :]), bytes(self._tail)

    def _forget(self, ours: int) -> None:
        if ours >= 0:
            self._loop.remove_reader(ours)
            self._loop.remove_writer(ours)
            os.close(ours)

    # -- for the user

    def stop(self, end: BoxEnd, reason: str) -> None:
        """End the box, or keep it from starting; the first reason counts."""
        self._asked = self._asked or (end, reason)
        if self._stop is not None and not self._ended.is_set():
            self._stop(end, reason)

    @property
    def asked(self) -> tuple[BoxEnd, str] | None:
        """Why the user stopped the box, if so."""
        return self._asked

    async def send(self, line: bytes) -> None:
        """Write one line. It is sent whole even if the sender is cancelled meanwhile."""
        if b"\n" in line:
            raise ValueError("a line must not contain a newline")
        if len(line) > self._longest:
            raise ToolError(
                f"A line of {len(line)} bytes is longer than this box takes ({self._longest}).",
                remedy="Send it in pieces.", code="TOO_LARGE",
            )  # fmt: skip
        async with self._sending:
            await self._sent()
            if self._input < 0:
                raise _gone()
            self._unsent = memoryview(line + b"\n")
            self._write()
            await self._sent()
            if self._unsent:
                raise _gone()

    async def _sent(self) -> None:
        while self._unsent and self._input >= 0 and not self._ended.is_set():
            self._moved.clear()
            await self._moved.wait()

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._input, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # the program no longer reads
            self._close_input()
            return
        if self._unsent:
            self._loop.add_writer(self._input, self._write)
        else:
            self._loop.remove_writer(self._input)
            self._moved.set()

    async def end_input(self) -> None:
        """Close standard input after what was sent."""
        async with self._sending:
            await self._sent()
            self._close_input()

    def _close_input(self) -> None:
        self._forget(self._input)
        self._input = -1
        self._moved.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """Complete lines, without their newline, until standard output ends and the last one was taken."""
        while True:
            line = self._next_line()
            if line is not None:
                yield line
            elif self._output < 0 or self._broken:
                return
            else:
                self._moved.clear()
                await self._moved.wait()

    def _next_line(self) -> bytes | None:
        place = self._lines.find(b"\n", self._searched)
        if place < 0:
            self._searched = len(self._lines)
            if self._output >= 0:
                self._loop.add_reader(self._output, self._read_lines)
            return None
        if place > self._longest:
            self._too_long()
        if self._broken:
            return None
        line = bytes(self._lines[:place])
        del self._lines[: place + 1]
        self._searched = 0
        return line

    # -- reading

    def _read_lines(self) -> None:
        self._take_lines()
        if self._output >= 0 and len(self._lines) >= _CHUNK and b"\n" in self._lines:
            self._loop.remove_reader(self._output)  # enough for now: taking the last line resumes reading

    def _take_lines(self) -> bool:
        """Take one chunk; whether there may be more."""
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._forget(self._output)
            self._output = -1
            self._moved.set()
            return False
        self._lines += data
        self._moved.set()
        if len(self._lines) - self._lines.rfind(b"\n") - 1 > self._longest:
            self._too_long()
        return not self._broken

    def _too_long(self) -> None:
        self._broken = True
        self.stop("output_limit", f"It was stopped for a line of more than {self._longest} bytes.")

    def _read_errors(self) -> None:
        self._take_errors()
        if self._errors >= 0:
            self._loop.remove_reader(self._errors)
            self._pause = self._loop.call_later(_PAUSE, self._resume_errors)

    def _resume_errors(self) -> None:
        if self._errors >= 0:  # it may be closed meanwhile, and its number reused
            self._loop.add_reader(self._errors, self._read_errors)

    def _take_errors(self) -> bool:
        try:
            data = os.read(self._errors, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._forget(self._errors)
            self._errors = -1
            return False
        self._tail += data
        del self._tail[:-_TAIL]
        return True


def _gone() -> ToolError:
    return ToolError("The box has ended, so nothing can be sent to it.", remedy="Open another one.", code="BOX_OVER")
