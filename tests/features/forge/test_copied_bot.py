"""A new bot of a copy: its files and history come along, and nothing that could run, point elsewhere or be taken for
its own records."""

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from coilclaw.cli.commands.init import init
from coilclaw.config import Home, load
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.heads import anchor_heads
from coilclaw.features.forge.verify import verify_clone
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.forge import MAIN
from tests.acceptance.auditor import Audit
from tests.features.forge.forge_home import add_heads, git, make_bot
from tests.home import Sample

RAN = "ran"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    bot = make_bot(tmp_path_factory.mktemp("original"))
    yield bot.clone(tmp_path_factory.mktemp("clone") / "clone")
    bot.home.close()


@pytest.fixture
def clone(original, tmp_path):
    subprocess.run(["cp", "-a", str(original), str(tmp_path / "clone")], check=True)
    return tmp_path / "clone"


def init_from(folder, clone, *words):
    """`coilclaw init --from`; what it said and the error it ended with."""
    env = {"COILCLAW_HOME": str(folder / "home"), "HOME": str(folder / "user")}
    result = CliRunner(env=env).invoke(init, ["--from", str(clone), *words])
    return result.output, result.exception


def commit_raw(clone, *lines):
    """A commit as only plumbing makes it: any name and any mode."""
    main = git(clone, "rev-parse", "main").strip()
    stream = (
        f"commit refs/heads/main\ncommitter x <x@x> 1800000000 +0000\ndata 1\nx\nfrom {main}\n{''.join(lines)}done\n"
    )
    subprocess.run(
        ["git", "fast-import", "--quiet", "--done", "--date-format=raw", "--force"],
        cwd=clone, input=stream.encode(), check=True,
    )  # fmt: skip


@pytest.mark.slow
def test_a_copy_is_a_new_bot_with_the_files_and_history_of_the_other(clone, tmp_path):
    said, error = init_from(tmp_path / "new", clone)
    assert error is None, (said, error)
    assert "copied" in said
    assert "policies/" in said
    workspace = tmp_path / "new" / "coilclaw-workspace"
    assert (workspace / "notes/a.md").read_text() == "other\n"
    assert not list((workspace / "jobs").rglob("job_*"))
    assert git(workspace, "status", "--porcelain") == ""
    came = git(clone, "rev-parse", "main").strip()
    assert git(workspace, "rev-parse", "main~1").strip() == came
    assert git(workspace, "rev-parse", "copied/ledger") == git(clone, "rev-parse", "origin/ledger")
    assert "ledger" not in git(workspace, "for-each-ref", "refs/heads/ledger")

    home = Sample(tmp_path / "new", forge__enabled=True)
    assert home.app.root.labels.labels_of("notes/a.md") == ("untrusted:copy",)
    assert home.app.root.labels.labels_of("SYSTEM.md") == ()
    assert LocalForge(home.app).bot.settle("by hand") == git(workspace, "rev-parse", "main").strip()
    home.close()


@pytest.mark.slow
def test_a_clone_may_be_named_from_where_one_stands(clone, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said, error = init_from(tmp_path / "new", "clone")
    assert error is None, (said, error)
    assert verify_clone(Path("clone")).valid
    monkeypatch.chdir(clone)
    assert verify_clone(Path()).valid


@pytest.mark.slow
async def test_the_new_bot_is_verified_from_its_copy_on(clone, tmp_path):
    assert init_from(tmp_path / "new", clone)[1] is None
    home = Sample(tmp_path / "new", receipts__head_every=1, forge__enabled=True)
    await add_heads(home, 2)
    anchor_heads(home.app)
    report = verify_clone(home.workspace)
    assert report.findings == ()
    assert (report.jobs, report.heads) == (0, 2)
    assert any("made of a copy" in note for note in report.notes)
    assert Audit(str(home.workspace)).run() == []
    # Nobody hides a past of their own behind such a commit.
    main = git(home.workspace, "rev-parse", "main").strip()
    tree = git(home.workspace, "rev-parse", "main^{tree}").strip()
    for when in ("4000000000 +0000", "@1 +0000"):  # a clock proves nothing: the heads name what main was
        hiding = subprocess.run(
            ["git", "-c", "user.name=O", "-c", "user.email=o@example.org", "commit-tree", "-p", main,
             "-m", f"x\n\nCopied-From: {main}", tree],
            cwd=home.workspace, env={**os.environ, "GIT_COMMITTER_DATE": when}, check=True, capture_output=True,
            text=True,
        ).stdout.strip()  # fmt: skip
        git(home.workspace, "update-ref", MAIN, hiding)
        assert [each.kind for each in verify_clone(home.workspace).findings] == ["rewritten"], when
        assert any("but heads are older" in line for line in Audit(str(home.workspace)).run())
    home.close()


@pytest.mark.slow
def test_nothing_of_the_clone_runs_or_is_taken_over(clone, tmp_path):
    ran = tmp_path / RAN
    hook = clone / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    (clone / ".gitattributes").write_text("* filter=evil text eol=crlf\n")
    git(clone, "-c", "user.name=x", "-c", "user.email=x@x", "add", ".gitattributes")
    git(clone, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "attributes")
    for key, value in {
        "filter.evil.smudge": f"touch {ran}; cat",
        "core.fsmonitor": f"touch {ran}",
        "core.hooksPath": str(hook.parent),
        "uploadpack.packObjectsHook": f"touch {ran}",
    }.items():
        git(clone, "config", key, value)
    said, error = init_from(tmp_path / "new", clone)
    assert error is None, (said, error)
    workspace = tmp_path / "new" / "coilclaw-workspace"
    assert not ran.exists()
    assert not (workspace / ".git" / "hooks").exists()
    assert "evil" not in (workspace / ".git" / "config").read_text()
    assert (workspace / "notes/a.md").read_bytes() == b"other\n"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("M 120000 inline link\ndata 11\n/etc/passwd\n", "symbolic link"),
        ("M 160000 1111111111111111111111111111111111111111 module\n", "submodule"),
        ('M 100644 inline ".git/config"\ndata 1\nx\n', "git"),
        ("M 100644 inline GIT~1/config\ndata 1\nx\n", "git"),
        ("".join(f"M 100644 inline x/{name}\ndata 1\nx\n" for name in ("HEAD", "objects/a", "refs/a")), "repository"),
    ],
)  # fmt: skip
def test_links_submodules_and_hostile_names_are_refused(clone, tmp_path, line, word):
    commit_raw(clone, line)
    _, error = init_from(tmp_path / "new", clone)
    assert isinstance(error, CoilclawError)
    assert word in str(error)
    assert not (tmp_path / "new" / "coilclaw-workspace").exists()
    assert not (tmp_path / "new" / ".coilclaw-workspace.new").exists()


def test_an_incomplete_borrowed_or_strange_folder_is_refused(clone, original, tmp_path):
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{original}", str(shallow)], check=True)
    shared = tmp_path / "shared"
    subprocess.run(["git", "clone", "-q", "--shared", str(original), str(shared)], check=True)
    (tmp_path / "empty").mkdir()
    for number, folder in enumerate((shallow, shared, tmp_path / "empty")):
        _, error = init_from(tmp_path / f"new{number}", folder)
        assert isinstance(error, CoilclawError), folder
        assert not (tmp_path / f"new{number}" / "coilclaw-workspace").exists()


def test_only_a_new_home_is_made_of_a_copy(clone, tmp_path):
    env = {"COILCLAW_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "user")}
    assert CliRunner(env=env).invoke(init, []).exit_code == 0
    before = load(Home(tmp_path / "home"), env).config.memory.path.stat().st_mtime_ns
    _, error = init_from(tmp_path, clone)
    assert "there is one" in str(error)
    assert load(Home(tmp_path / "home"), env).config.memory.path.stat().st_mtime_ns == before
