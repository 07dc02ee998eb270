"""Whatever breaks around a call, what was claimed has its end: written at once, or as soon as it can be."""

import asyncio
import contextlib
import os
import sqlite3

import pytest

from coilclaw.gate.turn import Turn
from coilclaw.packets.card import Answer
from coilclaw.packets.errors import StorageError
from coilclaw.sandbox.fake_box import FakeBox, finished


def rows(home):
    found = home.app.db.reader.execute("SELECT status, worker FROM proposed_actions ORDER BY rowid")
    return [(status, worker is not None) for status, worker in found]


def link_to_no_text(home):
    os.symlink(b"\xff\xfe", os.fsencode(home.workspace) + b"/l")


async def test_a_link_to_an_undecodable_name_breaks_neither_commands_nor_undo(sample):
    home = sample(security__autonomy="full")
    home.owner.answer = Answer(approved=True)
    (home.workspace / "f.txt").write_text("one")
    link_to_no_text(home)

    def write(_):
        (home.workspace / "f.txt").write_text("two")
        return finished()

    home.box = FakeBox(write)
    assert (await home.call("shell", command="make")).result.success
    assert rows(home) == [("EXECUTED", False)]
    assert "This cannot be undone: l (it points to a name that is not UTF-8) cannot be kept." in str(home.owner.cards)
    assert (await home.call("undo", key="u")).result.success
    assert (home.workspace / "f.txt").read_text() == "one"


@pytest.mark.parametrize("tool", ["file_write", "shell"])
async def test_what_breaks_between_the_claim_and_the_receipt_is_an_end_of_its_own(sample, tool):
    home = sample(security__autonomy="full")

    def reached(here):
        if here == "done":
            raise RuntimeError("broken on the way")

    home.app.reached = reached
    args = {"command": "make"} if tool == "shell" else {"path": "a.txt", "content": "x"}
    outcome = await home.call(tool, **args)
    assert outcome.result.code == "GATE_BROKE"
    assert rows(home) == [("UNKNOWN" if tool == "shell" else "FAILED", False)]
    assert len(home.receipts()) == 1


async def test_an_end_that_could_not_be_written_is_written_as_soon_as_it_can_be(sample):
    home = sample(security__autonomy="full")
    full = [True]

    def reached(here):
        if here == "finishing" and full[0]:
            raise sqlite3.OperationalError("database or disk is full")

    home.app.reached = reached
    conveyor = home.conveyor()
    turn = Turn("turn_1", "", "cli")
    from coilclaw.packets.action import ToolCall

    action = conveyor.intake.propose(ToolCall.of("file_write", {"path": "a.txt", "content": "x"}), turn, "k")
    with pytest.raises(StorageError):
        await conveyor.carry(action, turn, stored=False)
    with pytest.raises(StorageError):
        await conveyor.recover()
    assert home.receipts() == []
    full[0] = False
    (outcome,) = await conveyor.recover()
    assert outcome.receipt.status == "allowed"
    assert rows(home) == [("EXECUTED", False)]
    assert await conveyor.recover() == []
    assert len(home.receipts()) == 1


@pytest.mark.parametrize("by", ["estop", "cancel"])
async def test_an_undo_is_over_when_it_says_so(sample, by):
    home = sample(security__autonomy="full")
    home.owner.answer = Answer(approved=True)
    names = [f"f{number}.txt" for number in range(400)]
    for name in names:
        (home.workspace / name).write_text("one")

    def ruin(_):
        for name in names:
            (home.workspace / name).write_text("two")
        return finished()

    home.box = FakeBox(ruin)
    await home.call("shell", command="make")

    def back():
        return sum((home.workspace / name).read_text() == "one" for name in names)

    running = asyncio.ensure_future(home.call("undo", key="u"))
    while not back() and not running.done():
        await asyncio.sleep(0.001)
    if by == "estop":
        home.app.estop.engage("test", "now")
    else:
        running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    then = back()
    await asyncio.sleep(0.3)
    assert back() == then
    # A stop that comes while the last file goes back may be recorded as a stop all the same.
    assert home.receipts()[-1].status in (("allowed", "failed") if then == len(names) else ("failed",))


async def test_an_approved_write_that_was_put_back_still_refuses_a_file_that_changed_since(sample):
    home = sample()
    (home.workspace / "a.txt").write_text("as shown")
    home.owner.answer = Answer(approved=None)
    outcome = await home.call("file_write", path="a.txt", content="x")
    running = []
    home.app.reached = lambda here: here == "claiming" and running[0].cancel()
    running.append(asyncio.ensure_future(home.approve(outcome.action.action_id)))
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    home.app.reached = lambda here: None
    assert rows(home) == [("APPROVED", False)]
    (home.workspace / "a.txt").write_text("newer")
    await home.app.executor(home.conveyor()).run_due()
    assert (home.workspace / "a.txt").read_text() == "newer"
    assert home.receipts()[-1].code == "DIGEST_CHANGED"
