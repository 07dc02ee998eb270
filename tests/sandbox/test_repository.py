"""The workspace's own repository: git looks into no nested one, and the home it belongs to is known."""

import os
import subprocess

import pytest

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.git import run_git
from coilclaw.sandbox.repository import SETTINGS, is_settled, other_homes, settle


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path / "ws"
    path.mkdir()
    run_git(path, "init", "--quiet")
    (path / "a").write_text("a\n")
    run_git(path, "add", "a")
    run_git(path, "commit", "--quiet", "-m", "a")
    return path


def home_of(tmp_path, name, workspace):
    home = tmp_path / name
    home.mkdir()
    (home / "workspace").symlink_to(workspace)
    return home


class Trap:
    """A repository that runs a program whenever git looks into it."""

    def __init__(self, workspace, sprung):
        self.workspace = workspace
        self.sprung = sprung
        self.nested = workspace / "x"
        self.git("init", "-q", str(self.nested))
        (self.nested / "f").write_text("1\n")
        self.git("-C", str(self.nested), "add", "f")
        self.git("-C", str(self.nested), "commit", "-q", "-m", "f")
        self.git("-C", str(self.nested), "config", "core.fsmonitor", f"touch {sprung}; false")
        sprung.unlink(missing_ok=True)

    def git(self, *words):
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.sprung.parent), "GIT_AUTHOR_NAME": "t",
            "GIT_AUTHOR_EMAIL": "t@localhost", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@localhost",
        }  # fmt: skip
        subprocess.run(["git", *words], cwd=self.workspace, env=environment, capture_output=True)

    def springs(self, *words):
        (self.nested / "f").write_text("2\n")
        (self.workspace / "a").write_text("b\n")
        self.git(*words)
        found = self.sprung.exists()
        self.sprung.unlink(missing_ok=True)
        return found


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("diff",), ("add", "-A"), ("stash",), ("stash", "-u"), ("commit", "-am", "x"), ("diff", "HEAD"),
        ("checkout", "-b", "y"), ("clean", "-nd"), ("submodule", "status"), ("describe", "--dirty", "--always"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_the_owners_git_runs_nothing_of_a_nested_repository(workspace, tmp_path, words):
    settle(workspace, tmp_path / "home")
    assert not Trap(workspace, tmp_path / "sprung").springs(*words)


@pytest.mark.parametrize("words", [("status",), ("diff",), ("commit", "-am", "x"), ("switch", "-c", "y")], ids=" ".join)
def test_nor_when_the_owner_added_it_without_looking(workspace, tmp_path, words):
    settle(workspace, tmp_path / "home")
    trap = Trap(workspace, tmp_path / "sprung")
    trap.git("add", "-A")
    assert not trap.springs(*words)


def test_the_trap_is_one(workspace, tmp_path):
    """Without the settings it springs: the tests above are not green for another reason."""
    trap = Trap(workspace, tmp_path / "sprung")
    trap.git("add", "-A")
    assert trap.springs("status")


def test_settling_again_changes_nothing_and_is_told_from_the_file(workspace, tmp_path):
    home = home_of(tmp_path, "home", workspace)
    assert not is_settled(workspace, home)
    settle(workspace, home)
    before = (workspace / ".git" / "config").read_text()
    assert is_settled(workspace, home)
    settle(workspace, home)
    assert (workspace / ".git" / "config").read_text() == before
    assert all(run_git(workspace, "config", "--local", key).strip() == value for key, value in SETTINGS.items())


def test_what_the_owner_set_since_stays(workspace, tmp_path):
    home = home_of(tmp_path, "home", workspace)
    settle(workspace, home)
    run_git(workspace, "config", "--local", "diff.submodule", "log")
    settle(workspace, home_of(tmp_path, "other", workspace))
    assert run_git(workspace, "config", "--local", "diff.submodule").strip() == "log"


def test_a_second_home_finds_the_first_and_one_that_shares_does_not(workspace, tmp_path):
    first, second = home_of(tmp_path, "a", workspace), home_of(tmp_path, "b", workspace)
    settle(workspace, first)
    assert other_homes(workspace, first) == []
    assert other_homes(workspace, second) == [str(first)]
    settle(workspace, second)
    assert other_homes(workspace, second) == []
    assert other_homes(workspace, first) == []


def test_a_home_that_was_moved_or_copied_with_its_workspace_is_not_another_home(workspace, tmp_path):
    first = home_of(tmp_path, "a", workspace)
    settle(workspace, first)
    moved = tmp_path / "moved"
    first.rename(moved)
    assert other_homes(workspace, moved) == []
    settle(workspace, moved)
    assert str(first) not in (workspace / ".git" / "config").read_text()


def test_a_workspace_that_is_not_a_repository_is_left_alone(tmp_path):
    settle(tmp_path, tmp_path / "home")
    assert list(tmp_path.iterdir()) == []
    assert is_settled(tmp_path, tmp_path / "home")


def test_no_repository_makes_the_runtime_reach_another_one(workspace):
    run_git(workspace, "config", "protocol.file.allow", "always")
    with pytest.raises(ToolError, match="not allowed"):
        run_git(workspace, "ls-remote", f"file://{workspace}")
