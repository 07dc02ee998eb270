"""No run is lost and none is doubled: random crashes, dispatchers beside each other, clocks that jump."""

import asyncio
import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coilclaw.features.schedules.timetable import slot_of, trigger_of_row
from coilclaw.features.schedules.triggers import count_due, next_after
from coilclaw.packets.ids import stamp
from coilclaw.store.database import Database
from tests.conftest import TestClock
from tests.features.schedules.schedule_world import World, entry


class Crash(Exception):
    """The process is gone at this very place."""


class Fuse:
    """Blows in the middle of a transaction when it was lit."""

    def __init__(self, source):
        self.source = source
        self.lit = False

    def __call__(self, text):
        if self.lit and self.source.random() < 0.5:
            raise Crash
        return text


ENTRIES = [
    entry("minutes", cron="*/7 * * * *", overlap="allow"),
    entry("all", cron="20 * * * *", overlap="allow", misfire="run_all"),
    entry("strict", cron="0 */3 * * *", misfire="skip", overlap="allow"),
    entry("every", cron=None, trigger="interval", interval="95m", overlap="allow"),
    entry("berlin", cron="30 2 * * *", timezone="Europe/Berlin", overlap="allow"),
    entry("queued", cron="*/30 * * * *", overlap="queue_one"),
    entry("alone", cron="*/45 * * * *"),
    entry("newest", cron="*/50 * * * *", overlap="replace"),
    entry("spread", cron="0 * * * *", stagger="50m", overlap="allow"),
]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(1, 5000)),
        st.tuples(st.just("back"), st.integers(1, 300)),
        st.tuples(st.sampled_from(["tick", "tick_two", "crash", "finish", "restart", "fail"]), st.integers(0, 1)),
    ),
    min_size=5,
    max_size=40,
)


class Machine:
    """Two dispatchers with connections of their own."""

    def __init__(self, folder, source):
        self.clock = TestClock()
        self.clock.now = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)
        self.dbs = [Database(folder / "memory.sqlite", folder / "locks") for _ in range(2)]
        self.fuses = [Fuse(source), Fuse(source)]
        first = World(self.dbs[0], self.clock, redact=self.fuses[0])
        self.worlds = [first, first.another(self.dbs[1], redact=self.fuses[1])]
        first.declare(*ENTRIES)
        self.went_back = False

    async def do(self, kind, number):
        match kind:
            case "advance":
                self.clock.advance(minutes=number)
            case "back":
                self.clock.advance(minutes=-number)
                self.went_back = True
            case "tick":
                await self.worlds[number].tick()
            case "tick_two":
                await asyncio.gather(*(world.tick() for world in self.worlds))
            case "crash":
                self.fuses[number].lit = True
                try:
                    await self.worlds[number].tick()
                except Crash:
                    pass
                finally:
                    self.fuses[number].lit = False
                self.worlds[number].restart()
            case "finish" | "fail":
                self.worlds[number].finish(state="DONE" if kind == "finish" else "CANCELLED")
            case "restart":
                self.worlds[number].restart()

    def check(self):
        world = self.worlds[0]
        jobs = world.jobs()
        made = [run.job_id for each in ENTRIES for run in world.runs(each["job_id"]) if run.job_id]
        assert sorted(made) == sorted(jobs), "a job without a run, or a run with two jobs"
        wakeups = world.db.reader.execute("SELECT count(*), count(DISTINCT dedupe_key) FROM wakeup_events").fetchone()
        assert wakeups[0] == wakeups[1]
        for each in ENTRIES:
            self.check_one(world, each["job_id"])

    def check_one(self, world, schedule_id):
        row = world.row(schedule_id)
        if row is None:
            return
        trigger = trigger_of_row(row)
        assert row.next_run_utc is not None
        # Where a schedule stands is always the slot that follows what it was counted from.
        assert slot_of(row.next_run_utc) == next_after(trigger, slot_of(row.counted_from))
        runs = world.runs(schedule_id)
        if self.went_back:
            return
        # Every slot since it was declared stands in exactly one row.
        seen = sum(run.slots for run in runs)
        began = datetime.fromisoformat(row.created_at.replace("Z", "+00:00"))
        assert seen == count_due(trigger, began.replace(microsecond=0), slot_of(row.counted_from)), schedule_id

    def settle(self):
        """A last look sees to everything that is due."""
        asyncio.run(self.worlds[0].tick())
        due = "SELECT count(*) FROM schedules WHERE enabled = 1 AND paused_reason IS NULL AND due_at <= ?"
        now = stamp(self.clock.now)
        assert self.worlds[0].db.reader.execute(due, (now,)).fetchone()[0] == 0

    def close(self):
        for db in self.dbs:
            db.close()


def play(steps, seed):
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), random.Random(seed))
        try:

            async def run():
                await machine.worlds[0].tick()
                for kind, number in steps:
                    await machine.do(kind, number)

            asyncio.run(run())
            machine.check()
            machine.settle()
            machine.check()
        finally:
            machine.close()


@given(steps=STEPS, seed=st.integers(0, 1 << 30))
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
def test_runs_are_never_lost_or_doubled(steps, seed):
    play(steps, seed)


@pytest.mark.slow
@given(steps=STEPS, seed=st.integers(0, 1 << 30))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_runs_are_never_lost_or_doubled_however_often_it_is_tried(steps, seed):
    play(steps, seed)


def test_two_dispatchers_at_once_start_every_run_once(tmp_path):
    machine = Machine(tmp_path, random.Random(1))
    try:

        async def run():
            await machine.worlds[0].tick()
            for _ in range(10):
                machine.clock.advance(minutes=65)
                await asyncio.gather(*(world.tick() for world in machine.worlds))

        asyncio.run(run())
        machine.check()
        assert len(machine.worlds[0].started("spread")) in (9, 10)
    finally:
        machine.close()


async def test_a_crash_inside_the_claim_leaves_everything_as_it_was(db, clock):
    lit = [True]

    def redact(text):
        if lit[0]:
            raise Crash
        return text

    world = World(db, clock, redact=redact)
    world.declare(entry())
    await world.tick()
    clock.advance(hours=1)
    before = world.row()
    with pytest.raises(Crash):
        await world.tick()
    assert world.row() == before
    assert world.runs() == []
    assert world.db.reader.execute("SELECT count(*) FROM wakeup_events").fetchone()[0] == 0
    assert world.events("schedule_run") == []
    lit[0] = False
    world.restart()
    assert await world.tick() == 1
    assert clock.now - timedelta(hours=1) < slot_of(world.runs()[0].scheduled_at)
