"""Real servers on loopback, scripted name service, and an airlock with its log at hand."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from coilclaw.airlock import Airlock, EgressLine, Listing
from coilclaw.packets.errors import EgressRefused, TransportError
from coilclaw.packets.http import HttpRequest, HttpResponse, Principal
from coilclaw.packets.ids import utc_now

Handler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A real server that answers every connection with one handler and remembers what it was asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[bytes] = []

    def url(self, path: str = "/", host: str = "a.localhost", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(
    handler: Handler | bytes, address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    async def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            seen.requests.append(head)
            if isinstance(handler, bytes):
                writer.write(handler)
                await writer.drain()
            else:
                await handler(head, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(on_connect, address, port, ssl=tls)
    seen = Server(server.sockets[0].getsockname()[1])
    try:
        yield seen
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.01)  # let aborted connections end before the loop does


def answer(body: bytes = b"ok", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def redirect(to: str, status: str = "302 Found") -> bytes:
    return answer(b"", status, f"Location: {to}")


class Resolver:
    """Scripted answers in turn; the last repeats."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Lock:
    """An airlock with its log at hand."""

    def __init__(self, *places: str, **options: object) -> None:
        self.lines: list[EgressLine] = []
        self.resolve = Resolver(["127.0.0.1"])
        listing = Listing.build(allowed_domains=places, providers=places)
        settings = {"log": self.lines.append, "clock": utc_now, "resolve": self.resolve, **options}
        self.airlock = Airlock(settings.pop("listing", listing), **settings)

    async def get(self, url: str, principal: Principal = "http", **fields: object) -> HttpResponse:
        request = HttpRequest(principal=principal, method="GET", url=url, **{"timeout_seconds": 10.0, **fields})
        return await self.airlock.send(request)

    @property
    def codes(self) -> list[str]:
        return [line.code for line in self.lines]


async def refused(lock: Lock, url: str, **fields: object) -> str:
    with pytest.raises(EgressRefused) as caught:
        await lock.get(url, **fields)
    return caught.value.code


async def failed(lock: Lock, url: str, **fields: object) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await lock.get(url, **fields)
    return caught.value
