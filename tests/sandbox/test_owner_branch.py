"""A branch of the owner's repository moves with the files that are checked out, or not at all."""

import os
import subprocess
from pathlib import Path

import pytest

from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import FileChange
from coilclaw.sandbox.bot_repository import BotRepository
from coilclaw.sandbox.owner_branch import OwnerBranch, change_fault
from tests.features.runner.repo_world import git

LINE_ONE = "one\n"


class Owned:
    """A repository of the owner's, and a commit that is ahead of its branch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        self.write("a.txt", LINE_ONE)
        self.write("sub/gone.txt", "gone\n")
        self.write("other.txt", "other\n")
        self.tip = self.commit()
        git(folder, "checkout", "-q", "-b", "work")
        self.write("a.txt", "two\n")
        self.write("new/run.sh", "#!/bin/sh\n")
        (folder / "new/run.sh").chmod(0o755)
        (folder / "new/link").symlink_to("run.sh")
        (folder / "sub/gone.txt").unlink()
        self.ahead = self.commit()
        git(folder, "checkout", "-q", "main")
        self.reached: list[str] = []

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def commit(self) -> str:
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-qm", "change")
        return git(self.folder, "rev-parse", "HEAD")

    def advance(self, reached=None, branch="main") -> None:
        repository = BotRepository(self.folder)
        changes = repository.changes(self.tip, self.ahead)
        owners = OwnerBranch(self.folder / ".git", branch)
        owners.advance(self.tip, self.ahead, changes, repository.blobs, reached or self.reached.append)

    def files(self) -> dict[Path, bytes]:
        found = (path for path in self.folder.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {path: path.read_bytes() for path in found}

    def state(self) -> tuple[str, str]:
        return git(self.folder, "rev-parse", "main"), git(self.folder, "status", "--porcelain")


@pytest.fixture
def owned(tmp_path) -> Owned:
    return Owned(tmp_path / "site")


def test_checked_out_branch_moves_with_its_files(owned):
    owned.advance()
    assert owned.state() == (owned.ahead, "")
    assert (owned.folder / "a.txt").read_text() == "two\n"
    assert os.access(owned.folder / "new/run.sh", os.X_OK)
    assert (owned.folder / "new/link").readlink() == Path("run.sh")
    assert not (owned.folder / "sub").exists()
    assert not (owned.folder / ".git/index.lock").exists()


def test_branch_that_is_checked_out_by_another_name_moves_with_its_files(owned):
    git(owned.folder, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(owned.folder, "symbolic-ref", "HEAD", "refs/heads/alias")
    owned.advance()
    assert owned.state() == (owned.ahead, "")


def test_branch_that_is_another_name_is_not_moved(owned):
    git(owned.folder, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    with pytest.raises(ToolError, match="another name"):
        owned.advance(branch="alias")
    assert owned.state() == (owned.tip, "")


def test_branch_that_is_not_checked_out_moves_alone(owned):
    git(owned.folder, "checkout", "-q", "-b", "elsewhere")
    owned.write("a.txt", "mine\n")
    owned.advance()
    assert git(owned.folder, "rev-parse", "main") == owned.ahead
    assert (owned.folder / "a.txt").read_text() == "mine\n"


def test_bare_repository_has_no_files_to_follow(owned, tmp_path):
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(owned.folder), str(bare)], check=True)
    repository = BotRepository(owned.folder)
    changes = repository.changes(owned.tip, owned.ahead)
    OwnerBranch(bare, "main").advance(owned.tip, owned.ahead, changes, repository.blobs, owned.reached.append)
    assert git(bare, "rev-parse", "main") == owned.ahead


def test_other_changes_of_the_owner_are_left_alone(owned):
    owned.write("other.txt", "mine\n")
    owned.write("staged.txt", "mine\n")
    git(owned.folder, "add", "staged.txt")
    owned.write("untracked.txt", "mine\n")
    owned.advance()
    assert owned.state() == (owned.ahead, "M other.txt\nA  staged.txt\n?? untracked.txt")


def _changed(owned):
    owned.write("a.txt", "mine\n")


def _staged(owned):
    owned.write("a.txt", "mine\n")
    git(owned.folder, "add", "a.txt")
    owned.write("a.txt", LINE_ONE)


def _untracked(owned):
    owned.write("new/run.sh", "mine\n")


def _ignored(owned):
    owned.write(".git/info/exclude", "new\n")
    owned.write("new/run.sh", "mine\n")


def _file_in_the_way(owned):
    owned.write("new", "mine\n")


def _link_in_the_way(owned):
    (owned.folder.parent / "outside").mkdir()
    (owned.folder / "new").symlink_to(owned.folder.parent / "outside")


def _filter(owned):
    owned.write(".git/info/attributes", "*.txt filter=lfs\n")


def _worktree_setting(owned):
    git(owned.folder, "config", "core.worktree", str(owned.folder.parent))


def _sparse(owned):
    git(owned.folder, "sparse-checkout", "set", "--no-cone", "/*", "!/new/")


def _busy(owned):
    owned.write(".git/MERGE_HEAD", owned.ahead + "\n")


def _locked(owned):
    owned.write(".git/index.lock", "")


def _linked_worktree(owned):
    git(owned.folder, "checkout", "-q", "-b", "elsewhere")
    git(owned.folder, "worktree", "add", "-q", "../second", "main")


@pytest.mark.parametrize(
    "hindrance",
    [
        _changed, _staged, _untracked, _ignored, _file_in_the_way, _link_in_the_way, _filter, _worktree_setting,
        _sparse, _busy, _locked, _linked_worktree,
    ],
)  # fmt: skip
def test_what_is_in_the_way_stops_it_before_anything_is_written(owned, hindrance):
    hindrance(owned)
    before = {
        path: path.read_bytes() for path in owned.folder.rglob("*") if path.is_file() and ".git" not in path.parts
    }
    with pytest.raises(ToolError) as refused:
        owned.advance()
    assert not refused.value.begun
    assert refused.value.remedy
    assert owned.files() == before
    assert (owned.folder / ".git/refs/heads/main").read_text().strip() == owned.tip
    assert not (owned.folder.parent / "outside/run.sh").exists()


def test_what_the_owner_edits_meanwhile_is_not_overwritten(owned):
    def reached(name):
        if name == "owner_file_written" and not (owned.folder / "sub/gone.txt").exists():
            owned.write("a.txt", "mine\n")

    with pytest.raises(ToolError) as refused:
        owned.advance(reached)
    assert refused.value.begun
    assert (owned.folder / "a.txt").read_text() == "mine\n"
    assert git(owned.folder, "rev-parse", "main") == owned.tip
    owned.write("a.txt", LINE_ONE)
    owned.advance()
    assert owned.state() == (owned.ahead, "")


def test_moved_branch_is_not_moved_again(owned):
    git(owned.folder, "checkout", "-q", "-b", "elsewhere")
    git(owned.folder, "update-ref", "refs/heads/main", owned.ahead)
    git(owned.folder, "checkout", "-q", "-B", "main", owned.tip)
    owned.write("more.txt", "more\n")
    newer = owned.commit()
    git(owned.folder, "checkout", "-q", "elsewhere")
    with pytest.raises(ToolError):
        owned.advance()
    assert git(owned.folder, "rev-parse", "main") == newer


class Killed(Exception):
    """Stands for a kill at a point."""


POINTS = (
    "owner_file_written:1",
    "owner_file_written:2",
    "owner_file_written:4",
    "owner_index_written:1",
    "branch_moving:1",
)


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_it_is_completed_by_the_same_call(owned, point):
    place, _, turn = point.partition(":")
    lock, seen = owned.folder / ".git/index.lock", []

    def reached(name):
        seen.append(name)
        if seen.count(place) == int(turn):
            raise Killed

    with pytest.raises(Killed):
        owned.advance(reached)
    assert git(owned.folder, "rev-parse", "main") == owned.tip
    lock.write_bytes(b"CoilClaw is merging\n")  # a kill leaves it
    owned.advance()
    assert owned.state() == (owned.ahead, "")


def test_hooks_and_monitors_of_the_repository_do_not_run(owned):
    mark = owned.folder.parent / "ran"
    for name in ("reference-transaction", "post-index-change", "post-merge", "post-checkout"):
        hook = owned.folder / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
        hook.chmod(0o755)
    git(owned.folder, "config", "core.fsmonitor", f"touch {mark}; false")
    mark.unlink(missing_ok=True)
    owned.advance()
    assert not mark.exists()
    git(owned.folder, "config", "--unset", "core.fsmonitor")
    assert owned.state()[0] == owned.ahead


def _change(path="a", mode="100644"):
    return FileChange(path=path, kind="added", old_blob="", new_blob="1" * 40, old_mode="000000", new_mode=mode)


@pytest.mark.parametrize(
    ("change", "link"),
    [
        (_change("a/.git/config"), None),
        (_change("a", "160000"), None),
        (_change("a/b", "120000"), b"../../etc"),
        (_change("a", "120000"), b"/etc/passwd"),
        (_change("a", "120000"), b".."),
        (_change("a", "120000"), b"p/q/up/../out"),  # where p/q/up is a link to the top, this leads out
        (_change("a", "120000"), b".git/hooks/pre-commit"),
        (_change("a/b", "120000"), b"../.GIT"),
        (_change("a", "120000"), b"b\0c"),
        (_change("a", "120000"), b""),
    ],
)
def test_submodules_links_out_and_names_of_git_are_faults(change, link):
    assert change_fault(change, link)


def test_links_within_the_repository_are_fine(owned):
    assert change_fault(_change("a/b", "120000"), b"../c") == ""
    assert change_fault(_change("a/b/c", "120000"), b"./../../d/.gitignore") == ""
    assert change_fault(_change("a/b"), None) == ""
