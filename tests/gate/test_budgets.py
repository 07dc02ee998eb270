"""Budgets hold for the agent: they keep neither the owner out, nor everybody for ever."""

import pytest

from coilclaw.config import Budgets
from coilclaw.gate.turn import Turn


@pytest.fixture
def home(sample, clock):
    made = sample(budgets=Budgets(tool_calls_per_minute=3, open_proposals=2))
    made.app.clock = clock
    return made


async def codes(home, calls, *, source="chat", tool="notes_write", **args):
    """What comes of so many calls."""
    if tool == "notes_write":
        args = {"title": "t", "content": "c"}
    turn = Turn(f"turn_{source}", "", source)
    done = [
        await home.call(tool, turn=turn, key=f"{source}-{tool}-{number}-{len(home.statuses())}", **args)
        for number in range(calls)
    ]
    return [outcome.result.code or outcome.action.decision.code for outcome in done]


async def test_what_is_refused_for_being_too_much_does_not_continue_counting(home, clock):
    assert await codes(home, 5) == ["ALLOWED"] * 3 + ["RATE_LIMITED"] * 2
    clock.advance(seconds=50)
    assert await codes(home, 2) == ["RATE_LIMITED"] * 2
    clock.advance(seconds=11)
    assert await codes(home, 1) == ["ALLOWED"]


async def test_local_reads_of_a_conversation_use_up_nothing(home):
    (home.workspace / "a.txt").write_text("a")
    assert await codes(home, 20, tool="file_read", path="a.txt") == ["ALLOWED"] * 20
    assert await codes(home, 4) == ["ALLOWED"] * 3 + ["RATE_LIMITED"]
    assert await codes(home, 1, tool="file_read", path="a.txt") == ["ALLOWED"]


async def test_reads_in_the_background_are_counted(home):
    assert (await codes(home, 4, source="job", tool="time"))[-1] == "RATE_LIMITED"


async def test_the_owners_own_hand_is_not_held_by_what_the_agent_used_up(home):
    assert (await codes(home, 4))[-1] == "RATE_LIMITED"
    assert await codes(home, 4, source="gateway") == ["ALLOWED"] * 4
    assert (await codes(home, 1))[-1] == "RATE_LIMITED"


async def test_a_full_queue_does_not_keep_the_owner_from_writing_a_rule(sample):
    from coilclaw.packets.card import Answer

    home = sample(budgets=Budgets(tool_calls_per_minute=100, open_proposals=2))
    home.owner.answer = Answer(approved=None)
    write = {"tool": "file_write", "path": "a.txt", "content": "x"}
    assert (await codes(home, 3, **write))[-1] == "TOO_MANY_PROPOSALS"
    assert "TOO_MANY_PROPOSALS" not in await codes(home, 1, source="gateway", **write)


@pytest.mark.parametrize("source", ["job", "schedule", "sop", "session"])
async def test_work_in_the_background_leaves_a_quarter_of_the_calls_to_conversations(sample, source):
    home = sample(budgets=Budgets(tool_calls_per_minute=8))
    assert await codes(home, 8, source=source) == ["ALLOWED"] * 6 + ["RATE_LIMITED"] * 2
    assert await codes(home, 3) == ["ALLOWED"] * 2 + ["RATE_LIMITED"]


async def test_what_the_owner_did_is_not_counted_against_the_share_of_the_background(sample):
    home = sample(budgets=Budgets(tool_calls_per_minute=8))
    assert await codes(home, 8, source="gateway") == ["ALLOWED"] * 8
    assert await codes(home, 6, source="job") == ["ALLOWED"] * 6


async def test_work_in_the_background_leaves_room_for_questions_of_conversations(sample):
    from coilclaw.packets.card import Answer

    home = sample(budgets=Budgets(tool_calls_per_minute=100, open_proposals=4))
    home.owner.answer = Answer(approved=None)
    write = {"tool": "file_write", "path": "a.txt", "content": "x"}
    assert (await codes(home, 4, source="job", **write))[2:] == ["APPROVAL_NEEDED", "TOO_MANY_PROPOSALS"]
    assert "TOO_MANY_PROPOSALS" not in await codes(home, 1, **write)
    assert (await codes(home, 1, **write)) == ["TOO_MANY_PROPOSALS"]


async def test_rows_of_a_clock_that_ran_ahead_lock_nobody_out(home, clock):
    clock.advance(days=1)
    assert await codes(home, 3) == ["ALLOWED"] * 3
    clock.advance(days=-1)
    assert await codes(home, 1) == ["ALLOWED"]
