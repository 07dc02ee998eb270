"""Reads a command's output as it arrives, up to a limit, and feeds its input, without blocking the loop."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable

from coilclaw.packets.box import BoxEnd, BoxLimits, OnOutput, OutputName
from coilclaw.sandbox.root_thread import Streams
from coilclaw.secrets.cuts import after_gap, before_gap


class KeptOutput:
    """Keeps at most so many bytes; the omitted middle is counted and mentioned."""

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._gone = 0

    def add(self, data: bytes) -> None:
        """Add output."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail += data
        surplus = len(self._tail) - self._half
        if surplus > self._half:  # only occasionally, so that each byte is moved about once
            del self._tail[:surplus]
            self._gone += surplus

    def whole(self) -> bytes:
        """Everything, or the beginning and the end with a line between them that says how much is omitted."""
        surplus = max(0, len(self._tail) - self._half)
        if not surplus + self._gone:
            return bytes(self._head + self._tail)
        head, tail = before_gap(bytes(self._head)), after_gap(bytes(self._tail[surplus:]))
        left_out = self._gone + len(self._head) + len(self._tail) - len(head) - len(tail)
        return b"%s\n[%d bytes left out]\n%s" % (head.rstrip(b"\n"), left_out, tail)


_CHUNK = 256 << 10
"""Size of an output's pipe and of one read: a flood costs a quarter of the loop turns of the usual 64 KiB."""


class Capture:
    """The three streams of one command: the loop reads and writes our ends, the command gets the others."""

    def __init__(self, stdin: bytes, limits: BoxLimits, on_output: OnOutput | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._cap = limits.output_bytes
        self._on_output = on_output
        self._stop: Callable[[BoxEnd, str], None] | None = None
        self._taken = 0
        self._pending = memoryview(stdin)
        self._ours: set[int] = set()
        self._outputs: dict[int, tuple[OutputName, KeptOutput]] = {}
        self._theirs: list[int] = []
        self._kept = (KeptOutput(limits.kept_bytes), KeptOutput(limits.kept_bytes))
        self._ended: asyncio.Future[None] = self._loop.create_future()

    def open(self, stop: Callable[[BoxEnd, str], None]) -> Streams:
        """Create the command's ends; `stop` ends the box, with a reason."""
        self._stop = stop
        stdout, stderr = self._kept
        return Streams(
            stdin=self._input(), stdout=self._output("stdout", stdout), stderr=self._output("stderr", stderr)
        )

    def begun(self) -> None:
        """The command may start now."""

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

    def _output(self, name: OutputName, kept: KeptOutput) -> int:
        ours, theirs = os.pipe()
        with contextlib.suppress(OSError):  # the per-user limit may be reached
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, _CHUNK)
        os.set_blocking(ours, False)
        self._ours.add(ours)
        self._outputs[ours] = (name, kept)
        self._theirs.append(theirs)
        self._loop.add_reader(ours, self._read, ours, name, kept)
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

    def _read(self, ours: int, name: OutputName, kept: KeptOutput) -> bool:
        """Take one chunk; whether there may be more."""
        try:
            data = os.read(ours, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._end(ours)
            return False
        room = self._cap - self._taken
        taken = data[:room]
        kept.add(taken)
        self._taken += len(taken)
        if len(data) > room and self._stop is not None:
            self._stop("output_limit", f"It was stopped after {self._cap} bytes of output.")
        if self._on_output is not None and taken:
            self._on_output(name, taken)
        return len(data) <= room

    def _end(self, ours: int) -> None:
        self._loop.remove_reader(ours)
        self._loop.remove_writer(ours)
        self._ours.discard(ours)
        os.close(ours)
        if self._outputs.keys().isdisjoint(self._ours) and not self._ended.done():
            self._ended.set_result(None)

    def hand_over(self) -> None:
        """Close our copies of the command's ends."""
        while self._theirs:
            os.close(self._theirs.pop())

    def drained(self) -> bool:
        """Read what is available without waiting; returns whether both outputs ended."""
        for ours, (name, kept) in tuple(self._outputs.items()):
            while ours in self._ours and self._read(ours, name, kept):
                pass
        return self._outputs.keys().isdisjoint(self._ours)

    async def drain(self, seconds: float) -> None:
        """Read the rest after the command ended; without writers this does not block."""
        if not self.drained():
            await asyncio.wait([self._ended], timeout=seconds)

    def close(self) -> tuple[bytes, bytes]:
        """Stop reading; what was captured of stdout and stderr."""
        self.hand_over()
        for ours in tuple(self._ours):
            self._end(ours)
        return self._kept[0].whole(), self._kept[1].whole()
