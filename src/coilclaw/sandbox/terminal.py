"""The terminal of an open box: bytes in, bytes out, a size.

The process that holds one is a session leader without another terminal: this one becomes its controlling terminal, and
what it starts in the box is the foreground of it. So keys become signals, and a shell inside has job control. Nothing
grows with time: while the output is held back, a program that writes more blocks in its own write.
"""

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections import deque
from collections.abc import Callable

from coilclaw.packets.box import BoxEnd
from coilclaw.sandbox.root_thread import Streams

_CHUNK = 64 << 10
_HEAD = 512
"""How much of the beginning is kept: bubblewrap says there why it could not start the program."""
_IUTF8 = 0o40000
_LOOK = 0.01


class BoxTerminal:
    """Our end of the terminal of one open box."""

    def __init__(self, rows: int, columns: int, take: Callable[[bytes], None]) -> None:
        """`take` receives the output as it is read."""
        self._loop = asyncio.get_running_loop()
        self._size = rows, columns
        self._take = take
        self._stop: Callable[[BoxEnd, str], None] | None = None
        self.asked: tuple[BoxEnd, str] | None = None
        """Why the user stopped the box, if so."""
        self.stirred: Callable[[], None] = _nothing
        """Called when something is typed or written."""
        self._owner = -1
        self._master = self._slave = -1
        self._held_back = False
        self._head = b""
        self._unsent: deque[tuple[memoryview, Callable[[int], None]]] = deque()
        self.open_for_use: asyncio.Future[None] = self._loop.create_future()

    def lend(self, uid: int) -> None:
        """Root gives it to the uid of the box, which may then also open it by name."""
        self._owner = uid

    # -- for the supervisor

    def open(self, stop: Callable[[BoxEnd, str], None]) -> Streams:
        """Create the terminal, and make it ours; `stop` ends the box, with a reason."""
        self._stop = stop
        if self.asked is not None:
            stop(*self.asked)
        self._master, self._slave = os.openpty()
        settings = termios.tcgetattr(self._slave)
        settings[0] |= _IUTF8  # so that a whole character is erased
        termios.tcsetattr(self._slave, termios.TCSANOW, settings)
        if self._owner >= 0:
            os.fchown(self._slave, self._owner, -1)
        fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
        os.set_blocking(self._master, False)
        self.resize(*self._size)
        self._loop.add_reader(self._master, self._read)
        return Streams(stdin=self._slave, stdout=self._slave, stderr=self._slave, terminal=True)

    def begun(self) -> None:
        """The command may start now."""
        if not self.open_for_use.done():
            self.open_for_use.set_result(None)

    def hand_over(self) -> None:
        """Keep our copy of the command's end: a program may close its own and open /dev/tty again."""

    async def drain(self, seconds: float) -> None:
        """Read what is left, which without another end is followed by an error."""
        self._close_slave()
        deadline = self._loop.time() + seconds
        while self._master >= 0 and self._loop.time() < deadline:
            try:
                data = os.read(self._master, _CHUNK)
            except BlockingIOError:  # the kernel is still passing it on
                await asyncio.sleep(_LOOK)
            except OSError:
                return
            else:
                self._taken(data)

    def close(self) -> tuple[bytes, bytes]:
        """Close it; returns nothing, and the beginning of what was said, if that was not the command."""
        self._close_slave()
        if self._master >= 0:
            self._loop.remove_reader(self._master)
            self._loop.remove_writer(self._master)
            os.close(self._master)
            self._master = -1
        self._unsent.clear()
        return b"", self._head.replace(b"\r\n", b"\n")

    def _close_slave(self) -> None:
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    # -- for the user

    def stop(self, end: BoxEnd, reason: str) -> None:
        """End the box, or keep it from starting; the first reason counts."""
        self.asked = self.asked or (end, reason)
        if self._stop is not None:
            self._stop(end, reason)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size; the programs in the foreground are told by the kernel."""
        self._size = rows, columns
        if self._master >= 0:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("=4H", rows, columns, 0, 0))

    def hold_back(self, held_back: bool) -> None:
        """Stop reading, so that programs inside wait, or go on."""
        if held_back != self._held_back and self._master >= 0:
            self._held_back = held_back
            if held_back:
                self._loop.remove_reader(self._master)
            else:
                self._loop.add_reader(self._master, self._read)

    def write(self, data: bytes, written: Callable[[int], None]) -> None:
        """Type this after what was typed before; `written` is told how much went in, piece by piece."""
        if self._master >= 0 and data:
            self.stirred()
            self._unsent.append((memoryview(data), written))
            if len(self._unsent) == 1:
                self._write()

    # -- reading and writing

    def _write(self) -> None:
        while self._unsent:
            data, written = self._unsent[0]
            try:
                count = os.write(self._master, data)
            except BlockingIOError:
                self._loop.add_writer(self._master, self._write)
                return
            except OSError:
                self._unsent.clear()
                break
            if count == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = data[count:], written
            written(count)
        self._loop.remove_writer(self._master)

    def _read(self) -> None:
        """Read what is there, up to a chunk: the kernel gives a page at a time."""
        pieces: list[bytes] = []
        size = 0
        with contextlib.suppress(OSError):  # nothing more for now
            while size < _CHUNK:
                pieces.append(os.read(self._master, _CHUNK - size))
                size += len(pieces[-1])
        if size:
            self.stirred()
            self._taken(b"".join(pieces))

    def _taken(self, data: bytes) -> None:
        if len(self._head) < _HEAD:
            self._head += data[: _HEAD - len(self._head)]
        self._take(data)


def _nothing() -> None:
    """Nobody wants to know."""
