"""The home, path expansion, and where the workspace may be."""

import os
import pwd
from pathlib import Path

import pytest

from coilclaw.config import Home, home_from, load, show_config
from coilclaw.packets.errors import ConfigError

ENVIRON = {"HOME": "/home/owner"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "home"
    root.mkdir()
    return Home(root)


def problems_of(home: Home, text: str, environ: dict[str, str] | None = None) -> list[str]:
    home.config_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(home, ENVIRON | (environ or {})).config
    return caught.value.problems


def test_the_home_is_beside_the_owner_by_default() -> None:
    assert home_from(ENVIRON).root == Path("/home/owner/.coilclaw")
    assert home_from(ENVIRON | {"COILCLAW_HOME": ""}).root == Path("/home/owner/.coilclaw")


def test_coilclaw_home_moves_everything() -> None:
    home = home_from({"COILCLAW_HOME": "/srv/claw/"})
    assert home.config_file == Path("/srv/claw/config.toml")
    assert home.database == Path("/srv/claw/memory.sqlite")
    assert home.keys_dir == Path("/srv/claw/keys")
    assert home.estop_file == Path("/srv/claw/ESTOP")
    assert home.plugins_dir == Path("/srv/claw/plugins")
    assert home.logs_dir == Path("/srv/claw/logs")
    assert home.locks_dir == Path("/srv/claw/locks")
    assert home.workspace_link == Path("/srv/claw/workspace")
    config = load(home, ENVIRON).config
    assert config.memory.path == home.database
    assert config.workspace_dir == Path("/srv/coilclaw-workspace")


def test_the_home_expands_tilde_and_variables_and_becomes_absolute() -> None:
    assert home_from(ENVIRON | {"COILCLAW_HOME": "~/claw"}).root == Path("/home/owner/claw")
    assert home_from(ENVIRON | {"COILCLAW_HOME": "$BASE/claw", "BASE": "/b"}).root == Path("/b/claw")
    assert home_from(ENVIRON | {"COILCLAW_HOME": "here"}).root == Path.cwd() / "here"


def test_a_home_that_cannot_be_expanded_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="NOWHERE"):
        home_from(ENVIRON | {"COILCLAW_HOME": "$NOWHERE/x"})


def test_without_HOME_the_password_database_knows() -> None:
    assert home_from({}).root == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".coilclaw"


def test_paths_expand_tilde_and_variables(home: Home, tmp_path: Path) -> None:
    home.config_file.write_text("""
workspace_dir = "${BASE}/work/../ws"
[memory]
path = "~/m.sqlite"
[receipts]
path = "logs/r.log"
[security]
forbidden_paths = ["~/.gnupg", "$BASE/x", "private"]
[providers.models.local]
kind = "mock"
script = "script.json"
""")
    config = load(home, ENVIRON | {"BASE": str(tmp_path)}).config
    assert config.workspace_dir == tmp_path / "ws"
    assert config.memory.path == Path("/home/owner/m.sqlite")
    assert config.receipts.path == home.root / "logs/r.log"
    real = Path(os.path.realpath(tmp_path))
    assert config.security.forbidden_paths == (Path("/home/owner/.gnupg"), real / "x", real / "ws/private")
    script = config.providers.models["local"].script  # pyright: ignore[reportAttributeAccessIssue]
    assert script == home.root / "script.json"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("$NOWHERE/x", "uses the variable $NOWHERE, which is not set"),
        ("${NOWHERE}/x", "uses the variable $NOWHERE, which is not set"),
        ("$EMPTY/x", "uses the variable $EMPTY, which is not set"),
        ("${NOWHERE", 'contains "${" without a closing "}"'),
        ("~nobody-of-that-name/x", "there is no such user"),
    ],
)
def test_a_path_that_cannot_be_expanded_names_the_reason(home: Home, written: str, expected: str) -> None:
    for text in (
        f'workspace_dir = "{written}"',
        f'[memory]\npath = "{written}"',
        f'[security]\nforbidden_paths = ["{written}"]',
        f'[providers.models.local]\nkind = "mock"\nscript = "{written}"',
    ):
        problems = problems_of(home, text, {"EMPTY": ""})
        assert len(problems) == 1
        assert expected in problems[0]


def test_a_lone_dollar_is_a_dollar(home: Home, tmp_path: Path) -> None:
    home.config_file.write_text(f'workspace_dir = "{tmp_path}/a$ b"')
    assert load(home, ENVIRON).config.workspace_dir == tmp_path / "a$ b"


def test_forbidden_paths_have_their_links_followed(home: Home, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    home.config_file.write_text(f'[security]\nforbidden_paths = ["{tmp_path}/link/inner"]')
    config = load(home, ENVIRON).config
    assert config.security.forbidden_paths == (Path(os.path.realpath(tmp_path)) / "real/inner",)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (".", "is the home itself"),
        ("..", "contains the home"),
        ("/", "contains the home"),
        ("ws", "is inside the home"),
    ],
)
def test_a_workspace_that_shares_ground_with_the_home_is_refused(home: Home, where: str, expected: str) -> None:
    problems = problems_of(home, f'workspace_dir = "{where}"')
    assert len(problems) == 1
    assert expected in problems[0]


def test_a_workspace_that_reaches_the_home_by_a_link_is_refused(home: Home, tmp_path: Path) -> None:
    (tmp_path / "inside").symlink_to(home.root / "plugins")
    (tmp_path / "around").symlink_to(tmp_path)
    assert "is inside the home" in problems_of(home, f'workspace_dir = "{tmp_path}/inside"')[0]
    assert "contains the home" in problems_of(home, f'workspace_dir = "{tmp_path}/around"')[0]


def test_a_home_behind_a_link_is_seen_through(tmp_path: Path) -> None:
    (tmp_path / "ws/hidden").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "ws/hidden")
    assert "contains the home" in problems_of(Home(tmp_path / "link"), f'workspace_dir = "{tmp_path}/ws"')[0]


def test_names_that_only_begin_alike_are_not_inside_each_other(home: Home) -> None:
    home.config_file.write_text(f'workspace_dir = "{home.root}-workspace"')
    assert load(home, ENVIRON).config.workspace_dir == Path(f"{home.root}-workspace")


def test_a_workspace_that_is_a_file_is_refused(home: Home, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is not a directory" in problems_of(home, f'workspace_dir = "{tmp_path}/file"')[0]


@pytest.mark.parametrize("section", ["memory", "receipts"])
def test_the_database_and_the_receipts_stay_out_of_the_workspace(home: Home, section: str) -> None:
    assert "is inside the workspace" in problems_of(home, f'[{section}]\npath = "../coilclaw-workspace/x"')[0]


def test_the_database_and_the_receipts_are_files_of_their_own(home: Home) -> None:
    assert "is already memory.path" in problems_of(home, '[receipts]\npath = "memory.sqlite"')[0]
    assert "is already config.toml" in problems_of(home, '[receipts]\npath = "config.toml"')[0]
    assert "is already the ESTOP file" in problems_of(home, '[memory]\npath = "ESTOP"')[0]
    assert "is a directory" in problems_of(home, '[memory]\npath = "."')[0]


def test_a_forbidden_path_around_the_workspace_is_warned_of(home: Home) -> None:
    home.config_file.write_text('[security]\nforbidden_paths = ["/"]')
    assert "contains the workspace" in load(home, ENVIRON).warnings[0]


def test_a_home_whose_name_is_not_utf8_can_be_loaded_and_shown(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/h\xff"))
    root.mkdir()
    home = Home(root)
    shown = show_config(load(home, ENVIRON).config)["memory"]
    assert isinstance(shown, dict)
    assert shown["path"] == f"{tmp_path}/h\\udcff/memory.sqlite"
    home.config_file.write_text("zzz = 1")
    with pytest.raises(ConfigError) as caught:
        load(home, ENVIRON).config
    caught.value.problems[0].encode("utf-8")
