"""Clients of our MCP server: one in this process, one that starts the real executable, one over HTTP."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from coilclaw.config.mcp import McpServe
from coilclaw.features.mcp_server.rpc import RpcError, error_of, read_message
from coilclaw.features.mcp_server.session import McpSession
from coilclaw.features.mcp_server.slots import Slots
from coilclaw.packets.card import nobody

COILCLAW = str(Path(sys.executable).with_name("coilclaw"))
LATEST = "2025-11-25"
PATIENCE = 280
HELLO = {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}


def request(method, params=None, own=1):
    """A request as bytes."""
    told = {"jsonrpc": "2.0", "id": own, "method": method}
    return json.dumps(told if params is None else {**told, "params": params}).encode()


def notification(method, params=None):
    """A notification as bytes."""
    told = {"jsonrpc": "2.0", "method": method}
    return json.dumps(told if params is None else {**told, "params": params}).encode()


def call(tool, args=None, own=1):
    """A call of a tool as bytes."""
    return request("tools/call", {"name": tool, "arguments": args or {}}, own)


def text_of(result):
    """The words of a result."""
    (content,) = result["content"]
    assert content["type"] == "text"
    return content["text"]


def offering(sample, *tools):
    """Have a home offer these tools and no others."""
    serve = McpServe(tools=tools)
    sample.app.config = msgspec.structs.replace(
        sample.app.config, mcp=msgspec.structs.replace(sample.app.config.mcp, serve=serve)
    )
    return sample


class Here:
    """A session in this process, over the real gate."""

    def __init__(self, sample, slots=None):
        self.sample = sample
        self.session = McpSession(sample.app, sample.app.conveyor(nobody), slots or Slots())
        self._number = 0

    async def send(self, data):
        try:
            answer = await self.session.answer(read_message(data))
        except RpcError as error:
            answer = error_of(error)
        return None if answer is None else json.loads(answer)

    async def ask(self, method, params=None):
        self._number += 1
        return await self.send(request(method, params, self._number))

    async def call(self, tool, **args):
        answer = await self.ask("tools/call", {"name": tool, "arguments": args})
        return answer["result"]

    async def status(self, result):
        return await self.call("action_status", action_id=result["_meta"]["coilclaw/action_id"])


async def here(sample, slots=None):
    """A session that has introduced itself."""
    made = Here(sample, slots)
    await made.ask("initialize", HELLO)
    return made


class Stdio:
    """The real executable as its client sees it."""

    def __init__(self, process):
        self.process = process

    def write(self, *messages):
        self.process.stdin.write(b"".join(each + b"\n" for each in messages))

    async def read(self):
        line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
        assert line, (await self.process.stderr.read()).decode()
        return json.loads(line)

    async def ask(self, message):
        self.write(message)
        return await self.read()

    async def end(self):
        """Close our side and wait for theirs: its exit code and what it still said."""
        self.process.stdin.close()
        out = await asyncio.wait_for(self.process.stdout.read(), PATIENCE)
        return await asyncio.wait_for(self.process.wait(), PATIENCE), out


def environ_of(sample, **more):
    """The environment in which the executable uses this home."""
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": str(sample.folder / "user"),
        "COILCLAW_HOME": str(sample.home.root),
        **more,
    }


@asynccontextmanager
async def stdio(sample, *, introduced=True, **more):
    """Start `coilclaw mcp serve` on this home."""
    (sample.folder / "user").mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        COILCLAW,
        "mcp",
        "serve",
        env=environ_of(sample, **more),
        cwd=sample.folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=16 << 20,
    )
    keep = asyncio.ensure_future(process.stderr.read())
    client = Stdio(process)
    client.stderr = keep
    try:
        if introduced:
            await client.ask(request("initialize", HELLO, "hello"))
            client.write(notification("notifications/initialized"))
        yield client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await keep
