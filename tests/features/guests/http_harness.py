"""A scripted MCP server over real HTTP on loopback, and a client that reaches it through a real airlock."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from coilclaw.airlock import Airlock, EgressLine, Listing
from coilclaw.features.guests.mcp_client import McpClient
from coilclaw.features.guests.mcp_http import HttpWire
from coilclaw.packets.ids import utc_now
from tests.features.guests.mcp_harness import ECHO, INFO, PATIENT, answer, said


class Asked:
    """One request that arrived, and the ways to answer it."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter):
        self.method = method
        self.path = path
        self.headers = headers
        self.message: dict[str, Any] = json.loads(body) if body else {}
        self.writer = writer

    @property
    def name(self) -> str:
        """The JSON-RPC method, or the HTTP method of a request without a message."""
        return str(self.message.get("method", self.method))

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    def send_json(self, result: object, **headers: str) -> None:
        self.send(200, answer(self.message["id"], result), Content_Type="application/json", **headers)

    def open_events(self, **headers: str) -> None:
        """An event stream that ends when the connection does."""
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())

    def send_event(self, data: bytes, event_id: str = "", retry: int | None = None) -> None:
        head = (f"id: {event_id}\n" if event_id else "") + (f"retry: {retry}\n" if retry is not None else "")
        self.writer.write(head.encode() + b"data: " + data + b"\n\n")


Reaction = Callable[[Asked], Awaitable[None]]


class HttpServer:
    """Opens sessions, lists one tool and echoes; other reactions are given by method."""

    def __init__(self, reactions: dict[str, Reaction]) -> None:
        self.asked: list[Asked] = []
        self.sessions = 0
        self.session = ""
        self.port = 0
        self._reactions = reactions

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def names(self) -> list[str]:
        return [asked.name for asked in self.asked]

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, path, _ = head[0].split(" ")
            asked = Asked(method, path, headers, body, writer)
            self.asked.append(asked)
            await (self._reactions.get(asked.name) or self.react)(asked)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def react(self, asked: Asked) -> None:
        """What a server does that is not scripted."""
        if asked.name == "initialize":
            self.sessions += 1
            self.session = f"session-{self.sessions}"
            asked.send_json(INFO, Mcp_Session_Id=self.session)
        elif asked.name == "DELETE":
            asked.send(200)
        elif asked.headers.get("mcp-session-id", "") != self.session:
            asked.send(404)
        elif asked.name == "tools/list":
            asked.send_json({"tools": [ECHO]})
        elif asked.name == "tools/call":
            asked.send_json(said(json.dumps(asked.message["params"]["arguments"])))
        elif "id" in asked.message and "method" in asked.message:
            asked.send_json({})
        else:
            asked.send(202)


class Reached:
    """A client, its server and the airlock's log."""

    def __init__(self, client: McpClient, server: HttpServer, log: list[EgressLine]) -> None:
        self.client = client
        self.server = server
        self.log = log

    async def call(self, seconds: float = PATIENT, **arguments: object) -> Any:
        return await self.client.call("echo", arguments, seconds=seconds)


def airlock(log: list[EgressLine], *urls: str) -> Airlock:
    """An airlock whose owner configured exactly these servers."""
    return Airlock(Listing.build(mcp=urls), log=log.append, clock=utc_now)


@asynccontextmanager
async def serving(reactions: dict[str, Reaction] | None = None) -> AsyncIterator[HttpServer]:
    server = HttpServer(reactions or {})
    listening = await asyncio.start_server(server.connect, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()
        await asyncio.sleep(0.01)  # let aborted connections end before the loop does


@asynccontextmanager
async def reached(
    reactions: dict[str, Reaction] | None = None, *, start: bool = True, **options: Any
) -> AsyncIterator[Reached]:
    log: list[EgressLine] = []
    async with serving(reactions) as server:
        client = McpClient(HttpWire(airlock(log, server.url), server.url, **options), seconds=PATIENT)
        try:
            if start:
                await client.start()
            yield Reached(client, server, log)
        finally:
            await client.close()
