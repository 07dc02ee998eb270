"""The owner's terminal on a session: raw keys in, filtered output out, the screen left as it was found."""

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import sys
import termios
import tty
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.sandbox.keepers import AttachedTerminal, KeeperLost

if TYPE_CHECKING:
    from types import FrameType

    from coilclaw.runtime import Runtime

DETACHED = "Detached. The session goes on."
PREFIX = b"\x02"
"""Ctrl-b: then d detaches, and a second Ctrl-b is sent as one."""
_ENTER = b"\x1b[?1049h\x1b[2J\x1b[H"
_MODES = (1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004, 2026, 1, 5, 6, 12, 45, 66)
LEAVE = (
    b"".join(b"\x1b[?%dl" % mode for mode in _MODES)
    + b"\x0f\x1b(B\x1b)B\x1b[4l\x1b[?7h\x1b[0 q\x1b>\x1b[r\x1b[0m\x1b[?25h\x1b[?1049l"
)
"""Takes back whatever a program in the session may have set."""
_CLEAR = b"\x1b[0m\x1b[r\x1b[2J\x1b[H"
_KEPT = 64 << 10
"""How much of the session's normal screen is kept, to draw it again when a full-screen program ends."""
_INSIDE_ON, _INSIDE_OFF = (b"\x1b[?1049h", b"\x1b[?1047h", b"\x1b[?47h"), (b"\x1b[?1049l", b"\x1b[?1047l", b"\x1b[?47l")


class Filter(Protocol):
    """What output passes before it reaches the terminal."""

    def feed(self, data: bytes) -> bytes:
        """What may be shown of it now."""
        ...


class Keys:
    """Finds the detach key in what is typed."""

    def __init__(self) -> None:
        self._prefixed = False

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What is to be sent, and whether to detach."""
        sent = bytearray()
        for place, number in enumerate(data):
            key = data[place : place + 1]
            if self._prefixed:
                self._prefixed = False
                if key in (b"d", b"D"):
                    return bytes(sent), True
                sent += key if key == PREFIX else PREFIX + key
            elif number == PREFIX[0]:
                self._prefixed = True
            else:
                sent += key
        return bytes(sent), False


class TwoScreens:
    """The session's two screens on our alternate one: what stood on the normal one is drawn again afterwards."""

    def __init__(self) -> None:
        self._normal = bytearray()
        self._full = False
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What to write to the terminal."""
        data, self._held = self._held + data, b""
        shown = bytearray()
        while data:
            place, length, on = _switch(data)
            if place < 0:
                cut = _may_begin(data)
                data, self._held = data[:cut], data[cut:]
                self._take(shown, data)
                break
            self._take(shown, data[:place])
            data = data[place + length :]
            if on and not self._full:
                shown += _CLEAR
            elif not on and self._full:
                shown += _CLEAR + self._normal
            self._full = on
        return bytes(shown)

    def _take(self, shown: bytearray, data: bytes) -> None:
        shown += data
        if not self._full:
            self._normal += data
            if len(self._normal) > 2 * _KEPT:
                del self._normal[:-_KEPT]
                del self._normal[: self._normal.find(b"\n") + 1]


def _switch(data: bytes) -> tuple[int, int, bool]:
    """The first change of screen: its place (-1 without one), its length, and whether a full screen begins."""
    found = [
        (place, len(word), on)
        for words, on in ((_INSIDE_ON, True), (_INSIDE_OFF, False))
        for word in words
        if (place := data.find(word)) >= 0
    ]
    return min(found, default=(-1, 0, False))


def _may_begin(data: bytes) -> int:
    """Where the beginning of a change of screen may stand at the end of some bytes."""
    place = data.rfind(b"\x1b", max(0, len(data) - 8))
    words = (*_INSIDE_ON, *_INSIDE_OFF)
    return place if place >= 0 and any(word.startswith(data[place:]) for word in words) else len(data)


@contextlib.contextmanager
def raw_terminal(descriptor: int) -> Iterator[None]:
    """Keys go through one by one, on a screen of their own; both are put back however this ends."""
    before = termios.tcgetattr(descriptor)

    def back(number: int, _: "FrameType | None") -> None:
        _put_back(descriptor, before)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    kept = {number: signal.signal(number, back) for number in (signal.SIGTERM, signal.SIGHUP)}
    tty.setraw(descriptor)
    os.write(descriptor, _ENTER)
    try:
        yield
    finally:
        _put_back(descriptor, before)
        for number, handler in kept.items():
            signal.signal(number, handler)


def _put_back(descriptor: int, before: list[object]) -> None:
    with contextlib.suppress(OSError, termios.error):
        os.write(descriptor, LEAVE)
    with contextlib.suppress(OSError, termios.error):
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)  # pyright: ignore[reportArgumentType]


def size_of(descriptor: int) -> tuple[int, int]:
    """Rows and columns of our terminal; a usual size where it does not know."""
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8)))
    return (rows or 24, columns or 80)


async def attach_terminal(keeper: AttachedTerminal, shown: Filter, *, read_only: bool) -> str:
    """Show a session until it ends or the owner detaches; returns how that came about, in words."""
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    left: asyncio.Future[str] = loop.create_future()
    with raw_terminal(descriptor):
        tasks: set[asyncio.Task[None]] = set()

        async def resized() -> None:
            with contextlib.suppress(ToolError):
                await keeper.resize(*size_of(descriptor))

        def winch() -> None:
            task = loop.create_task(resized())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        if not read_only:
            loop.add_signal_handler(signal.SIGWINCH, winch)
            await resized()
        typing = asyncio.ensure_future(_type(keeper, descriptor, left, read_only=read_only))
        showing = asyncio.ensure_future(_show(keeper, descriptor, shown, left))
        try:
            await keeper.redraw()
            return await left
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            for task in (typing, showing, *tasks):
                task.cancel()
            await asyncio.gather(typing, showing, *tasks, return_exceptions=True)


async def _show(keeper: AttachedTerminal, descriptor: int, shown: Filter, left: "asyncio.Future[str]") -> None:
    screen = TwoScreens()
    try:
        async for _, data in keeper.output():
            await asyncio.to_thread(_write, descriptor, screen.feed(shown.feed(data)))
        ended = await keeper.ended()
        words = f"The session ended: {ended.reason or f'exit status {ended.exit_code}'}"
    except KeeperLost:
        words = "The session is lost: its keeper died."
    if not left.done():
        left.set_result(words)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


async def _type(keeper: AttachedTerminal, descriptor: int, left: "asyncio.Future[str]", *, read_only: bool) -> None:
    keys = Keys()
    while True:
        await _readable(descriptor)
        data = os.read(descriptor, 4096)
        sent, detach = keys.feed(data)
        if sent and not read_only:
            with contextlib.suppress(ToolError):
                await keeper.send(sent, patience=1.0)  # the detach key must work, whatever runs there
        if (detach or not data) and not left.done():
            left.set_result(DETACHED)
            return


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def keeper_of(app: "Runtime", session_id: str) -> AttachedTerminal:
    """A session that runs; what to do if it does not."""
    from coilclaw.features.runner.sessions import sessions_of
    from coilclaw.features.runner.views import session_view

    sessions = sessions_of(app)
    view = session_view(app, sessions.get(session_id))
    keeper = await sessions.keepers.attach(session_id)
    if keeper is not None:
        return keeper
    if view.waiting:
        remedy = f"It waits for you: `coilclaw approvals approve {view.waiting[0]}`."
    else:
        remedy = f"See what it wrote: `coilclaw session logs {session_id}`."
    raise UsageError(f"session {session_id} is not running: it is {view.state}.", remedy=remedy)


class SafeOutput:
    """Output for the owner's terminal: without secrets, and only with sequences that do no harm."""

    def __init__(self, app: "Runtime") -> None:
        from coilclaw.features.runner.terminal_filter import TerminalFilter

        self._redacted = app.redactor.terminal()
        self._filtered = TerminalFilter()

    def feed(self, data: bytes) -> bytes:
        """What may be shown now."""
        return self._filtered.feed(self._redacted.feed(data))
