"""Coding sessions: repositories, organizations and plans grant what the owner wrote, and nothing else."""

from pathlib import Path

import pytest

from coilclaw.config import Home, load, policy_inputs, secret_variables
from coilclaw.config.runner import Repo, org_called, repo_faults
from coilclaw.packets.errors import ConfigError
from coilclaw.runtime.keyring import secret_names

ENVIRON = {"HOME": "/home/owner"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "home"
    root.mkdir()
    return Home(root)


def loaded(home: Home, text: str):
    home.config_file.write_text(text)
    return load(home, ENVIRON).config


def problems_of(home: Home, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(home, text)
    return caught.value.problems


def test_sessions_are_next_to_the_workspace_by_default(home: Home) -> None:
    config = loaded(home, "")
    assert config.sessions_dir == config.workspace_dir.with_name("coilclaw-workspace-sessions")
    assert loaded(home, '[runner]\nsessions_dir = "~/s"\n').sessions_dir == Path("/home/owner/s")


@pytest.mark.parametrize("place", ["in", "../coilclaw-workspace/in", "..", "../coilclaw-workspace-trees"])
def test_sessions_lie_apart_from_the_home_the_workspace_and_the_trees(home: Home, place: str) -> None:
    (fault, *_) = problems_of(home, f'[runner]\nsessions_dir = "{place}"\n')
    assert "runner.sessions_dir" in fault
    assert "lie in one another" in fault


def test_a_repository_is_a_folder_or_one_on_github(home: Home) -> None:
    config = loaded(home, '[repos."my.site"]\npath = "~/site"\ncopy = [".env", "conf/a.toml"]\n')
    assert config.repos["my.site"].path == Path("/home/owner/site")
    assert loaded(home, '[repos.site]\ngithub = "owner/na.me"\ntoken_env = "GH"\n').repos["site"].token_env == "GH"


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ("", "exactly one of path"),
        ('path = "/a"\ngithub = "o/n"', "exactly one of path"),
        ('path = "/a"\ntoken_env = "T"', "GitHub only"),
        ('github = "o/n"\ncopy = ["a"]', "folders only"),
        ('github = "o/n.git"', "without an ending"),
        ('github = "o/.."', "without an ending"),
        ('github = "https://github.com/o/n"', "owner/name"),
        ('github = "-o/n"', "owner/name"),
        ('github = "o/n/../m"', "owner/name"),
        ('path = "/a"\nbranch = "x"', "no such key"),
        ('path = "/a"\nsetup_timeout_seconds = 0', "from 1 to"),
    ],
)
def test_a_repository_that_cannot_be_meant_is_refused(home: Home, keys: str, word: str) -> None:
    assert any("repos.a" in fault and word in fault for fault in problems_of(home, f"[repos.a]\n{keys}\n"))


@pytest.mark.parametrize("name", ["/etc/passwd", "../.env", "a/../../b", ".git/config", "a/.GIT/config", "a//b", "./a"])
def test_only_files_within_the_folder_are_copied(name: str) -> None:
    assert repo_faults(Repo(path=Path("/a"), copy=(name,)))


def test_self_is_always_there_and_others_only_as_written(home: Home) -> None:
    config = loaded(home, '[orgs.acme]\nrepos = ["site"]\nsecrets = ["ACME"]\n')
    own = org_called(config.orgs, "self")
    assert own is not None
    assert (own.plan, own.repos, own.providers, own.secrets) == ("enterprise", ("*",), ("*",), ())
    acme = org_called(config.orgs, "acme")
    assert acme is not None
    assert (acme.plan, acme.repos, acme.providers, acme.secrets) == ("free", ("site",), (), ("ACME",))
    assert org_called(config.orgs, "other") is None


def test_self_can_be_narrowed(home: Home) -> None:
    own = org_called(loaded(home, '[orgs.self]\nplan = "free"\nrepos = ["site"]\n').orgs, "self")
    assert own is not None
    assert (own.plan, own.repos, own.providers) == ("free", ("site",), ("*",))


def test_an_organization_without_repositories_is_a_warning(home: Home) -> None:
    home.config_file.write_text('[orgs.acme]\nplan = "team"\n')
    assert any("orgs.acme.repos" in text for text in load(home, ENVIRON).warnings)


def test_each_plan_has_its_limits_and_they_can_be_set(home: Home) -> None:
    plans = loaded(home, "[plans.team]\nsessions = 3\n").plans
    assert (plans.free.sessions, plans.team.sessions, plans.enterprise.sessions) == (2, 3, 100)
    assert (plans.free.minutes_per_month, plans.team.minutes_per_month, plans.enterprise.minutes_per_month) == (
        1000, 20_000, 0,
    )  # fmt: skip
    assert any("plans" in fault for fault in problems_of(home, "[plans.gold]\nsessions = 1\n"))


def test_secrets_of_repositories_and_organizations_are_known_as_secrets(home: Home) -> None:
    config = loaded(home, '[repos.a]\ngithub = "o/n"\ntoken_env = "GH"\n[orgs.acme]\nsecrets = ["ACME"]\nrepos=["a"]\n')
    assert {"GH", "ACME"} <= {*secret_variables(config)}
    assert {"GH", "ACME"} <= secret_names(config)


def test_decisions_depend_on_these_tables(home: Home) -> None:
    without = policy_inputs(loaded(home, ""))
    assert policy_inputs(loaded(home, '[orgs.acme]\nrepos = ["*"]\n')) != without
