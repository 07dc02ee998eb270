"""Our MCP client as the conformance suite runs it: the address of its server is the last argument."""

import asyncio
import os
import sys

from coilclaw.features.guests import mcp_client
from coilclaw.features.guests.mcp_http import HttpWire
from tests.features.guests.http_harness import airlock

CALLS = {"tools_call": ("add_numbers", {"a": 5, "b": 3}), "sse-retry": ("test_reconnection", {})}


async def main(url: str, scenario: str) -> None:
    if scenario == "sse-retry":  # its server speaks a version that we refuse, though what it tests is newer
        mcp_client.PROTOCOLS = (*mcp_client.PROTOCOLS, "2025-03-26")
    client = mcp_client.McpClient(HttpWire(airlock([], url), url, listens=True), seconds=60)
    await client.start()
    await client.list_tools()
    if scenario in CALLS:
        name, arguments = CALLS[scenario]
        sys.stdout.write((await client.call(name, arguments, seconds=60)).text + "\n")
    await client.close()


asyncio.run(main(sys.argv[-1], os.environ["MCP_CONFORMANCE_SCENARIO"]))
