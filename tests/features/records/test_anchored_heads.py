"""`receipt verify --git`: the chain held against what a repository says it once was."""

import asyncio
import json
import os
import shutil
import subprocess
import sys

import pytest

from coilclaw.features.forge.heads import anchor_heads
from coilclaw.features.records.anchored_heads import verify_anchors
from coilclaw.ledger.anchors import HEADS
from coilclaw.packets.errors import UsageError
from coilclaw.packets.forge import LEDGER
from coilclaw.sandbox.bot_repository import BOT, BotRepository, Written
from tests.features.forge.forge_home import add_heads, git
from tests.home import Sample, make


@pytest.fixture
def home(sample):
    made = sample(receipts__head_every=1)
    asyncio.run(add_heads(made, 4))
    anchor_heads(made.app)
    return made


def kinds(app, folder=None):
    report = verify_anchors(app, folder)
    assert report.valid == (not report.findings)
    return [fault.kind for fault in report.findings]


def clone(home, *options):
    folder = home.folder / "clone"
    subprocess.run(["git", "clone", "-q", *options, str(home.workspace), str(folder)], check=True)
    return folder


def change(home, data, folder=None):
    repository = BotRepository(folder or home.workspace)
    tip = repository.resolve(LEDGER)
    repository.move(LEDGER, repository.commit(tip, [Written(HEADS, data)], "change", BOT, 1), tip)


def test_the_workspace_and_clones_of_it_agree(home):
    report = verify_anchors(home.app, None)
    assert (report.valid, report.heads, report.size) == (True, 4, 4)
    assert kinds(home.app, clone(home)) == []
    shutil.rmtree(home.folder / "clone")
    assert kinds(home.app, clone(home, "--bare")) == []


def test_a_clone_that_is_behind_agrees_and_so_does_the_chain_when_it_has_moved_on(home):
    folder = clone(home)
    asyncio.run(add_heads(home, 3))
    assert kinds(home.app) == []
    anchor_heads(home.app)
    assert kinds(home.app) == []
    assert kinds(home.app, folder) == []


def test_before_anything_was_anchored_it_is_only_noted(sample):
    report = verify_anchors(sample().app, None)
    assert (report.valid, report.notes) == (True, ("nothing has been anchored yet",))


def test_a_rewritten_receipt_is_found(home):
    home.app.db.write_now(lambda tx: tx.execute("UPDATE receipts SET receipt_hash = 'x' WHERE seq = 3"))
    assert kinds(home.app) == ["rewritten"]


def test_a_rewritten_audit_event_is_found(home):
    audit = json.loads(home.app.db.reader.execute("SELECT line FROM ledger_heads WHERE size = 4").fetchone()[0])
    home.app.db.write_now(lambda tx: tx.execute("UPDATE audit_log SET link = x'00' WHERE seq = ?", (audit["audit"],)))
    assert kinds(home.app) == ["rewritten"]


def test_receipts_and_heads_that_were_dropped_are_found(home):
    def drop(tx):
        tx.execute("DELETE FROM receipts WHERE seq > 2")
        tx.execute("DELETE FROM ledger_heads WHERE size > 2")

    home.app.db.write_now(drop)
    assert kinds(home.app) == ["dropped"]


def test_a_head_dropped_from_the_home_is_found(home):
    home.app.db.write_now(lambda tx: tx.execute("DELETE FROM ledger_heads WHERE size = 2"))
    assert kinds(home.app) == ["dropped"]


def test_an_older_copy_that_went_its_own_way_is_a_fork(tmp_path):
    """Both histories were signed by the same key, so every file of the copy holds by itself."""
    home = Sample(tmp_path / "one", receipts__head_every=1)
    asyncio.run(add_heads(home, 4))
    home.close()
    shutil.copytree(home.folder, tmp_path / "copy", symlinks=True)
    home = Sample(tmp_path / "one", receipts__head_every=1)
    asyncio.run(add_heads(home, 2))
    anchor_heads(home.app)
    folder = clone(home)
    home.close()
    other = Sample(tmp_path / "copy", receipts__head_every=1)
    asyncio.run(add_heads(other, 3))
    assert kinds(other.app, folder) == ["forked", "forked"]
    other.close()


def test_a_branch_that_was_set_back_or_deleted_is_found_in_the_workspace(home):
    first = BotRepository(home.workspace).resolve(LEDGER)
    asyncio.run(add_heads(home, 2))
    anchor_heads(home.app)
    git(home.workspace, "update-ref", LEDGER, first)
    assert kinds(home.app) == ["dropped"]
    git(home.workspace, "update-ref", "-d", LEDGER)
    assert kinds(home.app) == ["dropped"]


def test_a_rebased_branch_is_told_by_its_lines(home):
    lines = BotRepository(home.workspace).read(BotRepository(home.workspace).resolve(LEDGER), HEADS).splitlines(True)
    change(home, b"".join(lines[:1] + lines[2:]))
    assert "dropped" in kinds(home.app)
    change(home, b"".join([lines[0], lines[2], lines[1], lines[3]]))
    assert "dropped" in kinds(home.app)
    change(home, b"".join(lines[:3]))
    assert kinds(home.app) == ["dropped"]


def test_heads_of_another_home_are_forged(home, tmp_path):
    make(tmp_path / "other")
    other = Sample(tmp_path / "other", receipts__head_every=1)
    asyncio.run(add_heads(other, 2))
    anchor_heads(other.app)
    other.close()
    assert kinds(home.app, other.workspace) == ["forged"]


def test_what_cannot_be_read_is_named(home):
    change(home, bytes(100 << 20))
    assert kinds(home.app) == ["damaged"]
    change(home, b"\xff\xfe\n")
    assert "damaged" in kinds(home.app)
    (home.workspace / ".git" / "refs" / "heads" / "ledger").write_text("0" * 40 + "\n")
    assert kinds(home.app) == ["damaged"]
    (home.workspace / ".git" / "refs" / "heads" / "ledger").write_bytes(b"\xff\n")
    assert kinds(home.app) == ["damaged"]


def test_broken_objects_are_named(home):
    folder = clone(home, "--bare")
    for pack in folder.glob("objects/pack/*"):
        pack.chmod(0o600)
        pack.write_bytes(b"PACK" + bytes(100))
    for loose in folder.glob("objects/??/*"):
        loose.chmod(0o600)
        loose.write_bytes(b"x")
    assert kinds(home.app, folder) == ["damaged"]


def test_a_folder_that_is_not_a_repository_is_a_usage_error(home, tmp_path):
    with pytest.raises(UsageError, match="not a git repository"):
        verify_anchors(home.app, tmp_path)


def test_nothing_of_a_clone_is_obeyed(home, tmp_path):
    """Its configuration names programs for everything git can run, and another history for what it holds."""
    folder, ran = clone(home), tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexec cat\n")
    program.chmod(0o755)
    names = ("core.fsmonitor", "core.pager", "core.sshCommand", "core.alternateRefsCommand", "gpg.program", "log.diff",
             "diff.external", "core.editor", "uploadpack.packObjectsHook", "core.gitProxy")  # fmt: skip
    for name in names:
        git(folder, "config", name, str(program))
    git(folder, "config", "log.showSignature", "true")
    git(folder, "config", "extensions.partialClone", "origin")
    git(folder, "config", "remote.origin.url", f"ext::{program}")
    tip, other = git(folder, "rev-parse", "origin/ledger").strip(), git(folder, "rev-parse", "main").strip()
    (folder / ".git" / "refs" / "replace").mkdir()
    (folder / ".git" / "refs" / "replace" / tip).write_text(other + "\n")
    (folder / ".git" / "info" / "grafts").write_text(f"{tip} {other}\n")
    assert kinds(home.app, folder) == []
    assert not ran.exists()


@pytest.mark.slow
def test_the_command_says_what_it_found_and_how_it_ended(home):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COILCLAW_")}
    environ["COILCLAW_HOME"] = str(home.home.root)

    def run(*arguments):
        code = "import sys; from coilclaw.cli import main; sys.exit(main())"
        return subprocess.run(
            [sys.executable, "-c", code, "receipt", "verify", *arguments], env=environ, capture_output=True, text=True
        )

    done = run("--git")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0, "The chain agrees with 4 anchored heads, up to receipt 4."
    )  # fmt: skip
    assert "anchored" not in run().stdout
    git(home.workspace, "update-ref", "-d", LEDGER)
    done = run("--git", str(home.workspace), "--json")
    assert done.returncode == 6
    told = json.loads(done.stdout)
    assert told["chain"]["valid"]
    assert [each["kind"] for each in told["git"]["findings"]] == ["dropped"]
    done = run("--git")
    assert "git: dropped. there is no branch `ledger`" in done.stdout
    assert "A broken ledger" in done.stderr
