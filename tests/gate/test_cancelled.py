"""Whoever asked goes, at any moment: what was claimed has its receipt, and nothing is left under way."""

import asyncio
import contextlib

import pytest

from coilclaw.config import Budgets
from coilclaw.packets.card import Answer

BOUNDARIES = ["proposed", "decided", "claiming", "begun", "starting", "done", "finishing", "finished"]
CALLS = {
    "file_write": {"path": "a.txt", "content": "x"},
    "shell": {"command": "make"},
    "file_read": {"path": "cron/jobs.json"},
}


def rows(home):
    """Every action: its status, and whether it counts as under way."""
    found = home.app.db.reader.execute("SELECT status, worker FROM proposed_actions")
    return [(status, worker is not None) for status, worker in found]


async def settled(home, *, allowed):
    """There is one end, with its receipt, and nothing for anybody to take up."""
    (receipt,) = home.receipts()
    status = "EXECUTED" if receipt.status == "allowed" else "UNKNOWN" if receipt.status == "unknown" else "FAILED"
    assert rows(home) == [(status, False)]
    assert receipt.status in allowed
    assert await home.conveyor().recover() == []
    return receipt


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("boundary", BOUNDARIES)
async def test_a_call_that_is_cancelled_at_a_boundary_has_one_end_and_its_receipt(sample, tool, boundary):
    home = sample(security__autonomy="full")
    running = []
    loop = asyncio.get_running_loop()

    def reached(here):
        if here == boundary:
            loop.call_soon_threadsafe(running[0].cancel)

    home.app.reached = reached
    running.append(asyncio.ensure_future(home.call(tool, **CALLS[tool])))
    with contextlib.suppress(asyncio.CancelledError):  # it may have been over by then
        await running[0]
    receipt = await settled(home, allowed=("allowed", "failed", "unknown"))
    if tool == "file_write":
        written = (home.workspace / "a.txt").exists()
        assert written == (receipt.status == "allowed") or receipt.status == "unknown"


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("tool", CALLS)
async def test_calls_that_are_cancelled_at_any_step_have_one_end_each_and_its_receipt(sample, tool, times):
    home = sample(security__autonomy="full", budgets=Budgets(tool_calls_per_minute=1000))
    for step in range(60):
        running = asyncio.ensure_future(home.call(tool, key=f"k{step}", **CALLS[tool]))
        for _ in range(min(step, 20) + 1):
            await asyncio.sleep(0)
        await asyncio.sleep(max(0, step - 20) / 2000)  # by then it waits for the disk, or is over
        for _ in range(times):
            running.cancel()
            await asyncio.sleep(0)
        with contextlib.suppress(asyncio.CancelledError):
            await running
        left = rows(home)  # one that had not begun leaves none
        assert len(home.receipts()) == len(left)
        assert {status for status, _ in left} <= {"EXECUTED", "FAILED", "UNKNOWN"}
        assert not any(under_way for _, under_way in left)
    assert await home.conveyor().recover() == []
    assert (await home.call(tool, key="last", **CALLS[tool])).result.success


async def test_a_command_whose_snapshot_was_being_made_is_not_run(sample):
    home = sample(security__autonomy="full")
    running = []
    loop = asyncio.get_running_loop()
    home.app.reached = lambda here: here == "begun" and loop.call_soon_threadsafe(running[0].cancel)
    running.append(asyncio.ensure_future(home.call("shell", command="make")))
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    receipt = await settled(home, allowed=("failed", "unknown"))
    if receipt.status == "failed":
        assert home.box.specs == []


async def test_what_a_worker_had_to_let_go_before_its_effect_is_carried_out_later(sample):
    home = sample()
    home.owner.answer = Answer(approved=None)
    outcome = await home.call("file_write", path="a.txt", content="x")
    running = []
    loop = asyncio.get_running_loop()
    home.app.reached = lambda here: here == "claiming" and loop.call_soon(running[0].cancel)
    running.append(asyncio.ensure_future(home.approve(outcome.action.action_id)))
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    home.app.reached = lambda here: None
    if not (home.workspace / "a.txt").exists():
        assert rows(home) == [("APPROVED", False)]
        assert await home.app.executor(home.conveyor()).run_due() == 1
    assert (home.workspace / "a.txt").read_text() == "x"
    assert rows(home) == [("EXECUTED", False)]
    assert [receipt.status for receipt in home.receipts()][-1] == "allowed"
