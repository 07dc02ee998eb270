"""The keepers of one home, from outside: start a session, find it again, talk to it, be told how it ended."""

import asyncio
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.keeper_wire import (
    ACCEPTED,
    ANSWER,
    CHUNK,
    ENDED,
    FAILED,
    HELLO,
    INPUT,
    LENT,
    NURSERY,
    OFFSET,
    ORDER,
    OUTPUT,
    REQUEST,
    STATE,
    SUFFIX,
    TAKE,
    TYPED,
    UNTYPED,
    WELCOME,
    WINDOW,
    Failure,
    Frames,
    Hello,
    KeeperAnswer,
    KeeperEnd,
    KeeperOrder,
    KeeperRequest,
    SocketFolder,
    TerminalEnd,
    TerminalState,
    Welcome,
    What,
    check_order,
    check_size,
    frame,
    is_name,
    is_ours,
    packed,
)

__all__ = ["AttachedTerminal", "KeeperEnd", "KeeperLost", "KeeperOrder", "Keepers"]

_NURSERY_FILE = Path(__file__).with_name("nursery.py")
_START_SECONDS = 120.0
_ANSWER_SECONDS = 30.0
_MOST_LISTENERS = 16
_TYPED_AT_ONCE = 16 << 10


class KeeperLost(ToolError):
    """The keeper died, and its box with it."""

    code = "LOST"


def _lost() -> KeeperLost:
    return KeeperLost("The keeper of this session died, and everything in it.", remedy="Start a new session.")


class _NotTaken(Exception):
    """The nursery ended before it took the order."""


class Keepers:
    """The sessions of one home: `folder` holds their sockets, and belongs to us alone."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self._folder = folder
        self._python = python
        self._hatching: asyncio.Lock | None = None

    async def start(self, order: KeeperOrder) -> "AttachedTerminal":
        """Start a session; returns once its command may run. Raises ToolError or BoxUnavailable if it does not."""
        check_order(order)
        for _ in range(5):
            connection = await self._nursery(order)
            if connection is None:
                continue
            attached = AttachedTerminal(order.session_id, self._folder)
            with contextlib.suppress(_NotTaken):
                return await attached.open(connection, packed(ORDER, order), after=ACCEPTED, seconds=_START_SECONDS)
        raise ToolError(
            "The process that starts sessions did not start.", remedy="Try again in a moment.", code="NO_NURSERY",
            begun=False,
        )  # fmt: skip

    async def _nursery(self, order: KeeperOrder) -> socket.socket | None:
        if self._hatching is None:
            self._hatching = asyncio.Lock()
        async with self._hatching:
            connection = self._dial(NURSERY)
            if connection is None:
                await asyncio.to_thread(self._hatch, order.estop)
                connection = self._dial(NURSERY)
            return connection

    def _hatch(self, estop: tuple[str, ...]) -> None:
        """Start the nursery: it returns when it listens, or when another one does."""
        packages = str(Path(msgspec.__file__).parents[1])
        command = [self._python, "-I", "-S", str(_NURSERY_FILE), str(self._folder), packages, *estop]
        none = subprocess.DEVNULL
        done = subprocess.run(
            command, stdin=none, stdout=none, stderr=subprocess.PIPE, env={}, cwd="/", start_new_session=True,
            close_fds=True, check=False,
        )  # fmt: skip
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise ToolError(
                f"The process that starts sessions failed: {said[-1] if said else 'it said nothing'}",
                code="NO_NURSERY", begun=False,
            )  # fmt: skip

    def _dial(self, name: str) -> socket.socket | None:
        try:
            folder = SocketFolder(str(self._folder))
        except FileNotFoundError:
            return None
        try:
            connection = folder.dial(name)
        finally:
            folder.close()
        if connection is not None and not is_ours(connection):
            connection.close()
            return None
        return connection

    async def attach(
        self, session_id: str, offset: int | None = None, *, follow: bool = False
    ) -> "AttachedTerminal | None":
        """Talk to a session's keeper, with its output from an offset on; None if there is no such keeper (any more)."""
        connection = self._dial(f"{session_id}{SUFFIX}") if is_name(session_id) else None
        if connection is None:
            return None
        attached = AttachedTerminal(session_id, self._folder)
        hello = packed(HELLO, Hello(offset=offset, follow=follow))
        try:
            return await attached.open(connection, hello, after=0, seconds=_ANSWER_SECONDS)
        except KeeperLost:
            return None

    def running(self) -> tuple[str, ...]:
        """The sessions whose keepers are there, ended ones too until they are finished; removes what the dead left."""
        try:
            names = sorted(name for name in os.listdir(self._folder) if name.endswith(SUFFIX) and name != NURSERY)  # noqa: PTH208
        except FileNotFoundError:
            return ()
        found: list[str] = []
        for name in names:
            try:
                connection = self._dial(name)
            except BlockingIOError:  # so busy that others wait
                found.append(name.removesuffix(SUFFIX))
                continue
            if connection is not None:
                connection.close()
                found.append(name.removesuffix(SUFFIX))
        return tuple(found)

    async def end_all(self, *, forget: bool = True) -> int:
        """Stop every session; `forget` lets the keepers go too, and nobody learns how each ended."""
        names = self.running()
        await asyncio.gather(*(self.end(name, forget=forget) for name in names))
        return len(names)

    async def end(self, session_id: str, *, forget: bool = True) -> None:
        """Stop a session, if it is there."""
        attached = await self.attach(session_id)
        if attached is None:
            return
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await attached.stop()
                await attached.ended()
                if forget:
                    await attached.finish()
        except (TimeoutError, KeeperLost):
            with contextlib.suppress(ProcessLookupError):
                os.kill(attached.pid, signal.SIGKILL)  # its box dies with it
        finally:
            await attached.close()


class AttachedTerminal(asyncio.Protocol):
    """A connection to one keeper. One reader of the output at a time."""

    def __init__(self, session_id: str, folder: Path) -> None:
        self.session_id = session_id
        self.first = self.next = 0
        """The range that was kept when we came; `first` above the offset asked for means a gap."""
        self.rows = self.columns = 0
        self.paused = False
        self.pid = 0
        """The keeper's."""
        self.on_change: Callable[[], None] | None = None
        """Called when the size changed, or whether it is paused."""
        self._folder = folder
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._first_word: tuple[bytes, int] | None = None
        self._ports: tuple[int, ...] = ()
        self._welcomed: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[KeeperEnd] = self._loop.create_future()
        self._last: int | None = None
        """Where the output ends, once the box has ended."""
        self._output: deque[tuple[int, bytes]] = deque()
        self._taken = 0
        self._granted = 0
        self._untyped = 0
        self._moved = asyncio.Event()
        self._numbers = 0
        self._answers: dict[int, asyncio.Future[None]] = {}

    async def open(self, connection: socket.socket, word: bytes, *, after: int, seconds: float) -> "AttachedTerminal":
        """Say the first word, after the other end has said its own, and wait for the welcome."""
        self._first_word = word, after
        try:
            await self._loop.create_unix_connection(lambda: self, sock=connection)
            async with asyncio.timeout(seconds):
                await self._welcomed
        except TimeoutError:
            await self.close()
            raise ToolError("The keeper of this session does not answer.", remedy="Stop it.", code="LOST") from None
        except BaseException:
            await self.close()
            raise
        return self

    # -- for the user

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Pieces of the output, each with its offset, to its end; what was skipped shows as a jump.

        Raises KeeperLost if the keeper died before its end.
        """
        while True:
            self._grant()
            while self._output:
                offset, data = self._output.popleft()
                self._taken = offset + len(data)
                yield offset, data
                self._grant()
            if self._last is not None and self._taken >= self._last:
                return
            if self._transport is None:
                raise _lost()
            await self._wait()

    def _grant(self) -> None:
        """Let the keeper send more, in strides: it need not hear of every byte."""
        upto = self._taken + WINDOW
        if self._transport is not None and upto - self._granted >= CHUNK:
            self._granted = upto
            self._transport.write(frame(TAKE, OFFSET.pack(upto)))

    async def send(self, data: bytes, *, patience: float | None = None) -> None:
        """Type something; waits while the session does not read, at most `patience`. ToolError then, or if it ended."""
        for at in range(0, len(data), _TYPED_AT_ONCE):
            piece = data[at : at + _TYPED_AT_ONCE]
            await self._read_up_to(UNTYPED - len(piece), patience)
            if not self._is_open() or self._transport is None:
                raise ToolError(
                    "The session has ended, so nothing can be typed.", remedy="Start a new one.", code="BOX_OVER"
                )
            self._untyped += len(piece)
            self._transport.write(frame(INPUT, piece))

    async def typed(self, patience: float) -> None:
        """Wait until everything that was sent has reached the terminal."""
        await self._read_up_to(0, patience)

    async def _read_up_to(self, left: int, patience: float | None) -> None:
        try:
            async with asyncio.timeout(patience):
                while self._untyped > left and self._is_open():
                    await self._wait()
        except TimeoutError:
            raise ToolError(
                "The program in the session is not reading its input.",
                remedy="Wait, or end that program.",
                code="NOT_READ",
            ) from None

    def _is_open(self) -> bool:
        return self._transport is not None and not self._ended.done()

    async def _wait(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    async def resize(self, rows: int, columns: int) -> None:
        """Say what our screen can show; the smallest of all screens wins."""
        check_size(rows, columns)
        await self._ask("resize", rows=rows, columns=columns)

    async def forget_size(self) -> None:
        """Our screen no longer counts."""
        await self._ask("no_screen")

    async def redraw(self) -> None:
        """Have full-screen programs draw everything again."""
        await self._ask("redraw")

    async def pause(self) -> None:
        """Stop every process inside."""
        await self._ask("pause")

    async def resume(self) -> None:
        """Let them run again."""
        await self._ask("resume")

    async def stop(self, grace: float = 5.0) -> None:
        """Hang up; after the grace, kill what is left. Returns at once: `ended` waits."""
        await self._ask("stop", grace=grace)

    async def ended(self) -> KeeperEnd:
        """How it ended, once it has; raises KeeperLost if its keeper died."""
        return await asyncio.shield(self._ended)

    async def finish(self) -> None:
        """Let the keeper of an ended session go."""
        await self._ask("finish")

    async def listeners(self) -> list[socket.socket]:
        """The listening sockets inside, to accept from; the keeper keeps its own copies for later servers."""
        if not self._ports:
            return []
        return await asyncio.to_thread(self._borrow)

    def _borrow(self) -> list[socket.socket]:
        folder = SocketFolder(str(self._folder))
        try:
            connection = folder.dial(f"{self.session_id}{SUFFIX}")
        finally:
            folder.close()
        if connection is None:
            raise _lost()
        with connection:
            connection.settimeout(_ANSWER_SECONDS)
            connection.sendall(packed(HELLO, Hello(lend=True)))
            data, descriptors, _, _ = socket.recv_fds(connection, 64, _MOST_LISTENERS)
        lent = [socket.socket(fileno=each) for each in descriptors]
        if [kind for kind, _ in Frames().feed(data)] != [LENT] or len(lent) != len(self._ports):
            for each in lent:
                each.close()
            raise ToolError("The session has ended, and its listeners with it.", code="BOX_OVER")
        return lent

    async def close(self) -> None:
        """Hang up; the session goes on."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    async def _ask(self, what: What, *, rows: int = 0, columns: int = 0, grace: float = 0.0) -> None:
        if self._transport is None:
            raise _lost()
        self._numbers += 1
        number = self._numbers
        answer = self._answers[number] = self._loop.create_future()
        request = KeeperRequest(number=number, what=what, rows=rows, columns=columns, grace=grace)
        self._transport.write(packed(REQUEST, request))
        try:
            await answer
        finally:
            del self._answers[number]

    # -- for the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        self._transport = cast("asyncio.Transport", transport)
        if self._first_word is not None and self._first_word[1] == 0:
            self._transport.write(self._first_word[0])
            self._first_word = None

    def data_received(self, data: bytes) -> None:
        """Frames arrived, or pieces of them."""
        try:
            for kind, payload in self._frames.feed(data):
                self._hear(kind, payload)
        except (ValueError, struct.error, msgspec.DecodeError):
            if self._transport is not None:
                self._transport.abort()
        self._moved.set()

    def _hear(self, kind: int, payload: bytes) -> None:
        if kind == OUTPUT:
            self._output.append((OFFSET.unpack_from(payload)[0], payload[OFFSET.size :]))
        elif kind == TYPED:
            self._untyped -= OFFSET.unpack(payload)[0]
        elif kind == STATE:
            state = msgspec.msgpack.decode(payload, type=TerminalState)
            self.rows, self.columns, self.paused = state.rows, state.columns, state.paused
            if self.on_change is not None:
                self.on_change()
        elif kind == ENDED:
            ended = msgspec.msgpack.decode(payload, type=TerminalEnd)
            self._last = ended.next
            if not self._ended.done():
                self._ended.set_result(ended.end)
        elif kind == ANSWER:
            self._hear_answer(msgspec.msgpack.decode(payload, type=KeeperAnswer))
        else:
            self._hear_first(kind, payload)

    def _hear_answer(self, answer: KeeperAnswer) -> None:
        waiting = self._answers.get(answer.number)
        if waiting is None or waiting.done():
            return
        if answer.failure is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(answer.failure.error())

    def _hear_first(self, kind: int, payload: bytes) -> None:
        """The single message before the session runs, or instead of it."""
        if self._welcomed.done():
            return
        if self._first_word is not None and kind == self._first_word[1] == ACCEPTED and self._transport is not None:
            self._transport.write(self._first_word[0])
            self._first_word = None
        elif kind == WELCOME:
            welcome = msgspec.msgpack.decode(payload, type=Welcome)
            self.first, self.next, self.rows, self.columns = welcome.first, welcome.next, welcome.rows, welcome.columns
            self.paused, self.pid, self._ports = welcome.paused, welcome.pid, welcome.ports
            self._taken = self._granted = welcome.at
            self._welcomed.set_result(None)
        elif kind == FAILED:
            self._welcomed.set_exception(msgspec.msgpack.decode(payload, type=Failure).error())

    def connection_lost(self, exc: Exception | None) -> None:
        """The keeper hung up or died, or we did."""
        self._transport = None
        error: Exception = _lost() if self._first_word is None else _NotTaken()
        for waiting in (self._welcomed, self._ended, *self._answers.values()):
            if not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # nobody may be waiting for it
        self._moved.set()
