"""What is wrong with values: each fault named, all of them at once, and no secret repeated."""

from pathlib import Path

import pytest

from coilclaw.config import Home, load
from coilclaw.packets.errors import ConfigError

ENVIRON = {"HOME": "/home/owner"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "home"
    root.mkdir()
    return Home(root)


def problems_of(home: Home, text: str) -> list[str]:
    home.config_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(home, ENVIRON).config
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[security]\nforbiden_paths = []", "2: security.forbiden_paths: no such key; did you mean forbidden_paths?"),
        ("zzz = 1", "1: zzz: no such key; allowed here: workspace_dir, default_provider"),
        ('autonomy = "full"', "1: autonomy: no such key; did you mean security.autonomy?"),
        ("[securty]", "1: securty: no such key; did you mean security?"),
        ("[channels.clii]", "did you mean cli?"),
        (
            '[security]\nautonomy = "superviced"',
            'one of "readonly", "supervised", "full", not "superviced"; did you mea',
        ),
        ("[security]\nautonomy = 3", 'needs one of "readonly", "supervised", "full", not 3'),
        ('[memory]\nbackend = "postgres"', '2: memory.backend: needs "sqlite", not "postgres"'),
        ('[log]\nlevel = "loud"', 'one of "debug", "info", "warning", "error", not "loud"'),
        ('env = "staging"', 'one of "development", "production", not "staging"'),
        ("[agent]\nmax_tool_rounds = 0", "2: agent.max_tool_rounds: needs a whole number from 1 to 100, not 0"),
        ("[agent]\nmax_tool_rounds = 1.5", "needs a whole number from 1 to 100, not 1.5"),
        ('[agent]\nmax_tool_rounds = "5"', "needs a whole number from 1 to 100, not a string"),
        ("[agent]\nmax_tool_rounds = true", "needs a whole number from 1 to 100, not true"),
        ("[agent]\nmax_tool_rounds = [5]", "needs a whole number from 1 to 100, not a list"),
        ("[agent]\nmax_tool_rounds = {}", "needs a whole number from 1 to 100, not a table"),
        ("[agent]\nmax_tool_rounds = 2026-01-01", "needs a whole number from 1 to 100, not a date or time"),
        ("[agent]\nmax_tool_rounds = 99999999999999999999999999", "not a number that large"),
        ("[agent]\nshell_timeout_seconds = nan", "needs a number from 0.05 to 3600"),
        ("[agent]\nshell_timeout_seconds = inf", "needs a number from 0.05 to 3600"),
        ("[approvals]\nttl_hours = -1", "needs a whole number from 1 to 8760, not -1"),
        ("[security]\nworkspace_only = 1", "needs true or false, not 1"),
        ('[security]\nworkspace_only = "yes"', "needs true or false, not a string"),
        ('[security]\nforbidden_commands = "rm"', "needs a list, each item a bare command name"),
        ('[security]\nforbidden_commands = ["/bin/rm"]', 'each item a bare command name such as "rm"'),
        ('[security]\nforbidden_commands = ["rm -rf"]', 'each item a bare command name such as "rm"'),
        ('[security]\nallowed_commands = [""]', "each item a bare command name"),
        ('[security]\nallowed_domains = ["https://example.com/x"]', "a host name such as"),
        ('[security]\nallowed_domains = ["*"]', "a host name such as"),
        ('[security]\nforbidden_paths = ["", "/etc"]', "needs a list, each item a path"),
        ("[security]\nforbidden_paths = [1]", "needs a list, each item a path"),
        ('[security]\nforbidden_paths = ["/a\\u0000b"]', "contains a control character"),
        ('default_model = "a\\nb"', "contains a control character"),
        ('workspace_dir = ""', "1: workspace_dir: needs a path"),
        ("security = 5", "1: security: needs a table, written [security]"),
        ("[[security]]", "security: needs a table, written [security]"),
        ("channels = {cli = true}", "channels.cli: needs a table, written [channels.cli]"),
        ("[security]\naudit_log = false", "2: security.audit_log: the audit trail cannot be switched off"),
        ("[receipts]\nenabled = false", "2: receipts.enabled: receipts cannot be switched off"),
        ('[forge]\nmerge_allow = ["policies/**"]', 'forge.merge_allow: "policies/**" covers policies'),
        ('[forge]\nmerge_allow = ["**"]', "which never merges by itself"),
        ('[forge]\nmerge_allow = ["system.*"]', "covers SYSTEM.md"),
        ('[forge]\nmerge_allow = [".git*/**"]', "which never merges by itself"),
        ('[forge]\nmerge_mode = "yolo"', 'one of "strict", "whitelist", not "yolo"'),
        ('[server]\nhttp_addr = "8377"', "needs an address and a port"),
        ('[server]\nhttp_addr = ":8377"', "needs an address and a port"),
        ('[server]\nhttp_addr = "::1:8377"', "needs an address and a port"),
        ('[server]\nhttp_addr = "localhost:99999"', "the port needs a whole number from 0 to 65535"),
    ],
)
def test_a_fault_says_where_it_is_and_what_is_allowed(home: Home, text: str, expected: str) -> None:
    problems = problems_of(home, text)
    assert len(problems) == 1
    assert expected in problems[0]
    assert str(home.config_file) in problems[0]


def test_every_fault_is_found_in_one_pass(home: Home) -> None:
    home.config_file.write_text("""
default_provider = "nobody"
workspace_dir = "$NOWHERE/x"
colour = "red"
[security]
autonomy = "wild"
audit_log = false
[receipts]
enabled = false
[providers.models.a]
kind = "openai-compatible"
base_url = "ftp://host"
[providers.models.b]
kind = "reliable"
[providers.models.c]
kind = "oracle"
[agent]
max_tool_rounds = 0
""")
    with pytest.raises(ConfigError) as caught:
        load(home, ENVIRON | {"COILCLAW_LOG_LEVEL": "loud", "COILCLAW_BUDGETS_TOKENS": "1"}).config
    said = "\n".join(caught.value.problems)
    for part in (
        ":2: default_provider", ":3: workspace_dir", ":4: colour", ":6: security.autonomy", ":7: security.audit_log",
        ":9: receipts.enabled", "providers.models.a.model", ":12: providers.models.a.base_url",
        "providers.models.b.providers", ":16: providers.models.c.kind", ":18: agent.max_tool_rounds",
        "COILCLAW_LOG_LEVEL", "COILCLAW_BUDGETS_TOKENS",
    ):  # fmt: skip
        assert part in said
    assert len(caught.value.problems) == 13
    assert caught.value.exit_code == 2


def test_a_file_that_is_wrong_throughout_is_reported_briefly(home: Home) -> None:
    problems = problems_of(home, "\n".join(f"key{number} = 1" for number in range(20_000)))
    assert len(problems) == 101
    assert problems[-1] == "and 19900 more errors"


def test_line_numbers_are_left_out_rather_than_guessed(home: Home) -> None:
    text = '[security]\nautonomy = "wild"\n[log]\nlevel = "info"\n# more\n[agent]\n"max_tool_rounds" = 0 # x\n'
    said = problems_of(home, text)
    assert any(f"{home.config_file}:7: agent.max_tool_rounds" in problem for problem in said)
    doubtful = 'default_model = """\nenv = "x"\n"""\nenv = "y"\n'
    assert any(f"{home.config_file}: env: " in problem for problem in problems_of(home, doubtful))


def test_dotted_and_inline_spellings_are_pointed_at(home: Home) -> None:
    assert ":2: security.autonomy" in problems_of(home, '\nsecurity.autonomy = "wild"')[0]
    assert ":2: security.autonomy" in problems_of(home, '\nsecurity = {autonomy = "wild"}')[0]


@pytest.mark.parametrize(
    "text",
    [
        '[providers.models.a]\nkind="openai-compatible"\nmodel="m"\nbase_url="http://h"\napi_key_env="{secret}"',
        '[providers.models.a]\nkind="openai-compatible"\nmodel="m"\nbase_url="http://h"\napi_key="{secret}"',
        '[providers.models.a]\nkind="openai-compatible"\nmodel="m"\nbase_url="{secret}"',
        '[providers.models.a]\nkind="openai-compatible"\nmodel="m"\nbase_url="http://h/?key={secret}"',
        '[providers.models.a]\nkind="{secret}"',
        'default_provider = "{secret}"',
        'env = "{secret}"',
        '"{secret}" = 1',
        '[security]\nforbidden_commands = ["x {secret}"]',
        "[agent]\nmax_tool_rounds = '{secret}'",
    ],
)
@pytest.mark.parametrize("secret", ["sk-abcdefghijklmnopqrstuvwxyz", "gsk_0123456789abcdefABCDEF0123456789abcdef"])
def test_an_error_never_repeats_a_secret(home: Home, text: str, secret: str) -> None:
    said = " ".join(problems_of(home, text.replace("{secret}", secret)))
    assert secret not in said
    assert secret[4:] not in said
