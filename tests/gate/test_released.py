"""What never began is not unknown: the release of an effect is noted before it, and recovery reads the notes."""

import asyncio
import signal

import pytest

from coilclaw.packets.card import Answer
from coilclaw.store.actions import load_action
from tests import forked
from tests.home import Sample

DIES = """
import asyncio, os, signal, sys
from pathlib import Path
from coilclaw.sandbox.fake_box import FakeBox
from tests.home import Sample

folder, point, tool, autonomy = Path(sys.argv[1]), *sys.argv[2:]
home = Sample(folder, security__autonomy=autonomy)

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

home.app.reached = lambda here: die() if here == point else None
if point == "running":
    home.box._answer = die
calls = {"shell": {"command": "make"}, "file_write": {"path": "a.txt", "content": "x"}}
asyncio.run(home.call(tool, **calls[tool]))
"""


def killed(folder, point, tool="shell", autonomy="full"):
    """A process that dies there, with nobody to take leave of."""
    done = forked.script(DIES, str(folder), point, tool, autonomy)
    assert done.returncode == -signal.SIGKILL, done.stderr


def statuses(home):
    return [row[0] for row in home.app.db.reader.execute("SELECT status FROM proposed_actions")]


@pytest.mark.parametrize("point", ["begun", "starting"])
async def test_a_command_that_was_never_released_is_failed_and_not_unknown(tmp_path, point):
    killed(tmp_path, point)
    home = Sample(tmp_path, security__autonomy="full")
    (outcome,) = await home.conveyor().recover()
    assert statuses(home) == ["FAILED"]
    assert (outcome.receipt.status, outcome.receipt.code) == ("failed", "INTERRUPTED")
    assert "no effect" in outcome.result.output
    assert home.box.specs == []


async def test_a_command_that_may_have_begun_is_unknown(tmp_path):
    killed(tmp_path, "running")
    home = Sample(tmp_path, security__autonomy="full")
    (outcome,) = await home.conveyor().recover()
    assert statuses(home) == ["UNKNOWN"]
    assert outcome.receipt.status == "unknown"


async def test_after_a_restart_of_the_machine_nothing_is_concluded_from_missing_notes(tmp_path):
    killed(tmp_path, "starting")
    home = Sample(tmp_path, security__autonomy="full")
    (lock,) = home.home.locks_dir.glob("worker_*.lock")
    lock.write_bytes(b"0" * 36 + b"\n")  # the id of another boot
    await home.conveyor().recover()
    assert statuses(home) == ["UNKNOWN"]


async def test_a_command_the_owner_approved_and_that_was_never_released_is_run_once_more(tmp_path):
    killed(tmp_path, "starting", autonomy="supervised")
    home = Sample(tmp_path)
    (outcome,) = await home.conveyor().recover()
    assert outcome.again
    assert statuses(home) == ["APPROVED"]
    assert await home.app.executor(home.conveyor()).run_due() == 1
    assert statuses(home) == ["EXECUTED"]
    assert len(home.box.specs) == 1
    assert [receipt.status for receipt in home.receipts()] == ["failed", "allowed"]


async def test_what_can_be_repeated_is_repeated_whether_it_began_or_not(tmp_path):
    killed(tmp_path, "begun", tool="file_write")
    home = Sample(tmp_path, security__autonomy="full")
    await home.conveyor().recover()
    await home.app.executor(home.conveyor()).run_due()
    assert statuses(home) == ["EXECUTED"]
    assert (home.workspace / "a.txt").read_text() == "x"


@pytest.mark.parametrize("point", ["proposed", "begun", "running", "done", "finished"])
async def test_no_lock_file_of_a_killed_process_is_left_after_the_next_start(tmp_path, point):
    killed(tmp_path, point)
    home = Sample(tmp_path, security__autonomy="full")
    await home.app.executor(home.conveyor()).tidy()
    home.app.close()
    assert list(home.home.locks_dir.glob("*_*.lock")) == []


async def cancelled(home, **call):
    running = asyncio.ensure_future(home.call("shell", **call))
    while not home.box.specs:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (action_id,) = (row[0] for row in home.app.db.reader.execute("SELECT action_id FROM proposed_actions"))
    (receipt,) = home.receipts()
    return load_action(home.app.db.reader, action_id), receipt


async def test_ctrl_c_on_a_boxed_command_without_network_is_cancelled_and_names_undo(sample):
    home = sample(security__autonomy="full")
    home.box.hang = True
    action, receipt = await cancelled(home, command="make")
    assert (receipt.status, receipt.code) == ("failed", "CANCELLED")
    assert action.status == "FAILED"
    assert action.rejection_reason.startswith("cancelled")
    assert "coilclaw undo" in action.rejection_reason


async def test_ctrl_c_on_a_command_with_a_way_out_is_still_unknown(sample):
    home = sample(security__autonomy="full", security__allowed_domains=("example.com",))
    home.owner.answer = Answer(approved=True, by="terminal")
    home.box.hang = True
    action, receipt = await cancelled(home, command="make", domains=["example.com"])
    assert (receipt.status, receipt.code) == ("unknown", "CANCELLED")
    assert action.status == "UNKNOWN"
