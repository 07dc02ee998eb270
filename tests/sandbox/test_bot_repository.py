"""The bot's repository: commits from bytes, merges without a work tree, names that git would accept and we do not."""

import os
import stat
import subprocess

import pytest

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.bot_repository import BotRepository, RefMoved
from coilclaw.sandbox.fast_import import BOT, OWNER, PROGRAM, ForgeRefused, Written, name_fault
from coilclaw.sandbox.git import git_version, run_git

MAIN = "refs/heads/main"
WHEN = 1_800_000_000


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "bot"
    place.mkdir()
    (place / "a.md").write_text("one\n")
    run_git(place, "init", "--quiet")
    run_git(place, "add", "a.md")
    run_git(place, "commit", "--quiet", "-m", "first")
    return place


@pytest.fixture
def repository(folder):
    return BotRepository(folder)


def commit_on(repository, parent, *written, message="change"):
    return repository.commit(parent, written, message, BOT, WHEN)


def test_a_repository_with_main_has_no_fault(repository):
    assert repository.fault() == ""
    assert git_version() is not None


def test_what_is_missing_is_reported_with_its_remedy(tmp_path):
    assert "not a git repository" in BotRepository(tmp_path).fault()
    run_git(tmp_path, "init", "--quiet")
    assert "no branch `main`" in BotRepository(tmp_path).fault()


def test_an_older_git_is_refused_with_the_remedy(repository, tmp_path, monkeypatch):
    assert repository.fault() == ""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\necho git version 2.37.9\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert "git 2.37 is too old for pull requests; install git 2.38 or newer" in repository.fault()
    assert repository.main_in_force() == ""


def test_main_in_force_is_the_same_however_git_keeps_it(repository, folder):
    first = repository.resolve(MAIN)
    assert repository.main_in_force() == first
    run_git(folder, "pack-refs", "--all")
    assert repository.main_in_force() == first
    run_git(folder, "checkout", "--quiet", "-b", "other")
    assert repository.main_in_force() == ""
    run_git(folder, "checkout", "--quiet", "main")
    (folder / ".git" / MAIN).write_text("not an id\n")
    assert repository.main_in_force() == ""


def test_a_long_file_is_named_alone_in_a_bounded_patch(repository):
    first = repository.resolve(MAIN)
    new = commit_on(repository, first, Written("long.txt", b"line\n" * 100), Written("short.txt", b"line\n"))
    patch = repository.patch(first, new, (), 100)
    assert (patch.count(b"\n+line"), patch.count(b"\nBinary files /dev/null and b/long.txt differ")) == (1, 1)
    assert repository.patch(first, new).count(b"\n+line") == 101


def test_a_commit_holds_exactly_the_bytes_it_was_given(repository):
    first = repository.resolve(MAIN)
    data = bytes(range(256)) + b"\r\n"
    new = commit_on(
        repository, first, Written("x/b.bin", data), Written("run.sh", b"#!/bin/sh\n", PROGRAM), Written("a.md", None)
    )
    assert repository.resolve(MAIN) == first, "no reference moves by itself"
    assert repository.references("refs/coilclaw") == {}
    entries = repository.entries(new)
    assert {path: entry.mode for path, entry in entries.items()} == {"x/b.bin": "100644", "run.sh": "100755"}
    assert repository.read(new, "x/b.bin") == data
    assert repository.read(new, "a.md") is None


def test_the_same_commit_twice_is_the_same_commit(repository):
    first = repository.resolve(MAIN)
    assert commit_on(repository, first, Written("b.md", b"b")) == commit_on(repository, first, Written("b.md", b"b"))


@pytest.mark.parametrize(
    "name",
    [".git/config", "a/.GIT/hooks/x", "git~1/config", "../x", "a/../b", "./a", "a//b", "", "x\ny", "a\\b", "a:b",
     ".git", "a/.git", "x" * 300, "\udcff"],
)  # fmt: skip
def test_names_that_git_would_take_are_refused(repository, name):
    assert name_fault(name)
    with pytest.raises(ForgeRefused):
        commit_on(repository, repository.resolve(MAIN), Written(name, b"x"))


def test_links_and_submodules_cannot_be_committed(repository):
    for mode in ("120000", "160000", "040000"):
        with pytest.raises(ForgeRefused):
            commit_on(repository, repository.resolve(MAIN), Written("x", b"target", mode))


@pytest.mark.parametrize("name", ['quote".md', "späße/ü.md", "a b.md", "-dash", "tab.md"])
def test_odd_but_honest_names_come_back_as_they_are(repository, name):
    first = repository.resolve(MAIN)
    new = commit_on(repository, first, Written(name, b"x"))
    assert name in repository.entries(new)
    assert repository.read(new, name) == b"x"
    assert [change.path for change in repository.changes(first, new)] == [name]


def test_a_reference_moves_only_from_where_it_was(repository):
    first = repository.resolve(MAIN)
    new = commit_on(repository, first, Written("b.md", b"b"))
    repository.move("refs/heads/job/x", new, "")
    with pytest.raises(RefMoved):
        repository.move("refs/heads/job/x", first, "")
    with pytest.raises(RefMoved):
        repository.move(MAIN, new, new)
    repository.move(MAIN, new, first)
    assert repository.resolve(MAIN) == new


def test_a_merge_touches_no_file_and_names_conflicts(repository, folder):
    first = repository.resolve(MAIN)
    ours = commit_on(repository, first, Written("b.md", b"ours"))
    theirs = commit_on(repository, first, Written("c.md", b"theirs"))
    clean = repository.merge(ours, theirs)
    assert clean.conflicts == ()
    merged = repository.commit_tree(clean.tree, [ours, theirs], "Merge", OWNER, WHEN)
    assert set(repository.entries(merged)) == {"a.md", "b.md", "c.md"}
    repository.move(MAIN, merged, first)
    assert repository.merged_as(theirs, merged) == merged
    assert repository.merged_as(first, merged) == ""
    assert repository.leads_to(first, merged)
    assert not repository.leads_to(merged, first)
    other = commit_on(repository, first, Written("b.md", b"other"))
    torn = repository.merge(merged, other)
    assert torn.conflicts == ("b.md",)
    assert b"<<<<<<<" in repository.read(repository.commit_tree(torn.tree, [merged], "x", BOT, WHEN), "b.md")
    assert sorted(os.listdir(folder)) == [".git", "a.md"]


@pytest.mark.parametrize("setting", [("merge.renames", "false"), ("merge.renameLimit", "1")])
def test_settings_of_the_owners_git_make_no_merge_another_one(repository, folder, setting):
    """Whoever verifies a clone merges again, and has other settings."""
    names = [f"{name}.md" for name in "abc"]
    texts = {name: f"{name}\n".encode() * 20 for name in names}
    base = commit_on(repository, "", *(Written(name, text) for name, text in texts.items()))
    moved = (Written(f"moved/x-{name}", b"first\n" + text) for name, text in texts.items())
    ours = commit_on(repository, base, *(Written(name, None) for name in names), *moved)
    theirs = commit_on(repository, base, *(Written(name, text + b"more\n") for name, text in texts.items()))
    run_git(folder, "config", *setting)
    assert repository.merge(ours, theirs).conflicts == ()


def test_a_commit_that_is_gone_leads_nowhere_but_a_damaged_history_is_said(repository, folder):
    first = repository.resolve(MAIN)
    new = commit_on(repository, first, Written("b.md", b"b"))
    assert not repository.leads_to("a" * 40, new)
    (folder / ".git" / "objects" / new[:2] / new[2:]).unlink()
    with pytest.raises(ToolError, match="merge-base failed"):
        repository.leads_to(first, new)


def test_a_commit_goes_onto_references_wherever_they_led(repository):
    first = repository.resolve(MAIN)
    names = ("refs/heads/job/x", "refs/pull/1/head")
    for text in (b"one", b"two"):
        head = repository.commit(first, [Written("b.md", text)], "x", BOT, WHEN, onto=names)
        assert [repository.resolve(name) for name in names] == [head, head]
    assert repository.read(head, "b.md") == b"two"
    assert repository.resolve(MAIN) == first
    assert repository.references("refs/coilclaw") == {}


def test_sizes_are_told_and_a_missing_object_is_said(repository):
    head = commit_on(repository, repository.resolve(MAIN), Written("b.md", b"four"), Written("c.md", b""))
    blobs = [repository.entry(head, path).blob for path in ("b.md", "c.md", "b.md")]
    assert repository.blob_sizes(blobs) == {blobs[0]: 4, blobs[1]: 0}
    assert repository.blob_sizes(()) == {}
    after = commit_on(repository, head, Written("b.md", None), Written("c.md", b"two"))
    assert repository.change_sizes(repository.changes(head, after)) == [(4, 0), (0, 3)]
    with pytest.raises(ForgeRefused, match="missing or damaged"):
        repository.blob_sizes([*blobs, "a" * 40])


def test_a_commit_can_take_its_files_from_another_commit(repository):
    first = repository.resolve(MAIN)
    other = commit_on(repository, first, Written("b.md", b"b"))
    new = repository.commit(first, [Written("c.md", b"c")], "as other", BOT, WHEN, base=other)
    assert set(repository.entries(new)) == {"a.md", "b.md", "c.md"}


def test_attributes_of_the_tree_hide_nothing_and_run_nothing(repository, folder, tmp_path):
    marker = tmp_path / "ran"
    first = repository.resolve(MAIN)
    old = commit_on(
        repository,
        first,
        Written(".gitattributes", b"* -diff filter=evil diff=evil\n"),
        Written("s.txt", b"before\n"),
    )
    for key in ("filter.evil.smudge", "filter.evil.clean", "diff.evil.textconv", "diff.evil.command"):
        run_git(folder, "config", key, f"touch {marker}")
    (folder / ".gitattributes").write_text("* -diff filter=evil diff=evil\n")
    new = commit_on(repository, old, Written("s.txt", b"after\n"))
    assert b"-before" in repository.patch(old, new)
    assert b"+after" in repository.patch(old, new)
    repository.export(new, _empty(tmp_path / "tree"))
    assert (tmp_path / "tree" / "s.txt").read_bytes() == b"after\n"
    assert not marker.exists()


def _empty(folder):
    folder.mkdir()
    return folder


def test_an_exported_tree_is_plain_files_alone(repository, folder, tmp_path):
    (folder / "link").symlink_to("/etc/passwd")
    run_git(folder, "add", "link")
    run_git(folder, "commit", "--quiet", "-m", "a link of the owner's")
    new = commit_on(repository, repository.resolve(MAIN), Written("bin/x", b"#!/bin/sh\n", PROGRAM))
    tree = _empty(tmp_path / "tree")
    repository.export(new, tree)
    assert not (tree / ".git").exists()
    assert (tree / "link").is_file()
    assert not (tree / "link").is_symlink()
    assert stat.S_IMODE((tree / "bin/x").stat().st_mode) & 0o100
    assert "link" not in repository.entries(new)
    assert repository.modes(new)["link"] == "120000"


def test_what_is_not_an_object_is_not_handed_to_git(repository):
    for text in ("--upload-pack=x", "main", "", "HEAD~1"):
        with pytest.raises(ForgeRefused):
            repository.entries(text)


def test_a_broken_object_is_named(repository, folder):
    first = repository.resolve(MAIN)
    blob = repository.entries(first)["a.md"].blob
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(ToolError, match="missing or damaged"):
        repository.read(first, "a.md")


def test_the_log_tells_author_time_and_trailers(repository):
    first = repository.resolve(MAIN)
    new = repository.commit(first, [Written("b", b"b")], "Subject\n\nBody.\n\nJob: job_1\n", OWNER, WHEN)
    newest = repository.log(new, 5)[0]
    assert (newest.sha, newest.parents, newest.subject) == (new, (first,), "Subject")
    assert newest.author == "Owner <owner@localhost>"
    assert "Job: job_1" in newest.body
    assert subprocess.run(["git", "-C", repository.folder, "fsck", "--strict"], check=False).returncode == 0


@pytest.mark.slow
def test_a_reference_that_is_locked_has_not_moved_and_the_lock_is_named(repository):
    first = repository.resolve(MAIN)
    new = commit_on(repository, first, Written("b.md", b"b"))
    lock = repository.folder / ".git" / f"{MAIN}.lock"
    lock.touch()
    with pytest.raises(ForgeRefused, match="is locked") as refused:
        repository.move(MAIN, new, first)
    assert str(lock) in refused.value.remedy


def test_the_message_of_a_git_that_failed_names_the_file_in_its_way(repository):
    lock = repository.folder / ".git" / "index.lock"
    lock.touch()
    with pytest.raises(ToolError, match=r"index\.lock"):
        repository.refresh_index(repository.resolve(MAIN))
