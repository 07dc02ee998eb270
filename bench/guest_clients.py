"""Started by bench/guests.py: one MCP server started, listed and called once, by our client or by the SDK.

It prints what this process itself took: seconds of CPU, and its peak in KiB.
"""

import asyncio
import sys
import time
from pathlib import Path

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "bench", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": f"tool{n}", "description": "A tool.", "inputSchema": {"type": "object"}}
                            for n in range(13)]}
    elif asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "done"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def _never() -> None:
    await asyncio.Event().wait()


def _peak() -> int:
    """Of this program alone: what getrusage says begins with what the process that started it had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])


async def own(folder: str) -> str:
    """With the client of guests, in a box without walls, as the SDK starts programs."""
    from coilclaw.features.guests.mcp_client import McpClient
    from coilclaw.features.guests.mcp_stdio import StdioWire
    from coilclaw.packets.box import BoxLimits, BoxSpec
    from coilclaw.sandbox.box import open_box

    limits = BoxLimits(wall_seconds=None, cpu_seconds=None, address_space=False)
    argv = (sys.executable, "-I", "-c", SERVER)
    spec = BoxSpec(command=argv, workspace=folder, cwd=folder, limits=limits)
    box = await open_box(hide=(), unsafe=True).open(spec, stopped=_never)
    client = McpClient(StdioWire(box))
    try:
        await client.start()
        listed = await client.list_tools()
        return (await client.call(listed[0].name, {}, seconds=60)).text
    finally:
        await client.close()


async def sdk(_: str) -> str:
    """With the official client."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=sys.executable, args=["-I", "-c", SERVER])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        listed = await session.list_tools()
        result = await session.call_tool(listed.tools[0].name, {})
        return str(result.content[0].text)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


if __name__ == "__main__":
    said = asyncio.run({"own": own, "sdk": sdk}[sys.argv[1]](sys.argv[2]))
    sys.stdout.write(f"{said} {time.process_time()} {_peak()}\n")
