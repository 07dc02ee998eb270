"""COILCLAW_* variables: every key has one, values follow the field's type, and misspelt ones are named."""

import base64
from pathlib import Path

import pytest

from coilclaw.config import Home, MockModel, OpenAIModel, RouterModel, load
from coilclaw.packets.errors import ConfigError

ENVIRON = {"HOME": "/home/owner"}
KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "home"
    root.mkdir()
    return Home(root)


def problems_of(home: Home, environ: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(home, ENVIRON | environ).config
    return caught.value.problems


@pytest.mark.parametrize("word", ["false", "no", "off", "0", "FALSE", " Off "])
def test_switches_take_words(home: Home, word: str) -> None:
    assert not load(home, ENVIRON | {"COILCLAW_SECURITY_WORKSPACE_ONLY": word}).config.security.workspace_only
    assert load(home, ENVIRON | {"COILCLAW_SECURITY_WORKSPACE_ONLY": "yes"}).config.security.workspace_only


@pytest.mark.parametrize("text", ["time, file_read", '["time", "file_read"]', "['time', 'file_read',]"])
def test_lists_take_commas_json_and_toml(home: Home, text: str) -> None:
    config = load(home, ENVIRON | {"COILCLAW_CHANNELS_CLI_TOOLS_ALLOW": text}).config
    assert config.channels.cli.tools_allow == ("time", "file_read")


def test_an_empty_variable_counts_as_not_set_and_brackets_empty_a_list(home: Home) -> None:
    empty = load(home, ENVIRON | {"COILCLAW_SECURITY_FORBIDDEN_COMMANDS": "", "COILCLAW_LOG_LEVEL": ""}).config
    assert "rm" in empty.security.forbidden_commands
    assert load(home, ENVIRON | {"COILCLAW_SECURITY_FORBIDDEN_COMMANDS": "[]"}).config.security.forbidden_commands == ()


def test_numbers_and_words_are_read(home: Home) -> None:
    config = load(
        home,
        ENVIRON
        | {
            "COILCLAW_AGENT_SHELL_TIMEOUT_SECONDS": "2.5",
            "COILCLAW_RETENTION_MESSAGES_DAYS": "30",
            "COILCLAW_WORKSPACE_DIR": "~/ws",
            "COILCLAW_ENV": "development",
            "COILCLAW_DEFAULT_MODEL": "m",
        },
    ).config
    assert config.agent.shell_timeout_seconds == 2.5
    assert config.retention.messages_days == 30
    assert config.workspace_dir == Path("/home/owner/ws")
    assert (config.env, config.default_model) == ("development", "m")


def test_the_deployment_variables_are_second_names(home: Home) -> None:
    loaded = load(
        home,
        ENVIRON
        | {
            "COILCLAW_ENV": "production",
            "COILCLAW_HTTP_ADDR": "127.0.0.1:80",
            "COILCLAW_DATABASE_PATH": "/data/m.sqlite",
            "COILCLAW_ENCRYPTION_KEY_B64": KEY,
            "COILCLAW_OPENROUTER_API_KEY": "sk-or-secret",
            "COILCLAW_MODEL_PRIMARY": "big",
            "COILCLAW_MODEL_FALLBACK": "small",
            "COILCLAW_APPROVAL_TTL_HOURS": "12",
            "COILCLAW_DAILY_TOKEN_BUDGET": "5",
            "COILCLAW_JOB_TOKEN_BUDGET": "4",
            "COILCLAW_LOG": "json",
            "COILCLAW_HOME": "/x",
            "COILCLAW_MOCK_SCRIPT": "/y",
            "NO_COLOR": "1",
        },
    )
    config = loaded.config
    assert config.server.http_addr == "127.0.0.1:80"
    assert config.memory.path == Path("/data/m.sqlite")
    assert (config.default_model, config.fallback_model) == ("big", "small")
    assert config.approvals.ttl_hours == 12
    assert (config.budgets.daily_tokens, config.budgets.job_tokens) == (5, 4)
    assert config.log.format == "json"
    assert loaded.warnings == ()
    assert KEY not in repr(loaded)
    assert "sk-or-secret" not in repr(loaded)


def test_two_variables_for_one_key_must_agree(home: Home) -> None:
    (problem,) = problems_of(home, {"COILCLAW_DATABASE_PATH": "/a", "COILCLAW_MEMORY_PATH": "/b"})
    assert "COILCLAW_DATABASE_PATH and COILCLAW_MEMORY_PATH: both set memory.path" in problem
    same = load(home, ENVIRON | {"COILCLAW_DATABASE_PATH": "/a/m", "COILCLAW_MEMORY_PATH": "/a/m"}).config
    assert same.memory.path == Path("/a/m")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("COILCLAW_SECURITY_AUTONOMY", "wild", 'COILCLAW_SECURITY_AUTONOMY: needs one of "readonly"'),
        ("COILCLAW_SECURITY_WORKSPACE_ONLY", "maybe", "needs true or false, not a string"),
        ("COILCLAW_AGENT_MAX_TOOL_ROUNDS", "many", "needs a whole number from 1 to 100, not a string"),
        ("COILCLAW_AGENT_MAX_TOOL_ROUNDS", "1" * 5000, "needs a whole number from 1 to 100"),
        ("COILCLAW_AGENT_MAX_TOOL_ROUNDS", "²", "needs a whole number from 1 to 100"),
        ("COILCLAW_AGENT_SHELL_TIMEOUT_SECONDS", "nan", "needs a number from 0.05 to 3600"),
        ("COILCLAW_SECURITY_ALLOWED_DOMAINS", "[1, 2", "needs a list"),
        ("COILCLAW_SECURITY_ALLOWED_DOMAINS", "[" * 100_000, "needs a list"),
        ("COILCLAW_SECURITY_ALLOWED_DOMAINS", '[]\n[x]\ny = "z"', "needs a list"),
        ("COILCLAW_SECURITY_AUDIT_LOG", "off", "COILCLAW_SECURITY_AUDIT_LOG: the audit trail cannot be switched off"),
        ("COILCLAW_WORKSPACE_DIR", "$NOWHERE", "COILCLAW_WORKSPACE_DIR: the path uses the variable $NOWHERE"),
        ("COILCLAW_WORKSPACE_DIR", "/caf\udce9", "text that is not UTF-8"),
        ("COILCLAW_LOG", "yaml", 'COILCLAW_LOG: needs one of "text", "json", not "yaml"'),
        (
            "COILCLAW_SECURITY_AUTONOMI",
            "full",
            "matches no configuration key; did you mean COILCLAW_SECURITY_AUTONOMY?",
        ),
        ("COILCLAW_PROVIDERS_X", "1", "COILCLAW_PROVIDERS_X: matches no configuration key"),
        ("COILCLAW_PROVIDERS_MODELS_LOCAL_API_KEY", "sk-secret", "did you mean ..._API_KEY_ENV?"),
        ("COILCLAW_PROVIDERS_MODELS_MODEL", "x", "matches no key of a provider"),
        ("COILCLAW_ENCRYPTION_KEY_B64", "c2hvcnQ=", "must be exactly 32 bytes in base64"),
        ("COILCLAW_ENCRYPTION_KEY_B64", "not base64!", "must be exactly 32 bytes in base64"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(home: Home, name: str, value: str, expected: str) -> None:
    (problem,) = problems_of(home, {name: value})
    assert expected in problem
    assert problem.startswith(name)
    assert "sk-secret" not in problem


def test_other_unknown_variables_are_warnings(home: Home) -> None:
    (warning,) = load(home, ENVIRON | {"COILCLAW_WORKSPCE_DIR": "/x", "COIL": "y"}).warnings
    assert "COILCLAW_WORKSPCE_DIR" in warning
    assert "did you mean COILCLAW_WORKSPACE_DIR?" in warning


def test_a_variable_that_holds_a_providers_key_is_not_an_unknown_one(home: Home) -> None:
    home.config_file.write_text(
        '[providers.models.local]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "http://h"\n'
        'api_key_env = "COILCLAW_MY_OWN_KEY"\n'
    )
    assert load(home, ENVIRON | {"COILCLAW_MY_OWN_KEY": "s"}).warnings == ()


def test_providers_are_changed_and_made_by_variables(home: Home) -> None:
    environ = ENVIRON | {
        "COILCLAW_PROVIDERS_MODELS_LOCAL_MODEL": "other",
        "COILCLAW_PROVIDERS_MODELS_FAR_AWAY_KIND": "openai-compatible",
        "COILCLAW_PROVIDERS_MODELS_FAR_AWAY_BASE_URL": "https://example.com/v1",
        "COILCLAW_PROVIDERS_MODELS_FAR_AWAY_MODEL": "m",
        "COILCLAW_PROVIDERS_MODELS_FAR_AWAY_API_KEY_ENV": "COILCLAW_OPENROUTER_API_KEY",
        "COILCLAW_PROVIDERS_MODELS_FAR_AWAY_MAX_RETRIES": "0",
        "COILCLAW_PROVIDERS_MODELS_R_KIND": "router",
        "COILCLAW_PROVIDERS_MODELS_R_DEFAULT": "local",
        "COILCLAW_PROVIDERS_MODELS_R_ROUTES": "fast=local, strong=far_away",
    }
    models = load(home, environ).config.providers.models
    assert models["local"] == MockModel(model="other")
    assert models["far_away"] == OpenAIModel(
        base_url="https://example.com/v1", model="m", api_key_env="COILCLAW_OPENROUTER_API_KEY", max_retries=0
    )
    assert models["r"] == RouterModel(routes={"fast": "local", "strong": "far_away"}, default="local")
    origins = load(home, environ).origins
    assert origins["providers.models.local.kind"] == "default"
    assert origins["providers.models.local.model"] == "environment"


def test_a_provider_in_the_file_is_found_by_its_name_in_capitals(home: Home) -> None:
    home.config_file.write_text(
        '[providers.models.local]\nkind = "mock"\n[providers.models."My-Model.2"]\nkind = "mock"\n'
    )
    environ = ENVIRON | {"COILCLAW_PROVIDERS_MODELS_MY_MODEL_2_MODEL": "x"}
    assert load(home, environ).config.providers.models["My-Model.2"] == MockModel(model="x")


def test_a_variable_that_fits_two_providers_is_refused(home: Home) -> None:
    home.config_file.write_text('[providers.models.local]\nkind = "mock"\n[providers.models.LOCAL]\nkind = "mock"\n')
    (problem,) = problems_of(home, {"COILCLAW_PROVIDERS_MODELS_LOCAL_MODEL": "x"})
    assert "matches the providers local and LOCAL" in problem


def test_a_variable_over_a_broken_section_leaves_the_files_fault_standing(home: Home) -> None:
    home.config_file.write_text("security = 5")
    (problem,) = problems_of(home, {"COILCLAW_SECURITY_AUTONOMY": "full"})
    assert "security: needs a table" in problem
