"""Files that jobs changed are hashed where nobody waits for it: neither the event loop nor the one writer."""

import sqlite3
import threading
from contextlib import closing

import pytest

from coilclaw.features.jobs.changed_files import ChangedFiles
from coilclaw.features.jobs.job_requests import JobRequests
from coilclaw.store.jobs import JobBudget
from tests.features.conftest import Office
from tests.features.schedules.schedule_world import World, entry


class Watch:
    """Hashes nothing, and sees whether anybody holds up others meanwhile."""

    def __init__(self, db):
        self.db = db
        self.seen = []

    def __call__(self, job_id, path):
        assert threading.current_thread() is not threading.main_thread()
        with closing(sqlite3.connect(self.db.path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # raises while somebody writes
            other.execute("ROLLBACK")
        self.seen.append(path)
        return "0" * 64


def changed(db, job_id, *paths):
    db.write_now(lambda tx: [tx.execute("INSERT INTO job_files VALUES (?, ?)", (job_id, path)) for path in paths])


async def test_a_job_that_is_called_off_is_hashed_before_the_transaction(sample):
    office = Office(sample())
    job = await office.create()
    changed(office.app.db, job.job_id, "a.txt", "b.txt")
    watch = Watch(office.app.db)
    desk = JobRequests(
        db=office.app.db,
        clock=office.app.clock,
        rules=office.background.rules,
        budget=JobBudget(tokens=1, steps=1),
        max_hours=1,
        hash_file=watch,
        withdraw=office.background.withdraw,
        redact=str,
        plans=lambda _: False,
        place_of=lambda _: None,
    )
    await desk.cancel(job.job_id, "stop it")
    assert watch.seen == ["a.txt", "b.txt"]
    assert [file["sha256"] for file in office.manifest(job)["files"]] == ["0" * 64] * 2


async def test_a_job_that_is_replaced_is_hashed_before_the_transaction(db, clock):
    watch = Watch(db)
    world = World(db, clock, hash_file=watch)
    world.declare(entry(cron="0 * * * *", overlap="replace"))
    await world.tick()
    world.clock.advance(hours=1)
    await world.tick()
    changed(db, world.jobs()[0], "a.txt")
    world.clock.advance(hours=1)
    await world.tick()
    assert watch.seen == ["a.txt"]
    assert world.withdrawn == world.jobs()[:1]


async def test_what_changed_since_is_read_all_the_same(db, clock, sample):
    office = Office(sample())
    job = await office.create()
    changed(office.app.db, job.job_id, "a.txt", "late.txt")
    files = ChangedFiles(office.app.db, lambda job_id, path: f"now {path}")
    assert files.of(office.app.db.reader, job.job_id, {(job.job_id, "a.txt"): "before"}) == {
        "a.txt": "before",
        "late.txt": "now late.txt",
    }


@pytest.mark.parametrize("jobs", [[], ["job_unknown"]])
async def test_nothing_is_read_for_nothing(sample, jobs):
    office = Office(sample())
    assert await ChangedFiles(office.app.db, pytest.fail).now(jobs) == {}
