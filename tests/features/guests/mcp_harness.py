"""A scripted MCP server behind the fake box, and a client connected to it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from coilclaw.features.guests.mcp_client import McpClient
from coilclaw.features.guests.mcp_stdio import StdioWire
from coilclaw.packets.box import BoxSpec
from coilclaw.sandbox.fake_box import FakeBox, FakeOpenBox

PATIENT = 280.0
INFO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "scripted", "version": "1"},
    "instructions": "Be nice.",
}
ECHO: dict[str, Any] = {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}}


def answer(number: object, result: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()


def error(number: object, code: int, message: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}).encode()


def notification(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}).encode()


def said(text: str) -> dict[str, object]:
    return {"content": [{"type": "text", "text": text}]}


Reaction = Callable[[dict[str, Any]], Iterable[bytes]]


class Scripted:
    """Answers initialize, lists and pings like anybody; other reactions are given by method."""

    def __init__(self, **reactions: Reaction) -> None:
        """Names are methods, with __ for the slash."""
        self.heard: list[dict[str, Any]] = []
        self.reactions: dict[str, Reaction] = {
            "initialize": lambda message: [answer(message["id"], INFO)],
            "tools/list": lambda message: [answer(message["id"], {"tools": [ECHO]})],
            "ping": lambda message: [answer(message["id"], {})],
            **{name.replace("__", "/"): reaction for name, reaction in reactions.items()},
        }
        self._arrived = asyncio.Event()

    def reply(self, line: bytes) -> Iterable[bytes]:
        message = json.loads(line)
        self.heard.append(message)
        self._arrived.set()
        reaction = self.reactions.get(message.get("method", ""))
        return () if reaction is None else reaction(message)

    def methods(self) -> list[str]:
        return [message.get("method", "") for message in self.heard]

    async def until(self, there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message it heard that fits, once there is one."""
        async with asyncio.timeout(PATIENT):
            while True:
                for message in self.heard:
                    if there(message):
                        return message
                self._arrived.clear()
                await self._arrived.wait()

    async def until_method(self, method: str) -> dict[str, Any]:
        return await self.until(lambda message: message.get("method") == method)


class Connected:
    """A client, its server and the box between them."""

    def __init__(self, client: McpClient, server: Scripted, box: FakeOpenBox) -> None:
        self.client = client
        self.server = server
        self.box = box

    def push(self, *lines: bytes) -> None:
        """Lines that nobody asked for."""
        for line in lines:
            self.box._lines.put_nowait(line)

    async def call(self, name: str = "echo", seconds: float = PATIENT, **arguments: object) -> Any:
        return await self.client.call(name, arguments, seconds=seconds)


@asynccontextmanager
async def connected(*, start: bool = True, **reactions: Reaction) -> AsyncIterator[Connected]:
    server = Scripted(**reactions)
    spec = BoxSpec(command="server", workspace="/w", cwd="/w")
    box = await FakeBox(reply=server.reply).open(spec, stopped=asyncio.Event().wait)
    client = McpClient(StdioWire(box), seconds=PATIENT)
    try:
        if start:
            await client.start()
        yield Connected(client, server, box)
    finally:
        await client.close()
