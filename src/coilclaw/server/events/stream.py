"""Streams: open connections for events, limited in number, each closed when its device loses access.

A stream first sends hello, then what its reader missed, then new events. It is its own response class rather than a
generator: it must notice a reader that is gone, one that no longer reads, and the server's shutdown, each at
once and without waiting for the next event.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from coilclaw.server.door.caller import Caller
from coilclaw.server.door.open_connections import OpenConnections
from coilclaw.server.events.feed import Feed, gap_ahead
from coilclaw.server.events.reader import Reader
from coilclaw.server.events.stream_messages import MEDIA_TYPE
from coilclaw.server.problems import Trouble

if TYPE_CHECKING:
    from coilclaw.server.door.slow_clients import Line


class Streams(OpenConnections[Reader]):
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
        super().__init__(
            still_valid=still_valid,
            most=most,
            end=lambda reader: reader.end("revoked"),
            full=lambda: Trouble(
                503,
                "TOO_MANY_STREAMS",
                "too many event streams are open.",
                remedy="Close some, or run `coilclaw config set server.max_streams NUMBER`.",
                headers={"Retry-After": "5"},
            ),
        )
        self.feed = feed
        self.heartbeat_seconds = heartbeat_seconds
        self.stuck_seconds = stuck_seconds


class EventStream(Response[str]):
    """The response of a stream."""

    def __init__(self, streams: Streams, reader: Reader, caller: Caller, *, fresh: bool, follow: bool) -> None:
        super().__init__("", media_type=MEDIA_TYPE, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self._stream = (streams, reader, caller, fresh, follow)

    def to_asgi_response(self, app: Any, request: Any, **kept: Any) -> ASGIResponse:
        """Litestar's hook for a custom response."""
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
        except TimeoutError:  # it no longer reads; drop what it has not read
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
        """Hello, then everything up to where the feed takes over."""
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
