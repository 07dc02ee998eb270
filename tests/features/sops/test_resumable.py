"""Runs begun at a terminal whose answer comes by another door: a worker goes on with them, once."""

import asyncio

import pytest

from coilclaw.features.sops.procedures import Procedures
from coilclaw.features.sops.resume_chore import answered_runs
from coilclaw.features.sops.store import WORKER_NAME, to_go_on_with
from coilclaw.store.actions import waiting_actions
from coilclaw.store.sops import claim_run, move_run, steps_of_run
from tests.features.conftest import Office

LIST = 'id = "list"\nkind = "tool"\ntool = "file_list"\nargs = { path = "sops" }'
ASK = 'id = "ask"\nkind = "approval"\nprompt = "Shall it go on?"'
AGAIN = 'id = "again"\nkind = "approval"\nprompt = "And further?"'
NOTE = 'id = "note"\nkind = "tool"\ntool = "notes_write"\nargs = { title = "t", content_from = "list" }'
THINK = 'id = "think"\nkind = "agent"\nprompt = "Think about it."'


class Counter(Office):
    """An office where procedures are run at the terminal, with nobody at it."""

    @property
    def chore(self):
        return answered_runs(self.app, self.background.conveyor)

    async def begin(self, *steps):
        folder = self.home.workspace / "sops" / "x"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SOP.toml").write_text('name = "x"\n' + "".join(f"[[steps]]\n{step}\n" for step in steps))
        procedures = Procedures(self.app)
        begun = await procedures.start("x")
        return (await procedures.go_on(begun.run_id)).run

    async def work(self):
        return await self.drain(chores=(self.chore,))

    def now(self, run):
        return Procedures(self.app).find(run.run_id)

    def notes(self):
        return self.app.db.reader.execute("SELECT count(*) FROM notes WHERE title = 't'").fetchone()[0]

    def step_states(self, run):
        return [row.state for row in steps_of_run(self.app.db.reader, run.run_id).values()]


@pytest.fixture
def counter(sample):
    return Counter(sample())


async def test_a_worker_continues_when_the_answer_came_elsewhere(counter):
    run = await counter.begin(LIST, ASK, NOTE, AGAIN)
    assert run.state == "WAITING"
    await counter.work()
    assert counter.now(run).state == "WAITING"
    assert counter.notes() == 0
    await counter.answer()
    await counter.work()
    assert "again" in counter.now(run).reason
    assert counter.notes() == 1
    await counter.answer()
    await counter.work()
    assert counter.now(run).state == "DONE"
    await counter.work()
    assert counter.notes() == 1
    assert [receipt.tool for receipt in counter.home.receipts()] == [
        "file_list", "sop_approval", "notes_write", "sop_approval",
    ]  # fmt: skip


async def test_a_refusal_elsewhere_ends_the_run(counter):
    run = await counter.begin(ASK, LIST, NOTE)
    await counter.answer(approve=False, reason="no")
    await counter.work()
    assert counter.now(run).state == "FAILED"
    assert counter.notes() == 0


async def test_two_workers_and_a_terminal_do_each_step_once(counter):
    run = await counter.begin(LIST, ASK, NOTE)
    await counter.answer()
    await counter.app.executor(counter.background.conveyor).run_due()
    await asyncio.gather(counter.chore.run(), counter.chore.run(), counter.chore.run())
    assert counter.now(run).state == "DONE"
    assert counter.notes() == 1


async def test_a_run_that_somebody_holds_is_left_to_them(counter):
    run = await counter.begin(LIST, ASK, NOTE)
    await counter.answer()
    await counter.app.executor(counter.background.conveyor).run_due()
    db, clock = counter.app.db, counter.app.clock
    with Procedures(counter.app)._named("sops") as holder:
        await db.write(lambda tx: claim_run(tx, clock, run.run_id, holder, lambda _: True))
        assert await counter.chore.run() == 0
        assert counter.notes() == 0
    assert await counter.chore.run() == 1  # gone without a word
    assert counter.notes() == 1


async def test_what_a_killed_worker_held_the_next_one_takes_up_and_what_a_terminal_held_stays(counter):
    for holder, taken in ((f"{WORKER_NAME}_gone", True), ("sops_gone", False), ("behindhand_gone", False)):
        run = await counter.begin(LIST, ASK)

        def cut(tx, run=run, holder=holder):
            claim_run(tx, counter.app.clock, run.run_id, holder, lambda _: True)
            move_run(tx, counter.app.clock, run.run_id, state="RUNNING")

        await counter.app.db.write(cut)
        await counter.chore.run()
        after = counter.now(run)
        assert after.state == ("WAITING" if taken else "RUNNING")
        assert Procedures(counter.app).cut_off(after) is not taken


async def test_estop_holds_it_and_afterwards_it_continues(counter):
    run = await counter.begin(LIST, ASK, NOTE)
    await counter.answer()
    await counter.app.executor(counter.background.conveyor).run_due()
    counter.app.estop.engage("test", "now")
    assert await counter.chore.run() == 0
    assert counter.notes() == 0
    counter.app.estop.clear()
    await counter.work()
    assert counter.now(run).state == "DONE"


async def test_a_worker_that_is_stopped_in_the_middle_leaves_it_to_the_next(counter):
    counter.home.script({"text": "never", "delay": 600})
    run = await counter.begin(LIST, ASK, THINK, NOTE)
    await counter.answer()
    await counter.app.executor(counter.background.conveyor).run_due()
    work = asyncio.ensure_future(counter.chore.run())
    while len(counter.step_states(run)) < 3:
        await asyncio.sleep(0.01)
    work.cancel()
    await asyncio.wait({work})
    after = counter.now(run)
    assert after.state == "WAITING"
    assert "the next one continues" in after.reason
    assert [run_id for run_id, _ in to_go_on_with(counter.app.db.reader)] == [run.run_id]


async def test_what_cannot_continue_is_reported_and_left_to_the_owner(counter):
    run = await counter.begin(LIST, ASK, NOTE)
    await counter.answer()
    await counter.app.executor(counter.background.conveyor).run_due()
    await counter.app.db.write(lambda tx: tx.execute("UPDATE sop_runs SET sop_json = '{' WHERE 1"))
    chore = counter.chore
    assert await chore.run() == 1
    assert await chore.run() == 0
    assert counter.notes() == 0
    assert counter.now(run).state == "WAITING"


async def test_a_run_that_was_answered_says_so(counter):
    run = await counter.begin(LIST, ASK, NOTE)
    assert "is waiting for your answer" in counter.now(run).reason
    assert not Procedures(counter.app).answered(run)
    await counter.answer()
    told = counter.now(run)
    assert "been answered" in told.reason
    assert f"coilclaw sop resume {run.run_id}" in told.reason
    assert waiting_actions(counter.app.db.reader, 9) == []
