"""WS /runner/v1/stream: any number of sessions over one WebSocket, watched and driven.

A client sends JSON: `subscribe`, `unsubscribe`, `input`, `resize`, `ack`, `renew`. It gets the events of its sessions,
their terminal output as TERMINAL_CHUNK, and `gap` where output was skipped. Under the protocol `coilclaw-binary` output
comes as binary frames instead (kind, index of the subscription, offset, bytes), and input may be sent as one.

The door has admitted the caller and checks every message. Each subscription is served in turn, at most one frame at a
time, so that a flooding session delays the others by one frame. What a client does not acknowledge stays in the
session's ring, which is shared (live.py): nothing is buffered per client.
"""

import asyncio
import contextlib
import struct
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec
from litestar import Controller, WebSocket, websocket
from litestar.di import NamedDependency

from coilclaw.features.runner.event import SessionEvent
from coilclaw.features.runner.live import LARGEST_CHUNK, Chunk, LiveSession, SessionAccess, TerminalReader, Watched
from coilclaw.features.runner.states import BEGINNING, ENDED
from coilclaw.features.runner.tokens import RunnerTokens
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ids import new_id, utc_now
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.sockets import BINARY_PROTOCOL
from coilclaw.server.problems import problem_of

COALESCE_SECONDS = 0.004
ENOUGH = LARGEST_CHUNK // 2
"""So much output is not kept waiting for more."""
FOLLOW_SECONDS = 10.0
"""A session that runs is followed a moment after its start, or after the server's; this long is waited for it."""
FOLLOW_LOOK_SECONDS = 0.1
MOST_SUBSCRIPTIONS = 64
EVENTS_AT_ONCE = 100
LARGEST_SIDE = 1000
_FRAME = struct.Struct(">BIQ")
_INPUT = struct.Struct(">BI")
OUTPUT, PRELUDE, TYPED = 1, 2, 3
"""Kinds of binary frames: output, which counts; what prepares a terminal for it, which does not; and input."""


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe", forbid_unknown_fields=True):
    """Follow a session."""

    session_id: str
    after_seq: int | None = None
    """Events after this number; without it, only new ones."""
    terminal_from: int | None = None
    """The offset to go on from; without it, from as far back as the ring reaches."""


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe", forbid_unknown_fields=True):
    """No longer follow a session."""

    session_id: str


class Input(msgspec.Struct, frozen=True, tag="input", forbid_unknown_fields=True):
    """Type."""

    session_id: str
    data: str


class Resize(msgspec.Struct, frozen=True, tag="resize", forbid_unknown_fields=True):
    """The viewer's size; the smallest of all viewers counts."""

    session_id: str
    rows: int
    columns: int


class Ack(msgspec.Struct, frozen=True, tag="ack", forbid_unknown_fields=True):
    """Everything before this offset was processed."""

    session_id: str
    offset: int


class Renew(msgspec.Struct, frozen=True, tag="renew", forbid_unknown_fields=True):
    """Let the runner token live longer."""


_MESSAGE = msgspec.json.Decoder(Subscribe | Unsubscribe | Input | Resize | Ack | Renew)


class StreamController(Controller):
    """The stream of coding sessions."""

    path = "/runner/v1/stream"

    @websocket("/")
    async def stream(
        self,
        socket: WebSocket[Any, Any, Any],
        caller: NamedDependency[Caller],
        session_access: NamedDependency[SessionAccess],
        runner_tokens: NamedDependency[RunnerTokens],
    ) -> None:
        """Sessions, multiplexed."""
        await _Connection(socket, caller, session_access, runner_tokens).run()


class _Refused(CoilclawError):
    """A message that cannot be followed; the connection stays."""

    def __init__(self, code: str, message: str, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.code = code


class _Subscription:
    """One session on one connection."""

    def __init__(self, index: int, watched: Watched, live: LiveSession | None, seq: int) -> None:
        self.index = index
        self.watched = watched
        self.live = live
        self.seq = seq
        self.reader: TerminalReader | None = None
        self.prelude = b""
        self.sized = False
        self.size = live.size if live else None
        self.terminal_from: int | None = None
        self.waits_until = 0.0
        """Until when a session that nobody follows yet is waited for."""

    @property
    def full(self) -> bool:
        """Whether enough waits for a frame of its own."""
        ready = 0 if self.live is None or self.reader is None else self.live.offset - self.reader.offset
        return ready >= ENOUGH and self.reader is not None and self.reader.room >= ENOUGH

    def join(self, live: LiveSession, wake: Callable[[], None]) -> None:
        """Read the session's output from where the client wants it."""
        self.live, self.size = live, live.size
        self.reader, self.prelude = live.join(wake, self.terminal_from)


class _Connection:
    """One client."""

    def __init__(
        self,
        socket: WebSocket[Any, Any, Any],
        caller: Caller,
        access: SessionAccess,
        tokens: RunnerTokens,
    ) -> None:
        self._socket = socket
        self._caller = caller
        self._access = access
        self._tokens = tokens
        offered: list[str] = cast("Any", socket.scope)["subprotocols"]
        self._binary = offered[:1] == [BINARY_PROTOCOL]
        self._viewer = new_id("view", utc_now())
        self._subscriptions: dict[str, _Subscription] = {}
        self._indices = 0
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Serve the client until it leaves."""
        await self._socket.accept()
        sending = asyncio.create_task(self._send_forever(), name="runner stream")
        receiving = asyncio.create_task(self._receive_forever())
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, receiving):
                task.cancel()
            done = await asyncio.gather(sending, receiving, return_exceptions=True)
            for session_id in list(self._subscriptions):
                with contextlib.suppress(CoilclawError):  # the session may be over
                    await self._drop(session_id)
        for error in done:
            if isinstance(error, Exception) and not isinstance(error, OSError):  # an OSError: the client left
                raise error

    # Messages of the client

    async def _receive_forever(self) -> None:
        while True:
            message = cast("Any", await self._socket.receive())
            if message["type"] == "websocket.disconnect":
                return
            if message["type"] != "websocket.receive":
                continue
            try:
                await self._follow(message.get("text"), message.get("bytes"))
            except CoilclawError as error:
                await self._tell_error(error)

    async def _follow(self, text: str | None, data: bytes | None) -> None:
        if data is not None:
            await self._type_bytes(data)
            return
        try:
            asked = _MESSAGE.decode((text or "").encode("utf-8", "surrogatepass"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise _Refused(
                "BAD_MESSAGE", "this is not a message of the stream.", remedy="See docs/runner.md."
            ) from None
        if isinstance(asked, Subscribe):
            await self._subscribe(asked)
        elif isinstance(asked, Renew):
            renewed = await self._tokens.renew(self._caller)
            await self._tell({"type": "renewed", "expires_at": renewed.expires_at})
        elif isinstance(asked, Unsubscribe):
            self._subscription(asked.session_id)
            await self._drop(asked.session_id)
            await self._tell({"type": "unsubscribed", "session_id": asked.session_id, "reason": "asked"})
        elif isinstance(asked, Ack):
            self._acknowledge(asked)
        elif isinstance(asked, Input):
            await self._type(self._subscription(asked.session_id), asked.data.encode("utf-8", "replace"))
        else:
            await self._resize(asked)

    async def _subscribe(self, asked: Subscribe) -> None:
        await self._drop(asked.session_id)
        if len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            raise _Refused("TOO_MANY", f"a stream follows {MOST_SUBSCRIPTIONS} sessions.", remedy="Open another.")
        watched = self._access.find(asked.session_id)
        if watched is None or not self._caller.sees(watched.org_id, watched.repo_id, watched.session_id):
            raise _Refused("NOT_FOUND", "there is no such session.", remedy="See GET /runner/v1/sessions.")
        live = self._access.live(asked.session_id)
        after = watched.seq if asked.after_seq is None else max(0, asked.after_seq)
        self._indices += 1
        mine = _Subscription(self._indices, watched, live, min(after, watched.seq))
        mine.terminal_from = asked.terminal_from
        if live is not None:
            mine.join(live, self._woken.set)
        elif watched.state not in ENDED:
            mine.waits_until = asyncio.get_running_loop().time() + FOLLOW_SECONDS
        self._subscriptions[asked.session_id] = mine
        await self._tell(
            {
                "type": "subscribed",
                "session_id": watched.session_id,
                "index": mine.index,
                "org_id": watched.org_id,
                "repo_ref": watched.repo_ref,
                "state": watched.state,
                "rows": watched.rows,
                "columns": watched.columns,
                "seq": mine.seq,
                "terminal_from": mine.reader.offset if mine.reader else None,
                "drives": self._caller.drives,
            }
        )
        self._woken.set()
        if mine.prelude and live is not None and live.may_redraw():
            await self._access.redraw(asked.session_id)

    async def _drop(self, session_id: str) -> None:
        mine = self._subscriptions.pop(session_id, None)
        if mine is None:
            return
        if mine.live is not None and mine.reader is not None:
            mine.live.leave(mine.reader)
        if mine.sized:
            await self._access.resize(session_id, self._viewer, 0, 0)

    def _acknowledge(self, asked: Ack) -> None:
        mine = self._subscriptions.get(asked.session_id)  # one that was just dropped may still be acknowledged
        if mine is not None and mine.reader is not None:
            mine.reader.ack(asked.offset)
            self._woken.set()

    async def _type(self, mine: _Subscription, data: bytes) -> None:
        self._caller.must_drive()
        await self._access.send(mine.watched.session_id, data)

    async def _type_bytes(self, data: bytes) -> None:
        if self._binary and len(data) >= _INPUT.size and data[0] == TYPED:
            _, index = _INPUT.unpack_from(data)
            for mine in self._subscriptions.values():
                if mine.index == index:
                    await self._type(mine, data[_INPUT.size :])
                    return
        raise _Refused("BAD_MESSAGE", "this is not a frame of the stream.", remedy="See docs/runner.md.")

    async def _resize(self, asked: Resize) -> None:
        mine = self._subscription(asked.session_id)
        self._caller.must_drive()
        if not (0 < asked.rows <= LARGEST_SIDE and 0 < asked.columns <= LARGEST_SIDE):
            raise _Refused("BAD_SIZE", "no terminal has that size.", remedy=f"Send 1 to {LARGEST_SIDE} each.")
        mine.sized = True
        await self._access.resize(asked.session_id, self._viewer, asked.rows, asked.columns)

    def _subscription(self, session_id: str) -> _Subscription:
        mine = self._subscriptions.get(session_id)
        if mine is None:
            raise _Refused("NOT_SUBSCRIBED", "this stream does not follow that session.", remedy="Subscribe first.")
        return mine

    # Messages to the client

    async def _send_forever(self) -> None:
        loop = asyncio.get_running_loop()
        sent = 0.0
        while True:
            await self._woken.wait()
            if sent + COALESCE_SECONDS > loop.time():  # the first output goes at once
                await self._gather(sent + COALESCE_SECONDS)
            self._woken.clear()
            while await self._send_round():
                pass
            sent = loop.time()

    async def _gather(self, until: float) -> None:
        """Let what follows closely be sent together, until there is enough for a frame."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while not any(mine.full for mine in self._subscriptions.values()):
                    self._woken.clear()
                    await self._woken.wait()

    async def _send_round(self) -> bool:
        """One frame for each session that has one; True if more is waiting."""
        more = False
        for mine in list(self._subscriptions.values()):
            await self._send_size(mine)
            more = await self._send_events(mine) or more
            more = await self._send_output(mine) or more
            if mine.live is None:
                more = await self._wait_for_live(mine) or more
            elif mine.live.ended and mine.reader and mine.reader.offset >= mine.live.offset:
                await self._finish(mine)
        return more

    async def _wait_for_live(self, mine: _Subscription) -> bool:
        """Join a session that is followed by now, or look again soon; True if it has output to send."""
        loop, session_id = asyncio.get_running_loop(), mine.watched.session_id
        if live := self._access.live(session_id):
            mine.join(live, self._woken.set)
            return True
        now = self._access.find(session_id)
        if now is not None and (now.state in BEGINNING or (now.state not in ENDED and loop.time() < mine.waits_until)):
            loop.call_later(FOLLOW_LOOK_SECONDS, self._woken.set)
        else:
            await self._finish(mine)
        return False

    async def _send_size(self, mine: _Subscription) -> None:
        if mine.live is None or mine.live.size is None or mine.live.size == mine.size:
            return
        mine.size = rows, columns = mine.live.size
        told = {"type": "resized", "session_id": mine.watched.session_id, "rows": rows, "columns": columns}
        await self._tell(told)

    async def _send_events(self, mine: _Subscription) -> bool:
        found = None if mine.live is None else mine.live.events_after(mine.seq)
        if found is None:
            found = self._access.events(mine.watched.session_id, mine.seq, EVENTS_AT_ONCE)
        for event in found[:EVENTS_AT_ONCE]:
            await self._socket.send_text(event.wire().decode())
            mine.seq = event.seq
        return len(found) >= EVENTS_AT_ONCE

    async def _send_output(self, mine: _Subscription) -> bool:
        if mine.live is None or mine.reader is None:
            return False
        if mine.prelude:
            prelude, mine.prelude = mine.prelude, b""
            await self._put(mine, PRELUDE, mine.reader.offset, prelude)
        chunk = mine.live.take(mine.reader)
        if chunk is None:
            return False
        if chunk.missed:
            await self._say_missed(mine, chunk)
            return False
        await self._put(mine, OUTPUT, chunk.offset, chunk.data)
        return len(chunk.data) >= ENOUGH

    async def _say_missed(self, mine: _Subscription, chunk: Chunk) -> None:
        first = chunk.offset - chunk.missed
        await self._tell({"type": "gap", "session_id": mine.watched.session_id, "first": first, "last": chunk.offset})
        await self._put(mine, PRELUDE, chunk.offset, chunk.data)
        if mine.live is not None and mine.live.may_redraw():
            await self._access.redraw(mine.watched.session_id)

    async def _put(self, mine: _Subscription, kind: int, offset: int, data: bytes) -> None:
        if self._binary:
            await self._socket.send_bytes(_FRAME.pack(kind, mine.index, offset) + data)
            return
        for frame in _json_frames(mine, kind, offset, data):
            await self._socket.send_text(frame)

    async def _finish(self, mine: _Subscription) -> None:
        """Everything was sent, and the session is over or not followed now: a server that stops leaves it running."""
        session_id = mine.watched.session_id
        if self._subscriptions.get(session_id) is not mine or await self._send_events(mine):
            return
        await self._drop(session_id)
        now = self._access.find(session_id)
        over = now is None or now.state in ENDED
        reason = "ended" if over else "unfollowed"
        await self._tell({"type": "unsubscribed", "session_id": session_id, "reason": reason})

    async def _tell(self, message: dict[str, Any]) -> None:
        await self._socket.send_text(msgspec.json.encode(message).decode())

    async def _tell_error(self, error: CoilclawError) -> None:
        told = problem_of(error)
        code = error.code if isinstance(error, _Refused) else told.code
        await self._tell({"type": "error", "code": code, "detail": told.detail, "remedy": told.remedy})


def _json_frames(mine: _Subscription, kind: int, offset: int, data: bytes) -> Iterator[str]:
    """Output as JSON; what escaping makes too large for one frame is halved."""
    watched, next_offset = mine.watched, offset + (len(data) if kind == OUTPUT else 0)
    chunk: dict[str, Json] = {"offset": offset, "next": next_offset, "data": data.decode("utf-8", "replace")}
    now = int(utc_now().timestamp() * 1000)
    event = SessionEvent(
        type="TERMINAL_CHUNK",
        session_id=watched.session_id,
        org_id=watched.org_id,
        repo_ref=watched.repo_ref,
        ts=now,
        seq=mine.seq,
        data=chunk,
    )
    frame = event.wire().decode()
    if len(frame) <= LARGEST_CHUNK or len(data) < 1024:
        yield frame
        return
    half = len(data) // 2
    while half < len(data) and 0x80 <= data[half] < 0xC0:
        half += 1
    yield from _json_frames(mine, kind, offset, data[:half])
    yield from _json_frames(mine, kind, offset + half if kind == OUTPUT else offset, data[half:])
