"""`[mcp.serve] tools`: what can be offered, and what is said about the rest."""

import pytest

from coilclaw.config import Home, load
from coilclaw.config.forge import Forge
from coilclaw.config.google import Google
from coilclaw.config.mcp import NEVER_OFFERED, McpServe
from coilclaw.gate.callers import is_runtime_only
from coilclaw.packets.errors import ConfigError
from tests.features.mcp_server.clients import offering


def loaded(tmp_path, text):
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.config_file.write_text(text)
    return load(home, {"HOME": str(tmp_path)}).config


def test_the_default_is_reads_and_notes(sample):
    home = sample()
    tools = [home.app.tools[name] for name in McpServe().tools]
    assert {tool.name for tool in tools if tool.effect != "READ"} == {"notes_write"}
    assert {tool.destination for tool in tools} == {"workspace", "internal"}


def test_every_tool_that_decides_for_the_owner_is_named(sample):
    """A new tool of the runtime, or of the owner's accounts, must be added to NEVER_OFFERED: the configuration knows no
    tools."""
    tools = sample(google=Google(client_id="x"), forge=Forge(kind="github")).app.tools.values()
    assert {tool.name for tool in tools if is_runtime_only(tool) or tool.governs or tool.identities} == NEVER_OFFERED


@pytest.mark.parametrize("name", sorted(NEVER_OFFERED))
def test_what_decides_for_the_owner_cannot_be_offered(tmp_path, name):
    with pytest.raises(ConfigError, match=f"mcp.serve.tools.*{name} can never be offered"):
        loaded(tmp_path, f'[mcp.serve]\ntools = ["time", "{name}"]\n')


@pytest.mark.parametrize("text", ['tools = ["*"]', 'tools = "time"', "tools = [7]", 'tools = ["a b"]', "tool = []"])
def test_what_is_not_a_list_of_names_is_a_fault(tmp_path, text):
    with pytest.raises(ConfigError, match=r"mcp\.serve"):
        loaded(tmp_path, f"[mcp.serve]\n{text}\n")


def test_an_unknown_name_is_a_warning(sample):
    home = offering(sample(), "time", "file_raed")
    assert home.app.offered_tools == {"time", "file_raed"}
    (warning,) = [fields["message"] for event, fields in home.events if event == "warning"]
    assert warning.startswith("mcp.serve.tools: there is no tool file_raed. Did you mean file_read")


def test_offering_more_is_another_policy(sample):
    home = sample()
    before = home.app.policy().hash
    offering(home, "time")
    home.app.__dict__.pop("_config_hash"), home.app.__dict__.pop("offered_tools")
    assert home.app.policy().hash != before
