"""The protocol's official SDK as our client, over stdio and over HTTP."""

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.features.mcp_server.clients import COILCLAW, environ_of, offering
from tests.features.mcp_server.test_http import site_of

pytestmark = pytest.mark.slow

OFFERED = ("file_read", "file_write", "notes_write")


async def use(client, home):
    """What a client does in its first minute."""
    assert client.server_info.name == "coilclaw"
    assert client.protocol_version == "2025-11-25"
    assert client.server_capabilities.resources is None
    listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == ["action_status", *OFFERED]
    (home.workspace / "a.md").write_text("mine")
    read = await client.call_tool("file_read", {"path": "a.md"})
    assert "mine" in read.content[0].text
    assert (read.is_error, read.meta["coilclaw/label"]) == (False, "owner")
    waits = await client.call_tool("file_write", {"path": "b.md", "content": "theirs"})
    action_id = waits.meta["coilclaw/action_id"]
    assert waits.content[0].text.startswith(f"Waits for the owner: {action_id}")
    await home.approve(action_id)
    done = await client.call_tool("action_status", {"action_id": action_id})
    assert (done.is_error, done.meta["coilclaw/status"]) == (False, "executed")
    back = await client.call_tool("file_read", {"path": "b.md"})
    assert back.meta["coilclaw/label"] == "untrusted:mcp"
    denied = await client.call_tool("shell", {"command": "ls"})
    assert denied.is_error
    assert "mcp.serve.tools" in denied.content[0].text
    with pytest.raises(MCPError):
        await client.list_resources()


async def test_the_official_client_over_stdio(sample):
    home = offering(sample(), *OFFERED)
    (home.folder / "user").mkdir(exist_ok=True)
    environ = environ_of(home, COILCLAW_MCP_SERVE_TOOLS='["file_read", "file_write", "notes_write"]')
    server = StdioServerParameters(command=COILCLAW, args=["mcp", "serve"], env=environ, cwd=home.folder)
    async with Client(server) as client:
        await use(client, home)


async def test_the_official_client_over_http(sample):
    home = offering(sample(), *OFFERED)
    async with site_of(home) as site:
        headers = {"Authorization": f"Bearer {site.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=280, trust_env=False) as http:
            async with Client(streamable_http_client(f"{site.origin}/mcp", http_client=http)) as client:
                await use(client, home)
            assert not site.serving.runtime.background.here
