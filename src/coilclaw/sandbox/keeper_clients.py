"""The clients of one keeper: each is told what was written since its offset, as fast as it takes it.

Nothing is queued for a client but the frames it was promised: output waits in the ring, which all share. Whoever falls
behind by more than the ring is skipped forward, and sees it by the offset. Only a follower holds the terminal back.
"""

import asyncio
import contextlib
import mmap
import socket
import struct
from collections.abc import Callable

import msgspec

from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.sandbox.keeper_wire import (
    ANSWER,
    CHUNK,
    HELLO,
    INPUT,
    LENT,
    OFFSET,
    OUTPUT,
    REQUEST,
    TAKE,
    TYPED,
    UNTYPED,
    WINDOW,
    Failure,
    Frames,
    Hello,
    KeeperAnswer,
    KeeperRequest,
    frame,
    packed,
)

_RING = 1 << 20
_QUEUED = 256 << 10
"""Bytes of answers that a client may leave unread."""


class Ring:
    """The last megabyte that was written, by its offset from the beginning."""

    def __init__(self) -> None:
        self._data = mmap.mmap(-1, _RING, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # pages come as they are filled
        self.next = 0

    @property
    def first(self) -> int:
        """The oldest byte that is kept."""
        return max(0, self.next - _RING)

    def add(self, data: bytes) -> None:
        """Write at the end, over the oldest."""
        at = self.next % _RING
        piece = data[: _RING - at]
        self._data[at : at + len(piece)] = piece
        self.next += len(piece)
        if len(piece) < len(data):
            self.add(data[len(piece) :])

    def read(self, offset: int, most: int) -> bytes:
        """Some bytes from there on."""
        at = offset % _RING
        return self._data[at : at + min(most, self.next - offset, _RING - at)]


class Client:
    """One connection to a keeper."""

    def __init__(self, connection: socket.socket, desk: "Desk") -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._desk = desk
        self._frames = Frames()
        self._queued = bytearray()
        self._writing = False
        self.at = 0
        """What is sent next."""
        self._upto = 0
        """Output may be sent up to this offset."""
        self._untyped = 0
        self.greeted = False
        self.follows = False
        self.size: tuple[int, int] | None = None
        """What it can show; a watcher has none."""
        connection.setblocking(False)
        self._loop.add_reader(connection, self._readable)

    @property
    def behind(self) -> bool:
        """Whether the terminal must wait for it."""
        return self.follows and self._desk.ring.next - self.at >= WINDOW

    def close(self) -> None:
        """Hang up."""
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
            self._connection.close()
            self._desk.left(self)

    # -- what it says

    def _readable(self) -> None:
        try:
            data = self._connection.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a killed peer with unread data resets the connection
            data = b""
        if not data:
            self.close()
            return
        try:
            for kind, payload in self._frames.feed(data):
                self._hear(kind, payload)
                if self._connection.fileno() < 0:
                    return
        except (ValueError, struct.error, msgspec.DecodeError):
            self.close()

    def _hear(self, kind: int, payload: bytes) -> None:
        if kind == HELLO and not self.greeted:
            self.greet(msgspec.msgpack.decode(payload, type=Hello))
        elif not self.greeted:
            self.close()
        elif kind == TAKE:
            self._upto = max(self._upto, OFFSET.unpack(payload)[0])
            self.pump()
            self._desk.pace()
        elif kind == INPUT:
            self._untyped += len(payload)
            if self._untyped > UNTYPED:
                self.close()
            else:
                self._desk.type_in(payload, self._typed)
        elif kind == REQUEST:
            self._desk.request(self, msgspec.msgpack.decode(payload, type=KeeperRequest))

    def _typed(self, count: int) -> None:
        self._untyped -= count
        self.say(frame(TYPED, OFFSET.pack(count)))

    def greet(self, hello: Hello) -> None:
        """KeeperAnswer its first word."""
        ring = self._desk.ring
        if hello.lend:
            self._lend()
            return
        self.greeted = True
        self.at = self._upto = ring.first if hello.offset is None else min(max(hello.offset, ring.first), ring.next)
        self.follows = hello.follow
        self._desk.welcome(self)
        self._desk.pace()

    def _lend(self) -> None:
        """Give it the listeners by descriptor, and hang up: it has nothing else to hear here."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._connection, [frame(LENT)], [each.fileno() for each in self._desk.listeners()])
        self.close()

    # -- what it hears

    def say(self, data: bytes) -> None:
        """Send a frame, before further output."""
        if self._connection.fileno() < 0:
            return
        self._queued += data
        if len(self._queued) > _QUEUED + CHUNK:
            self.close()
        elif not self._writing:
            self.pump()

    def answer(self, number: int, error: CoilclawError | None = None) -> None:
        """KeeperAnswer a request."""
        self.say(packed(ANSWER, KeeperAnswer(number=number, failure=None if error is None else Failure.of(error))))

    def pump(self) -> None:
        """Send what may be sent, as far as the connection takes it."""
        if self._connection.fileno() < 0:
            return
        while self._queued or self._fill():
            try:
                sent = self._connection.send(self._queued)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.close()
                return
            del self._queued[:sent]
            if self._queued:
                if not self._writing:
                    self._writing = True
                    self._loop.add_writer(self._connection, self.pump)
                return
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._connection)

    def _fill(self) -> bool:
        """Queue the next piece of output; whether there was one."""
        ring = self._desk.ring
        if not self.greeted or self.at >= min(self._upto, ring.next):
            return False
        if self.at < ring.first:  # skipped forward, to where it need not be skipped again at once
            self.at = max(ring.first, ring.next - WINDOW)
            self._upto = max(self._upto, self.at + CHUNK)
        data = ring.read(self.at, min(CHUNK, self._upto - self.at))
        self._queued += frame(OUTPUT, OFFSET.pack(self.at) + data)
        self.at += len(data)
        return True


class Desk:
    """What clients are told from, and whom they ask."""

    def __init__(
        self, *, welcome: Callable[[Client], None], request: Callable[[Client, KeeperRequest], None],
        type_in: Callable[[bytes, Callable[[int], None]], None], listeners: Callable[[], list[socket.socket]],
        hold_back: Callable[[bool], None], resized: Callable[[], None],
    ) -> None:  # fmt: skip
        self.ring = Ring()
        self.clients: list[Client] = []
        self.welcome = welcome
        self.request = request
        self.type_in = type_in
        self.listeners = listeners
        self._hold_back = hold_back
        self._resized = resized

    def take(self, data: bytes) -> None:
        """New output."""
        self.ring.add(data)
        for client in tuple(self.clients):
            client.pump()
        self.pace()

    def pace(self) -> None:
        """Hold the terminal back while a follower is behind."""
        self._hold_back(any(client.behind for client in self.clients))

    def say(self, data: bytes) -> None:
        """Tell everyone."""
        for client in tuple(self.clients):
            if client.greeted:
                client.say(data)

    def size(self) -> tuple[int, int] | None:
        """What every client with a screen can show; None if there is none."""
        sizes = [client.size for client in self.clients if client.size is not None]
        return (min(rows for rows, _ in sizes), min(columns for _, columns in sizes)) if sizes else None

    def left(self, client: Client) -> None:
        """A client is gone."""
        if client in self.clients:
            self.clients.remove(client)
            self.pace()
            if client.size is not None:
                self._resized()


def unknown(what: str) -> ToolError:
    """For a request of a version to come."""
    return ToolError(
        f"This session was started by an older version, which cannot {what}.", remedy="Start a new session.",
        code="UNSUPPORTED",
    )  # fmt: skip
