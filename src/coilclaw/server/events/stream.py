"""Streams: open connections that events are sent on, so many at most, each ended when its device may no longer come in.

A stream first says hello, then what its reader missed, then what happens. It is an answer of its own rather than a
generator: it must notice a reader who is gone, one who no longer takes anything, and the end of the server, each at
once and without waiting for the next event.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from coilclaw.server.entry.caller import Caller
from coilclaw.server.events.feed import Feed, gap_ahead
from coilclaw.server.events.reader import Reader
from coilclaw.server.events.stream_messages import MEDIA_TYPE
from coilclaw.server.problems import Trouble

CHECK_SECONDS = 0.5


class Line(Protocol):
    """The connection under a stream, where the listener offers it (slow.py)."""

    on_shutdown: Callable[[], None] | None

    def abort(self) -> None:
        """Drop the connection, sent or not."""
        ...


class Streams:
    """All open streams of a server."""

    def __init__(
        self,
        feed: Feed,
        *,
        still_valid: Callable[[Caller], bool],
        most: int,
        heartbeat_seconds: float = 15.0,
        stuck_seconds: float = 30.0,
    ) -> None:
        self.feed = feed
        self.heartbeat_seconds = heartbeat_seconds
        self.stuck_seconds = stuck_seconds
        self._still_valid = still_valid
        self._most = most
        # One device cannot keep all the others out.
        self._most_of_one = max(1, most * 5 // 6)
        self._open: dict[Reader, Caller] = {}
        self._by_device: Counter[str] = Counter()
        self._checking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def room_for(self, caller: Caller) -> None:
        """An error when there are too many."""
        if len(self._open) >= self._most or self._by_device[caller.device_id] >= self._most_of_one:
            raise Trouble(
                503,
                "TOO_MANY_STREAMS",
                "too many event streams are open.",
                remedy="Close some, or raise `max_streams` in [server].",
                headers={"Retry-After": "5"},
            )

    def add(self, reader: Reader, caller: Caller) -> None:
        """Count a stream, and look after its device's right to be here."""
        self._open[reader] = caller
        self._by_device[caller.device_id] += 1
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_forever(), name="streams")

    def remove(self, reader: Reader) -> None:
        """A stream is over."""
        caller = self._open.pop(reader, None)
        if caller is None:
            return
        self._by_device[caller.device_id] -= 1
        if not self._by_device[caller.device_id]:
            del self._by_device[caller.device_id]
        if not self._open and self._checking is not None:
            self._checking.cancel()
            self._checking = None

    def check(self) -> None:
        """End the streams of devices that were revoked and of tokens that are over."""
        good: dict[str, bool] = {}
        for reader, caller in self._open.items():
            if caller.token_id not in good:
                good[caller.token_id] = self._holds(caller)
            if not good[caller.token_id]:
                reader.end("revoked")

    def _holds(self, caller: Caller) -> bool:
        try:
            return self._still_valid(caller)
        except Exception:  # fail closed: who cannot be vouched for comes in again by the door
            return False

    async def _check_forever(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check()


class EventStream(Response[str]):
    """The answer that a stream is."""

    def __init__(self, streams: Streams, reader: Reader, caller: Caller, *, fresh: bool, follow: bool) -> None:
        super().__init__("", media_type=MEDIA_TYPE, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self._stream = (streams, reader, caller, fresh, follow)

    def to_asgi_response(self, app: Any, request: Any, **kept: Any) -> ASGIResponse:
        """Litestar's hook: what is sent is up to us."""
        streams, reader, caller, fresh, follow = self._stream
        headers: Iterable[tuple[str, str]] = self.headers.items()
        return _Sending(streams, reader, caller, fresh=fresh, follow=follow, headers=headers)


class _Sending(ASGIResponse):
    """One stream from hello to its end."""

    __slots__ = ("_caller", "_feed", "_follow", "_fresh", "_reader", "_send", "_streams")
    _should_set_content_length = False

    def __init__(
        self,
        streams: Streams,
        reader: Reader,
        caller: Caller,
        *,
        fresh: bool,
        follow: bool,
        headers: Iterable[tuple[str, str]],
    ) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers=headers)
        self._streams = streams
        self._feed = streams.feed
        self._reader = reader
        self._caller = caller
        self._fresh = fresh
        self._follow = follow
        self._send: Send | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        line: Line | None = cast("dict[str, Any]", scope).get("state", {}).get("line")
        reader = self._reader
        self._send = send
        self._streams.add(reader, self._caller)
        gone = asyncio.create_task(self._until_gone(receive))
        if line is not None:
            line.on_shutdown = lambda: reader.end("over")
        try:
            await self.start_response(send)
            await self._tell()
            await self._put(b"", more=False)
        except TimeoutError:  # it takes nothing any more; what it has not taken by now is of no use to it
            if line is not None:
                line.abort()
        finally:
            if line is not None:
                line.on_shutdown = None
            self._feed.leave(reader)
            self._streams.remove(reader)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        self._reader.end("gone")

    async def _put(self, piece: bytes, *, more: bool = True) -> None:
        assert self._send is not None  # noqa: S101
        async with asyncio.timeout(self._streams.stuck_seconds):
            await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    async def _tell(self) -> None:
        await self._catch_up()
        reader = self._reader
        while not reader.ending:
            piece = reader.take()
            if piece:
                await self._put(piece)
            elif not self._follow:
                return
            elif not await reader.wait(self._streams.heartbeat_seconds):
                await self._put(b":\nid: %d\n\n" % self._feed.position(reader))

    async def _catch_up(self) -> None:
        """Hello, then everything up to where the feed goes on by itself."""
        reader, feed = self._reader, self._feed
        newest = feed.newest()
        if self._fresh:
            reader.seq = newest
        await self._put(feed.hello(reader.seq))
        if reader.seq > newest:
            await self._put(gap_ahead(reader.seq, newest))
            reader.seq = newest
        while not reader.ending and not feed.join(reader):
            async with feed.catching_up:
                piece = feed.older(reader)
                await asyncio.sleep(0)
            await self._put(piece)
