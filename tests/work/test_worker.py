"""The worker as a scheduler: slots, chores, stopping, and trouble that is no job's fault."""

import asyncio

import pytest

from coilclaw.packets.errors import StorageError
from coilclaw.packets.job import JobSpec
from coilclaw.store.jobs import JobBudget, JobRow, JobUnreadable
from coilclaw.work.worker import TROUBLE_SECONDS, Chore, Claimed, Worker


def job(number):
    job_id = f"job_{number}"
    spec = JobSpec(job_id=job_id, intent="g")
    return JobRow(
        job_id=job_id, thread_id="t", goal="g", state="EXECUTING", spec=spec, budget=JobBudget(tokens=1, steps=1)
    )


class Shop:
    """Jobs on a list, a clock that stands still, and what the worker said."""

    def __init__(self, jobs=0, **more):
        self.left = [job(number) for number in range(jobs)]
        self.now = 1000.0
        self.said = []
        self.held = False
        self.most = self.running = 0
        self.done = []
        self.pause = asyncio.sleep
        self.fault = None
        slots = more.pop("slots", 2)
        self.worker = Worker(
            claim=self.claim, wake=self.wake, chores=more.pop("chores", ()), held=lambda: self.held,
            slots=lambda: slots, say=lambda event, fields: self.said.append((event, fields)),
            now=lambda: self.now, poll_seconds=0.01, grace_seconds=more.pop("grace", 0.05),
            unsaid_seconds=more.pop("unsaid", 0.0),
        )  # fmt: skip

    async def claim(self, running):
        if self.fault is not None:
            raise self.fault
        row = self.left.pop(0) if self.left else None
        return None if row is None else Claimed(id=row.job_id, run=lambda stopping: self.work(row, stopping))

    async def wake(self):
        return 0

    async def work(self, row, stopping):
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.pause(0)
            self.done.append(row.job_id)
        finally:
            self.running -= 1

    def heard(self, event):
        return [fields for name, fields in self.said if name == event]


async def test_everything_due_is_done_and_no_more_at_once_than_there_are_slots():
    shop = Shop(jobs=7, slots=3)
    tally = await shop.worker.drain(asyncio.Event())
    assert sorted(shop.done) == sorted(tally.work) == [f"job_{n}" for n in range(7)]
    assert shop.most == 3


async def test_a_worker_runs_until_it_is_told_to_stop():
    shop, stop = Shop(jobs=2), asyncio.Event()
    run = asyncio.ensure_future(shop.worker.run(stop))
    while len(shop.done) < 2:
        await asyncio.sleep(0.001)
    shop.left.append(job(9))
    while len(shop.done) < 3:
        await asyncio.sleep(0.001)
    stop.set()
    assert len((await run).work) == 3


async def test_what_runs_may_finish_when_it_is_told_to_stop():
    shop, stop = Shop(jobs=1, grace=30.0), asyncio.Event()
    gate = asyncio.Event()
    shop.pause = lambda _: gate.wait()
    run = asyncio.ensure_future(shop.worker.run(stop))
    while not shop.running:
        await asyncio.sleep(0.001)
    stop.set()
    shop.left.append(job(9))
    while not shop.heard("worker_stopping"):
        await asyncio.sleep(0.001)
    gate.set()
    await run
    assert shop.done == ["job_0"]  # and nothing new was taken up


async def test_what_ends_as_soon_as_it_is_told_to_stop_is_not_spoken_of():
    shop, stop = Shop(jobs=1, grace=60.0, unsaid=60.0), asyncio.Event()
    gate = asyncio.Event()
    shop.pause = lambda _: gate.wait()
    run = asyncio.ensure_future(shop.worker.run(stop))
    while not shop.running:
        await asyncio.sleep(0.001)
    stop.set()
    gate.set()
    await run
    assert shop.done == ["job_0"]
    assert shop.heard("worker_stopping") == []


async def test_what_does_not_finish_in_time_is_cut():
    shop, stop = Shop(jobs=1, grace=0.01), asyncio.Event()
    shop.pause = lambda _: asyncio.Event().wait()
    run = asyncio.ensure_future(shop.worker.run(stop))
    while not shop.running:
        await asyncio.sleep(0.001)
    stop.set()
    await run
    assert shop.done == []
    assert shop.running == 0


async def test_while_estop_holds_nothing_is_taken_up():
    shop, stop = Shop(jobs=1), asyncio.Event()
    shop.held = True
    run = asyncio.ensure_future(shop.worker.run(stop))
    while not shop.heard("worker_held"):
        await asyncio.sleep(0.001)
    assert (await Shop(jobs=0).worker.drain(asyncio.Event())).claims == 0
    assert shop.done == []
    shop.held = False
    while not shop.done:
        await asyncio.sleep(0.001)
    assert len(shop.heard("worker_held")) == len(shop.heard("worker_goes_on")) == 1
    stop.set()
    await run


@pytest.mark.parametrize("fault", [StorageError("the disk is full."), RuntimeError("a bug")])
async def test_trouble_is_reported_and_nothing_is_taken_up_for_a_while(fault):
    shop, stop = Shop(jobs=2, slots=1), asyncio.Event()

    async def broken(_):
        raise fault

    shop.pause = broken
    run = asyncio.ensure_future(shop.worker.run(stop))
    while not shop.heard("worker_trouble"):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.03)
    assert len(shop.left) == 1
    assert len(shop.heard("worker_trouble")) == 1
    shop.pause = asyncio.sleep
    shop.now += TROUBLE_SECONDS
    while not shop.done:
        await asyncio.sleep(0.001)
    stop.set()
    await run


async def test_a_database_that_cannot_be_written_ends_a_drain_instead_of_spinning():
    shop = Shop(jobs=1)
    shop.fault = StorageError("the disk is full.")
    tally = await shop.worker.drain(asyncio.Event())
    assert tally.claims == 0
    assert "disk is full" in shop.heard("worker_trouble")[0]["message"]


async def test_chores_are_done_in_their_time_and_one_at_a_time():
    done, running = [], 0

    def chore(name, every, first=False):
        async def run():
            nonlocal running
            done.append(name)
            await asyncio.sleep(0)
            return 0

        return Chore(name=name, every=every, run=run, first=first)

    shop, stop = Shop(chores=(chore("often", 1.0), chore("seldom", 100.0, first=True))), asyncio.Event()
    run = asyncio.ensure_future(shop.worker.run(stop))
    while "often" not in done:
        await asyncio.sleep(0.001)
    assert done == ["seldom", "often"]  # what must come first came first
    shop.now += 2
    while done.count("often") < 2:
        await asyncio.sleep(0.001)
    stop.set()
    await run
    assert done == ["seldom", "often", "often"]


async def test_a_chore_that_finds_work_makes_a_drain_look_again():
    found = [3, 0]

    async def run():
        return found.pop(0)

    shop = Shop(chores=(Chore(name="c", every=1.0, run=run),))
    tally = await shop.worker.drain(asyncio.Event())
    assert tally.chores == 3
    assert found == []


@pytest.mark.parametrize("first", [True, False])
async def test_a_chore_that_breaks_is_reported_and_the_worker_keeps_running(first):
    async def broken():
        raise ValueError("not for the log")

    shop, stop = Shop(jobs=1, chores=(Chore(name="sweep", every=1.0, run=broken, first=first),)), asyncio.Event()
    run = asyncio.ensure_future(shop.worker.run(stop))
    while not shop.heard("worker_trouble"):
        await asyncio.sleep(0.001)
    shop.now += TROUBLE_SECONDS
    while not shop.done:
        await asyncio.sleep(0.001)
        shop.now += TROUBLE_SECONDS
    stop.set()
    await run
    assert {said["message"] for said in shop.heard("worker_trouble")} == {"sweep: an unexpected ValueError"}


async def test_a_chore_that_breaks_does_not_end_a_drain_with_an_error():
    async def broken():
        raise ValueError

    shop = Shop(jobs=1, chores=(Chore(name="sweep", every=1.0, run=broken),))
    await shop.worker.drain(asyncio.Event())
    assert {"message": "sweep: an unexpected ValueError"} in shop.heard("worker_trouble")
    assert len(shop.done) == 1


async def test_a_claim_that_breaks_is_trouble_and_no_death():
    shop, stop = Shop(jobs=1), asyncio.Event()
    shop.fault = TypeError("a bug")
    run = asyncio.ensure_future(shop.worker.run(stop))
    while not shop.heard("worker_trouble"):
        await asyncio.sleep(0.001)
    shop.fault = None
    shop.now += TROUBLE_SECONDS
    while not shop.done:
        await asyncio.sleep(0.001)
    stop.set()
    await run


async def test_a_job_that_cannot_be_read_is_named_once_and_holds_nothing_up():
    shop, stop = Shop(), asyncio.Event()
    shop.fault = JobUnreadable("job_7", "damaged")
    run = asyncio.ensure_future(shop.worker.run(stop))
    while not shop.heard("worker_trouble"):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    shop.left.append(job(1))
    shop.fault = None
    while not shop.done:  # the clock stands still: nothing was put off
        await asyncio.sleep(0.001)
    stop.set()
    await run
    (said,) = shop.heard("worker_trouble")
    assert "the row of job job_7 cannot be read: damaged." in said["message"]


async def test_a_chore_that_breaks_all_the_time_keeps_no_job_waiting():
    async def broken():
        raise StorageError("no")

    shop, stop = Shop(chores=(Chore(name="sweep", every=0.0, run=broken),)), asyncio.Event()
    run = asyncio.ensure_future(shop.worker.run(stop))
    while not shop.heard("worker_trouble"):
        await asyncio.sleep(0.001)
    shop.left.append(job(1))
    while not shop.done:  # the clock stands still: nothing was put off
        await asyncio.sleep(0.001)
    stop.set()
    await run


async def test_a_chore_that_takes_long_does_not_hold_up_its_next_rounds_where_several_may_run():
    begun = []
    rounds = [asyncio.Event() for _ in range(3)]

    async def run():
        begun.append(1)
        await rounds[len(begun) - 1].wait()
        return 0

    shop = Shop(chores=(Chore(name="execute", every=0.0, run=run, at_once=2),))
    stop = asyncio.Event()
    work = asyncio.ensure_future(shop.worker.run(stop))
    while len(begun) < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    assert len(begun) == 2  # and no more than that
    rounds[1].set()
    while len(begun) < 3:
        await asyncio.sleep(0)
    stop.set()
    await work
