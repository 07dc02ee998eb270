"""What a job leaves in its tree: hostile names, links, large and many files are left out, refused or shown."""

import os
import subprocess

import pytest

from coilclaw.features.forge import trees, workspace
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.store import pull_of_job
from coilclaw.features.forge.views import file_diffs, shown_path
from coilclaw.sandbox.bot_repository import ForgeRefused
from tests.features.forge.forge_world import JOB, add_job

HOOK = "#!/bin/sh\ntouch {ran}\n"


class Tree:
    """A job with a tree to write into."""

    def __init__(self, home):
        self.home, self.app = home, home.app
        self.app.warn = lambda text: None
        self.forge = LocalForge(self.app)
        self.job = add_job(home)
        self.folder = self.app.config.trees_dir / JOB
        self.forge.trees.make(JOB)

    def write(self, path, data=b"x\n", mode=0o644):
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(mode)

    def publish(self):
        pull = self.forge.publish(self.job)
        return pull, {change.path for change in self.forge.changes(pull)}


@pytest.fixture
def tree(sample):
    return Tree(sample(forge__enabled=True))


def test_names_of_gits_own_links_and_pipes_are_left_out_and_told(tree, tmp_path):
    tree.write("notes/good.md")
    for name in (".git/config", "x/.GIT/hooks/post-checkout", "git~1/config", "y/.git./HEAD", "a\\b", "c:d", "e\nf"):
        tree.write(name, HOOK.format(ran=tmp_path / "ran").encode(), 0o755)
    os.symlink("/etc/passwd", tree.folder / "link")
    os.mkfifo(tree.folder / "pipe")
    os.symlink("/etc", tree.folder / "folder")
    pull, paths = tree.publish()
    ours = {path for path in paths if not path.startswith(("jobs/", "audit/"))}
    assert ours == {"notes/good.md"}
    assert "Left out" in pull.body
    assert not (tmp_path / "ran").exists()


def test_hidden_and_binary_content_is_shown_as_it_is(tree):
    tree.write("notes/a\u202eb.md", "see \u202e this \x1b[2J\n".encode())
    tree.write("notes/binary.bin", bytes(range(256)))
    tree.write("notes/headers.md", b"diff --git a/x b/x\n--- a/x\n+++ b/x\n")
    pull, _ = tree.publish()
    found = {each.path: each for each in file_diffs(tree.forge, pull, tree.forge.changes(pull), lambda text: text)}
    hidden = found["notes/a⟨U+202E⟩b.md"]
    assert "⟨U+202E⟩ this ⟨U+001B⟩[2J" in hidden.patch
    assert found["notes/binary.bin"].binary
    assert found["notes/binary.bin"].patch == ""
    assert "+diff --git a/x b/x" in found["notes/headers.md"].patch, "words of a file are no header"
    for shown in found.values():
        assert not set(shown.patch) & {"\u202e", "\x1b"}
        assert shown.patch.count("\n@@ ") <= 1


async def test_names_that_some_file_systems_take_for_others_do_not_pass(tree):
    tree.write("system.md", b"obey\n")
    tree.write("Notes/x.md")
    tree.write("notes/x.md")
    pull, _ = tree.publish()
    checked = await tree.forge.check(pull)
    paths = checked.checks[0]
    assert (paths.name, paths.passed) == ("coilclaw/paths", False)
    assert pull.risk == "R3"
    assert any("take it for" in line for line in paths.details)


async def test_attributes_and_hooks_of_a_tree_run_nothing(tree, tmp_path):
    tree.write(".gitattributes", b"* filter=evil diff=evil\n")
    tree.write("hooks/post-merge", HOOK.format(ran=tmp_path / "ran").encode(), 0o755)
    tree.write("notes/a.md", b"one\r\n")
    for key, value in {"filter.evil.clean": "rev", "filter.evil.smudge": "rev", "diff.evil.textconv": "rev"}.items():
        subprocess.run(["git", "-C", str(tree.app.workspace), "config", key, value], check=True)
    pull, paths = tree.publish()
    assert tree.forge.repository.read(pull.head_sha, "notes/a.md") == b"one\r\n"
    assert b"+one\r" in tree.forge.patch(pull, ["notes/a.md"])
    await tree.forge.check(pull)
    assert not (tmp_path / "ran").exists()
    assert "hooks/post-merge" in paths


@pytest.mark.slow
def test_a_file_of_a_hundred_megabytes_is_left_out(tree):
    tree.write("notes/good.md")
    with (tree.folder / "huge.bin").open("wb") as file:
        file.truncate(100 << 20)
    pull, paths = tree.publish()
    assert "huge.bin" not in paths
    assert "huge.bin: it is larger" in pull.body


@pytest.mark.slow
def test_more_files_than_one_pull_request_may_hold_are_refused(tree, monkeypatch):
    assert workspace.MOST_FILES == 100_000
    monkeypatch.setattr(trees, "MOST_FILES", 500)
    for number in range(501):
        tree.write(f"many/{number}")
    with pytest.raises(ForgeRefused, match="more than one pull request may hold"):
        tree.forge.publish(tree.job)
    assert pull_of_job(tree.app.db.reader, JOB) is None


def test_files_that_a_job_removed_count_as_well(tree, monkeypatch):
    monkeypatch.setattr(trees, "MOST_FILES", 1)
    for path in [path for path in tree.folder.rglob("*") if path.is_file()]:
        path.unlink()
    with pytest.raises(ForgeRefused, match="more than one pull request may hold"):
        tree.forge.publish(tree.job)


def test_a_name_that_is_no_text_is_shown_and_left_out(tree):
    tree.write("notes/good.md")
    (tree.folder / os.fsdecode(b"notes/\xff.md")).write_bytes(b"x")
    _, paths = tree.publish()
    assert not any("\udcff" in path for path in paths)
    assert shown_path(os.fsdecode(b"\xff")) == "\ufffd"
