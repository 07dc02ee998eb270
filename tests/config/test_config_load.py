"""Defaults, the file itself, layers and origins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coilclaw.config import (
    Config,
    Home,
    MockModel,
    default_toml,
    load,
)
from coilclaw.packets.errors import ConfigError

ENVIRON = {"HOME": "/home/owner"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "home"
    root.mkdir()
    return Home(root)


def problems_of(home: Home, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(home, ENVIRON | (environ or {})).config
    assert caught.value.remedy
    return caught.value.problems


def test_a_missing_file_means_the_defaults(home: Home) -> None:
    config = load(home, ENVIRON).config
    assert config.default_provider == "local"
    assert config.providers.models == {"local": MockModel()}
    assert config.security.autonomy == "supervised"
    assert config.security.workspace_only
    assert config.security.forbidden_commands == ("rm", "shutdown", "reboot", "mkfs", "dd")
    assert Path("/home/owner/.ssh") in config.security.forbidden_paths
    assert config.security.allowed_domains == ()
    assert config.channels.cli.tools_allow == ("*",)
    assert config.memory.path == home.database
    assert config.receipts.path == home.root / "tool_receipts.log"
    assert config.workspace_dir == home.root.parent / "coilclaw-workspace"
    assert (config.agent.max_tool_rounds, config.agent.turn_token_budget) == (50, 3_000_000)
    assert (config.approvals.ttl_hours, config.retention.messages_days) == (24, 0)
    assert config.server.http_addr == "127.0.0.1:8377"


def test_nothing_forbidden_by_default_is_also_allowed(home: Home) -> None:
    security = load(home, ENVIRON).config.security
    assert not set(security.forbidden_commands) & set(security.allowed_commands)
    assert len(set(security.allowed_commands)) == len(security.allowed_commands)


def test_a_missing_home_means_the_defaults_and_is_not_made(tmp_path: Path) -> None:
    home = Home(tmp_path / "absent")
    assert isinstance(load(home, ENVIRON).config, Config)
    assert not home.root.exists()


def test_an_empty_file_means_the_defaults(home: Home) -> None:
    home.config_file.write_text("")
    assert load(home, ENVIRON).config == load(Home(home.root), ENVIRON).config


def test_the_template_loads_to_the_defaults(home: Home) -> None:
    defaults = load(home, ENVIRON).config
    home.config_file.write_text(default_toml(home))
    assert load(home, ENVIRON).config == defaults
    assert load(home, ENVIRON).warnings == ()


def test_the_template_with_every_line_uncommented_still_loads_to_the_defaults(home: Home) -> None:
    defaults = load(home, ENVIRON).config
    lines = default_toml(home).splitlines()
    kept: list[str] = []
    for line in lines:
        text = line.removeprefix("# ")
        is_example = any(word in line for word in ("providers.models.server", "providers.models.steady"))
        if is_example:
            break
        is_key = text.split(" = ")[0].replace("_", "").isalpha() and " = " in text
        kept.append(text if is_key or line.startswith(("#     ", "[")) else "")
    home.config_file.write_text("\n".join(kept))
    assert load(home, ENVIRON).config == defaults
    assert "allowed_commands" in "\n".join(kept)


def test_the_template_moves_with_its_home(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "elsewhere" / "home")
    other.root.mkdir(parents=True)
    other.config_file.write_text(default_toml(home))
    config = load(other, ENVIRON).config
    assert config.memory.path == other.database
    assert config.workspace_dir == tmp_path / "elsewhere" / "coilclaw-workspace"


def test_origins_tell_default_file_and_environment_apart(home: Home) -> None:
    home.config_file.write_text('[security]\nautonomy = "full"\n[providers.models.local]\nkind = "mock"\n')
    origins = load(home, ENVIRON | {"COILCLAW_AGENT_MAX_TOOL_ROUNDS": "7", "COILCLAW_DATABASE_PATH": "/d/m"}).origins
    assert origins["security.autonomy"] == "file"
    assert origins["agent.max_tool_rounds"] == "environment"
    assert origins["memory.path"] == "environment"
    assert origins["log.level"] == "default"
    assert origins["providers.models.local.kind"] == "file"
    assert origins["providers.models.local.model"] == "default"


def test_the_environment_wins_over_the_file(home: Home) -> None:
    home.config_file.write_text("[agent]\nmax_tool_rounds = 3\n")
    assert load(home, ENVIRON).config.agent.max_tool_rounds == 3
    assert load(home, ENVIRON | {"COILCLAW_AGENT_MAX_TOOL_ROUNDS": "9"}).config.agent.max_tool_rounds == 9


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'a = "\xff"\n', "line 1 is not UTF-8"),
        (b"# fine\n# \xe9\n", "line 2 is not UTF-8"),
        (b"# fine\n\na = 1\x00\n", "line 3 contains a NUL character"),
        (b"[security\n", "not valid TOML"),
        (b"a = 1\na = 2\n", "line 2"),
        (b"x = " + b"9" * 5000, "far too long"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"#" * 1_000_001, "larger than 1 MB"),
    ],
)
def test_a_broken_file_is_one_sentence(home: Home, data: bytes, expected: str) -> None:
    home.config_file.write_bytes(data)
    problems = problems_of(home)
    assert len(problems) == 1
    assert expected in problems[0]
    assert str(home.config_file) in problems[0]


def test_a_byte_order_mark_and_windows_line_ends_are_read(home: Home) -> None:
    home.config_file.write_bytes(b'\xef\xbb\xbf[security]\r\nautonomy = "full"\r\n')
    assert load(home, ENVIRON).config.security.autonomy == "full"


def test_a_directory_in_the_place_of_the_file_is_refused(home: Home) -> None:
    home.config_file.mkdir()
    assert "is a directory" in problems_of(home)[0]


def test_a_pipe_in_the_place_of_the_file_is_refused_without_waiting(home: Home) -> None:
    os.mkfifo(home.config_file)
    assert "not a regular file" in problems_of(home)[0]


def test_a_link_to_nothing_is_not_taken_for_a_missing_file(home: Home) -> None:
    home.config_file.symlink_to(home.root / "gone.toml")
    assert "link to a file that does not exist" in problems_of(home)[0]


def test_a_link_in_a_circle_is_refused(home: Home) -> None:
    home.config_file.symlink_to(home.config_file)
    assert "cannot be read" in problems_of(home)[0]


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert "cannot be read" in problems_of(Home(tmp_path / "home"))[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_an_unreadable_file_is_refused(home: Home) -> None:
    home.config_file.write_text("")
    home.config_file.chmod(0)
    assert "cannot be read" in problems_of(home)[0]


def test_a_file_that_everybody_can_change_is_warned_of(home: Home) -> None:
    home.config_file.write_text("")
    home.config_file.chmod(0o666)
    assert "chmod 600" in load(home, ENVIRON).warnings[0]


def test_loading_defaults_imports_neither_a_toml_parser_nor_difflib(home: Home) -> None:
    code = (
        "import sys, pathlib; from coilclaw.config import Home, load\n"
        "load(Home(pathlib.Path(sys.argv[1])), {'HOME': '/home/owner'}).config\n"
        "print(sorted({'tomllib', 'difflib', 'hashlib', 'graphlib', 'coilclaw.packets.canonical'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, home.root], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
