"""One HTTP/1.1 request and its response on one connection, with every wait under the deadline.

It uses only h11, the parser below httpcore: httpcore's asyncio side needs anyio and costs five times the import.
"""

from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from coilclaw.airlock.url import Target
from coilclaw.packets.errors import EgressRefused, TransportError

if TYPE_CHECKING:
    import asyncio

    import h11

HEADER_BYTES = 64 << 10
_READ = 1 << 16
_MAX_INFORMATIONAL = 8


class Wire:
    """A connection for a single request."""

    def __init__(
        self,
        target: Target,
        streams: "tuple[asyncio.StreamReader, asyncio.StreamWriter]",
        *,
        deadline: float,
        read_seconds: float,
        max_bytes: int,
    ) -> None:
        import h11

        self._target = target
        self._reader, self._writer = streams
        self._deadline = deadline
        self._read_seconds = read_seconds
        # Chunk framing can outweigh its content; no honest server spends eight bytes for one.
        self._allowance = HEADER_BYTES * 2 + 8 * max_bytes
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEADER_BYTES)
        self.sent = False
        """Whether any byte of the request can have left."""

    async def send(self, method: str, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """Put the request on the wire."""
        import h11

        try:
            data = self._h11.send(h11.Request(method=method, target=self._target.path, headers=list(headers))) or b""
            data += (self._h11.send(h11.Data(data=body)) or b"") if body else b""
            data += self._h11.send(h11.EndOfMessage()) or b""
        except (h11.LocalProtocolError, UnicodeEncodeError) as error:
            raise EgressRefused(
                "The request is not valid HTTP.", code="BAD_REQUEST", remedy="Use plain ASCII header names and values."
            ) from error
        self.sent = True
        with self._faults():
            async with self._bounded():
                self._writer.write(data)
                with suppress(ConnectionError):  # a server may respond, and hang up, before it has read everything
                    await self._writer.drain()

    async def head(self) -> tuple[int, tuple[tuple[str, str], ...]]:
        """Status and headers of the response."""
        import h11

        for _ in range(_MAX_INFORMATIONAL):
            event = await self._event()
            if isinstance(event, h11.Response):
                return event.status_code, tuple((n.decode("ascii"), v.decode("latin-1")) for n, v in event.headers)
            if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
                break
        raise self._broken("did not answer with a response")

    async def body(self) -> AsyncIterator[bytes]:
        """The raw body, piece by piece."""
        import h11

        while isinstance(event := await self._event(), h11.Data):
            yield bytes(event.data)
        if not isinstance(event, h11.EndOfMessage):
            raise self._broken("broke off")

    async def close(self) -> None:
        """Close at once, without a graceful shutdown."""
        import asyncio

        self._writer.transport.abort()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.wait_closed()

    async def _event(self) -> "h11.Event | type[h11.PAUSED]":
        import h11

        with self._faults():
            while (event := self._h11.next_event()) is h11.NEED_DATA:
                async with self._bounded():
                    data = await self._reader.read(_READ)
                self._allowance -= len(data)
                if self._allowance < 0:
                    raise self._broken("sent more than was allowed")
                self._h11.receive_data(data)
            return event  # pyright: ignore[reportReturnType] next_event gives NEED_DATA, PAUSED or an event

    def _bounded(self) -> "asyncio.Timeout":
        import asyncio

        return asyncio.timeout_at(min(self._deadline, asyncio.get_running_loop().time() + self._read_seconds))

    @contextmanager
    def _faults(self) -> Generator[None]:
        import h11

        try:
            yield
        except TimeoutError as error:
            raise TransportError(
                f"{self._target.host} timed out.", sent=self.sent, timeout=True, remedy="Try again later."
            ) from error
        except h11.RemoteProtocolError as error:
            raise self._broken("did not speak HTTP/1.1, or its headers are too large") from error
        except OSError as error:
            raise self._broken("broke the connection") from error

    def _broken(self, what: str) -> TransportError:
        return TransportError(f"{self._target.host} {what}.", sent=self.sent, remedy="Try again later.")
