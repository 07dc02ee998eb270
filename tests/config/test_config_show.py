"""What is shown, what is hashed, and what is written down about every option."""

import json
import tomllib
from pathlib import Path

import pytest

from coilclaw.config import (
    Home,
    default_toml,
    docs_markdown,
    load,
    policy_inputs,
    secret_variables,
    show_config,
)
from coilclaw.config.options import options_of
from coilclaw.packets.canonical import canonical_bytes

ENVIRON = {"HOME": "/home/owner"}
REMOTE = """
[providers.models.local]
kind = "mock"
[providers.models.far]
kind = "openai-compatible"
model = "m"
base_url = "https://me:hunter2@example.com:8443/v1"
api_key_env = "FAR_KEY"
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "home"
    root.mkdir()
    return Home(root)


def test_what_is_shown_is_plain_json_and_holds_every_key(home: Home) -> None:
    shown = show_config(load(home, ENVIRON).config)
    assert json.loads(json.dumps(shown)) == shown
    for option in options_of():
        value: object = shown
        for name in option.path:
            assert isinstance(value, dict)
            value = value[name]


def test_origins_are_shown_when_asked_for(home: Home) -> None:
    shown = show_config(load(home, ENVIRON).config, load(home, ENVIRON).origins)
    assert json.loads(json.dumps(shown))["origins"]["security.autonomy"] == "default"


def test_no_secret_is_shown(home: Home) -> None:
    home.config_file.write_text(REMOTE)
    environ = ENVIRON | {"FAR_KEY": "sk-very-secret", "COILCLAW_OPENROUTER_API_KEY": "sk-other"}
    config = load(home, environ).config
    said = json.dumps(show_config(config, load(home, environ).origins))
    assert "https://***@example.com:8443/v1" in said
    for secret in ("hunter2", "me:", "sk-very-secret", "sk-other"):
        assert secret not in said
    assert '"FAR_KEY"' in said


def test_the_variables_that_hold_secrets_are_known_for_redaction(home: Home) -> None:
    home.config_file.write_text(REMOTE)
    assert secret_variables(load(home, ENVIRON).config) == (
        "COILCLAW_ENCRYPTION_KEY_B64",
        "COILCLAW_OPENROUTER_API_KEY",
        "FAR_KEY",
    )


def test_policy_inputs_change_with_what_decides_and_with_nothing_else(home: Home) -> None:
    def hashed(environ: dict[str, str]) -> bytes:
        return canonical_bytes(policy_inputs(load(home, ENVIRON | environ).config))

    plain = hashed({})
    assert plain == hashed({"COILCLAW_LOG_LEVEL": "debug", "COILCLAW_DEFAULT_MODEL": "x"})
    assert plain == hashed({"COILCLAW_SECURITY_FORBIDDEN_COMMANDS": "dd,rm,shutdown,reboot,mkfs"})
    for name, value in {
        "COILCLAW_SECURITY_AUTONOMY": "full",
        "COILCLAW_SECURITY_ALLOWED_DOMAINS": "example.com",
        "COILCLAW_CHANNELS_CLI_TOOLS_ALLOW": "time",
        "COILCLAW_AGENT_MAX_TOOL_ROUNDS": "6",
        "COILCLAW_BUDGETS_TOOL_CALLS_PER_MINUTE": "6",
        "COILCLAW_WORKSPACE_DIR": "/elsewhere/ws",
    }.items():
        assert plain != hashed({name: value}), name


def test_the_reference_is_what_the_schema_says() -> None:
    file = Path(__file__).parents[2] / "docs/config.md"
    remedy = "write coilclaw.config.docs_markdown() to docs/config.md"
    assert file.read_text(encoding="utf-8") == docs_markdown(), remedy


def test_every_option_is_documented_and_stands_in_the_template(home: Home) -> None:
    docs, template = docs_markdown(), default_toml(home)
    for option in options_of():
        assert f"COILCLAW_{'_'.join(option.path).upper()}`" in docs
        assert f"{option.path[-1]} = " in template
    assert "| |" not in docs


def test_the_template_shows_the_main_keys_uncommented(home: Home) -> None:
    table = tomllib.loads(default_toml(home))
    assert table["default_provider"] == "local"
    assert table["security"]["autonomy"] == "supervised"
    assert table["providers"]["models"]["local"] == {"kind": "mock", "model": "mock"}
