"""A box never runs without its lock on the workspace, and never on protected paths that were swapped meanwhile."""

import contextlib
import fcntl
import os
import subprocess
import sys
import threading

import pytest

from coilclaw.packets.box import BoxSpec
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.files import FileGrant, WorkspaceFiles
from coilclaw.sandbox.guard import hold

PROTECTED = ("SYSTEM.md", "policies", "jobs/later")
OWNERS = "the owner's"

HOLDER = """
import fcntl, os, sys
place = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(place, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read(1)
"""

ATTACK = """
for trick in 'echo bad > SYSTEM.md' 'echo bad > policies/rule.json' 'echo bad > policies/new.json' \
  'mv policies moved' 'rm -f SYSTEM.md' 'mkdir -p jobs/later' 'echo bad > jobs/later' 'mv SYSTEM.md moved'; do
  sh -c "$trick" 2>/dev/null && echo "WORKED $trick"
done; true
"""


@contextlib.contextmanager
def another_process_writes(workspace):
    """Somebody else has the workspace for themselves, as an approved write of the owner's files has."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(workspace)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        yield
    finally:
        holder.communicate(b"\n")


@pytest.fixture
def owned(box):
    (box.workspace / "SYSTEM.md").write_text(OWNERS)
    (box.workspace / "policies").mkdir()
    (box.workspace / "policies" / "rule.json").write_text(OWNERS)
    box.own()
    return box


def test_a_box_refuses_to_run_while_the_owners_files_are_written(owned):
    with another_process_writes(owned.workspace), pytest.raises(ToolError) as refused:
        owned.run("touch began", read_only=PROTECTED)
    assert refused.value.code == "WORKSPACE_BUSY"
    assert refused.value.begun is False
    assert refused.value.remedy
    assert not (owned.workspace / "began").exists()
    assert owned.text("echo later", read_only=PROTECTED) == "later\n"


def test_a_box_that_comes_during_a_write_waits_and_then_holds_what_was_written(owned):
    with another_process_writes(owned.workspace):
        owned.send(owned.spec(ATTACK, read_only=PROTECTED))
        aside = owned.workspace / ".SYSTEM.md.new"
        aside.write_text("the owner's new text")
        os.rename(aside, owned.workspace / "SYSTEM.md")
    assert owned.received()["result"]["stdout"] == ""
    assert (owned.workspace / "SYSTEM.md").read_text() == "the owner's new text"


def test_a_box_that_waits_for_its_lock_can_be_cancelled(owned):
    with another_process_writes(owned.workspace):
        answer = owned.ask(owned.spec("touch began", read_only=PROTECTED), cancel_after=0.2)
    assert "cancelled" in answer
    assert not (owned.workspace / "began").exists()


def test_boxes_that_start_while_the_owners_files_are_written_can_never_write_them(owned):
    """The writer is as slow as a busy disk, so nearly every box comes while it is at work."""
    stop = threading.Event()
    written: list[str] = []

    def write() -> None:
        number = 0
        place = os.open(owned.workspace, os.O_RDONLY)
        while not stop.is_set():
            fcntl.flock(place, fcntl.LOCK_EX)
            for _ in range(6):
                number += 1
                for name in ("SYSTEM.md", "policies/rule.json"):
                    aside = owned.workspace / ".aside"
                    aside.write_text(f"{OWNERS} {number}")
                    os.chown(aside, owned.uid, -1)
                    os.rename(aside, owned.workspace / name)
                stop.wait(0.005)
            written.append(f"{OWNERS} {number}")
            fcntl.flock(place, fcntl.LOCK_UN)
            stop.wait(0.03)
        os.close(place)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        answers = [owned.ask(owned.spec(ATTACK, read_only=PROTECTED)) for _ in range(15)]
    finally:
        stop.set()
        writer.join()
    ran = [answer["result"]["stdout"] for answer in answers if "result" in answer]
    refused = [answer["code"] for answer in answers if "error" in answer]
    assert len(written) > 1
    assert ran == [""] * len(ran)
    assert refused == ["WORKSPACE_BUSY"] * len(refused)
    assert (owned.workspace / "SYSTEM.md").read_text() == written[-1]
    assert (owned.workspace / "policies" / "rule.json").read_text() == written[-1]
    assert sorted(path.name for path in (owned.workspace / "policies").iterdir()) == ["rule.json"]


def test_the_write_of_an_owners_file_is_refused_while_a_box_runs_and_done_afterwards(owned):
    grant = FileGrant(asked="SYSTEM.md", root=str(owned.workspace), relative="SYSTEM.md", writable=True, alone=True)
    fifo = owned.workspace / "go"
    os.mkfifo(fifo)
    owned.own()
    owned.send(owned.spec("read word < go; echo $word > SYSTEM.md", read_only=PROTECTED))
    with open(fifo, "w") as go:  # opens once the command reads, so the box is running
        with pytest.raises(ToolError) as refused:
            WorkspaceFiles((grant,)).write("SYSTEM.md", b"new")
        go.write("bad\n")
    assert refused.value.code == "WORKSPACE_BUSY"
    assert owned.received()["result"]["exit_code"] != 0
    WorkspaceFiles((grant,)).write("SYSTEM.md", b"new")
    assert (owned.workspace / "SYSTEM.md").read_bytes() == b"new"


SWAPS = {
    "a file replaced": "mv other SYSTEM.md",
    "a file linked anew": "ln SYSTEM.md kept && rm SYSTEM.md && mv kept SYSTEM.md",
    "a file removed": "rm SYSTEM.md",
    "a folder replaced": "mv policies away && mkdir policies && cp away/rule.json policies",
    "a folder replaced by a link": "mv policies away && ln -s away policies",
    "a file in another folder": "mkdir else && mv deep/file else/file && mv deep away && mv else deep",
    "a stand-in replaced": "rmdir later && mkdir -m 1000 keeper && mkdir -m 1000 later",
    "a stand-in removed": "rmdir later",
    "the whole workspace": "mv ../workspace ../elsewhere && { cp -a ../elsewhere ../workspace 2>/dev/null || true; }",
}


@pytest.mark.parametrize("swap", SWAPS)
async def test_a_protected_path_that_was_swapped_after_the_survey_is_refused(tmp_path, swap):
    workspace = tmp_path / "workspace"
    (workspace / "policies").mkdir(parents=True)
    (workspace / "deep").mkdir()
    for name in ("SYSTEM.md", "other", "policies/rule.json", "deep/file"):
        (workspace / name).write_text(OWNERS)
    names = ("SYSTEM.md", "policies", "deep/file", "later")
    spec = BoxSpec(command="true", workspace=str(workspace), cwd=str(workspace), read_only=names)
    guard = await hold(spec, ())
    try:
        subprocess.run(["/bin/sh", "-c", SWAPS[swap]], cwd=workspace, check=True)
        with pytest.raises(ToolError) as refused:
            guard.check()
    finally:
        guard.close()
    assert (refused.value.code, refused.value.begun) == ("WORKSPACE_BUSY", False)


async def test_what_others_do_beside_protected_paths_keeps_no_box_from_running(tmp_path):
    for name in ("jobs", "free"):
        (tmp_path / name).mkdir()
    spec = BoxSpec(command="true", workspace=str(tmp_path), cwd=str(tmp_path), read_only=("jobs", "later"))
    guard = await hold(spec, ())
    (tmp_path / "jobs" / "one.md").write_text("written by the runtime")
    (tmp_path / "free" / "x").write_text("x")
    (tmp_path / "made").mkdir()
    guard.check()
    guard.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["free", "jobs", "made"]


@pytest.mark.parametrize("path", ["SYSTEM.md", "policies/new.json"])
def test_a_stand_in_left_by_a_crash_keeps_the_owner_from_writing_nothing(tmp_path, path):
    (tmp_path / path.split("/")[0]).mkdir(mode=0o700)
    (tmp_path / path.split("/")[0]).chmod(0o1000)
    grant = FileGrant(asked=path, root=str(tmp_path), relative=path, writable=True, alone=True)
    WorkspaceFiles((grant,)).write(path, b"new")
    assert (tmp_path / path).read_bytes() == b"new"
