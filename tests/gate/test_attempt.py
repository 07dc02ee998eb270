"""One run of one call: over at once or after a while, stopped, too slow, and beside many others."""

import asyncio
import sqlite3
import threading

from coilclaw.config import Agent
from coilclaw.gate.turn import Turn
from coilclaw.ledger.verify import verify_ledger
from coilclaw.packets.action import OWNER, ToolCall
from coilclaw.packets.ports import ToolOutput
from coilclaw.sandbox.fake_box import FakeBox, finished
from tests.gate.test_conveyor import with_tool


async def test_estop_that_comes_with_the_first_step_ends_the_call_there(sample):
    ended = []

    async def presses(args, context):
        """Stop everything, then go on."""
        home.app.estop.engage("test", "now")
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("really")

    home = with_tool(sample, presses)
    outcome = await home.call("presses")
    assert ended == ["really"]
    assert (outcome.result.code, home.receipts()[0].status) == ("ESTOP", "unknown")


async def test_what_was_over_when_estop_came_keeps_its_end(sample):
    async def presses(args, context):
        """Stop everything, and be done."""
        home.app.estop.engage("test", "now")
        return ToolOutput(text="done", label=OWNER)

    home = with_tool(sample, presses)
    outcome = await home.call("presses")
    assert (outcome.result.output, home.receipts()[0].status) == ("done", "allowed")


async def test_a_call_of_many_steps_runs_to_its_end(sample):
    async def walks(args, context):
        """Take more than one look at the stop."""
        await asyncio.sleep(0.25)
        return ToolOutput(text="arrived", label=OWNER)

    home = with_tool(sample, walks)
    assert (await home.call("walks")).result.output == "arrived"


async def test_a_question_waits_for_the_owner_however_long_a_tool_may_take(sample):
    async def thinks(question):
        await asyncio.sleep(0.2)
        return "blue"

    home = sample(agent=Agent(tool_timeout_seconds=0.01))
    conveyor = home.app.conveyor(home.owner, thinks)
    turn = Turn("t", "", "cli")
    action = conveyor.intake.propose(ToolCall.of("ask_user", {"question": "Which colour?"}), turn, "k")
    outcome = await conveyor.carry(action, turn, stored=False)
    assert outcome.result.success
    assert "blue" in outcome.result.output


async def test_calls_at_once_share_commits_and_one_that_breaks_takes_no_other_with_it(sample):
    home = sample(security__autonomy="full")
    commits = []
    copy = home.app.ledger._copy
    home.app.db.after_commit(lambda db: (commits.append(1), copy(db)))
    keys = [*(f"k{number}" for number in range(24)), "k7"]
    busy = threading.Event()
    home.app.db.submit(lambda tx: busy.wait(60))
    calls = [asyncio.ensure_future(home.call("shell", key=key, command="ls")) for key in keys]
    await asyncio.sleep(0)  # every claim waits for the writer now
    busy.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in outcomes if isinstance(each, BaseException)] == [sqlite3.IntegrityError]
    assert len(commits) < 2 * 24  # what they would need one after the other
    assert home.statuses() == ["EXECUTED"] * 24
    for (action_id,) in home.app.db.reader.execute("SELECT action_id FROM proposed_actions").fetchall():
        told = home.app.db.reader.execute(
            "SELECT event_type FROM audit_log WHERE entity_id = ? ORDER BY seq", (action_id,)
        ).fetchall()
        assert [row[0] for row in told] == ["tool_requested", "tool_begun", "tool_completed"]
    report = verify_ledger(home.app.db.reader, home.app.config.receipts.path, home.app.signing_key)
    assert (report.valid, report.receipts) == (True, 24)


async def test_where_the_paths_of_a_known_command_lead_is_looked_up_again(sample):
    home = sample(security__autonomy="full")
    link = home.workspace / "link"
    (home.workspace / "mine").write_text("mine")
    link.symlink_to("mine")
    assert (await home.call("shell", key="k1", command="cat link")).result.success
    link.unlink()
    link.symlink_to(home.home.root)
    assert (await home.call("shell", key="k2", command="cat link")).result.code == "PATH_HOME"


async def test_what_a_command_writes_carries_what_it_could_read(sample):
    home = sample(security__autonomy="full")
    tainted = Turn("t1", "", "cli", ("untrusted:web",))
    await home.call("file_write", turn=tainted, key="k1", path="page.txt", content="what the page said")

    def makes(_):
        (home.workspace / "made.txt").write_text("WHAT THE PAGE SAID")
        return finished()

    home.app.open_box = lambda: FakeBox(makes)
    await home.call("shell", turn=Turn("t2", "", "cli"), key="k2", command="sort page.txt > made.txt")
    for path, taint in (("made.txt", ("untrusted:web",)), ("SYSTEM.md", ())):  # that, and nothing else
        turn = Turn("t3", "", "cli")
        await home.call("file_read", turn=turn, key=path, path=path)
        assert turn.taint == taint
