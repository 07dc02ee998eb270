"""Rows of jobs: written once by whoever saw the last version, claimed by one living worker at a time.

Every test runs on each backend; a second one joins by a line in BACKENDS.
"""

from datetime import timedelta

import msgspec
import pytest

from coilclaw.packets.ids import stamp
from coilclaw.packets.job import Constraints, JobSpec
from coilclaw.store.database import Database
from coilclaw.store.jobs import (
    CheckpointTooLarge,
    JobBudget,
    JobMoved,
    JobRow,
    add_job,
    add_job_event,
    add_job_files,
    any_due,
    claim_job,
    job_events,
    job_files,
    job_limits,
    list_jobs,
    load_job,
    release_job,
    save,
    waited_enough,
    wake_job,
)
from coilclaw.store.threads import ensure_thread


def sqlite(folder):
    return Database(folder / "home" / "memory.sqlite", folder / "home" / "locks")


BACKENDS = {"sqlite": sqlite}


@pytest.fixture(params=sorted(BACKENDS))
def backend(request, tmp_path):
    database = BACKENDS[request.param](tmp_path)
    yield database
    database.close()


@pytest.fixture
def shelf(backend, clock):
    return Shelf(backend, clock)


class Shelf:
    """Jobs in a database, with workers that live or died as the test says."""

    def __init__(self, db, clock):
        self.db, self.clock = db, clock
        self.dead = set()
        db.write_now(lambda tx: ensure_thread(tx, clock, "conv_1", "cli", "t"))

    def write(self, work):
        return self.db.write_now(work)

    def add(self, job_id, state="EXECUTING", **more):
        due = more.pop("next_wakeup_at", stamp(self.clock()))
        row = JobRow(
            job_id=job_id, thread_id="conv_1", goal="g", state=state, next_wakeup_at=due,
            spec=more.pop("spec", JobSpec(job_id=job_id, intent="g")), budget=JobBudget(tokens=9, steps=9), **more,
        )  # fmt: skip
        return self.write(lambda tx: add_job(tx, self.clock, row))

    def claim(self, worker, running=(), at_once=99, only=None):
        return self.write(
            lambda tx: claim_job(
                tx, self.clock, worker=worker, running=running, at_once=at_once, gone=self.dead.__contains__, only=only
            )
        )

    def load(self, job_id):
        return load_job(self.db.reader, job_id)


def test_a_job_is_kept_as_it_was_made(shelf):
    spec = JobSpec(job_id="job_1", intent="g", constraints=Constraints(allowed_tools=("time",), max_files_changed=3))
    made = shelf.add("job_1", spec=spec, checkpoint=b"{}", deadline_at="2026-03-09T00:00:00.000Z")
    assert shelf.load("job_1") == made
    assert made.turn_id == "turn_1"
    assert shelf.load("job_2") is None


def test_whoever_saw_an_older_version_writes_nothing(shelf):
    job = shelf.add("job_1")
    newer = shelf.write(lambda tx: save(tx, shelf.clock, msgspec.structs.replace(job, reason="first"), job.version))
    assert newer.version == job.version + 1
    with pytest.raises(JobMoved):
        shelf.write(lambda tx: save(tx, shelf.clock, msgspec.structs.replace(job, reason="second"), job.version))
    assert shelf.load("job_1").reason == "first"


def test_a_checkpoint_over_its_limit_changes_nothing(shelf):
    job = shelf.add("job_1", checkpoint=b"small")
    large = msgspec.structs.replace(job, checkpoint=b"x" * (512 * 1024 + 1))
    with pytest.raises(CheckpointTooLarge):
        shelf.write(lambda tx: save(tx, shelf.clock, large, job.version))
    assert shelf.load("job_1") == job
    fits = msgspec.structs.replace(job, checkpoint=b"x" * (512 * 1024))
    shelf.write(lambda tx: save(tx, shelf.clock, fits, job.version))


def test_a_job_is_claimed_by_one_worker(shelf):
    shelf.add("job_1")
    claimed = shelf.claim("a")
    assert claimed.worker == "a"
    assert shelf.claim("b") is None
    assert shelf.claim("a", running={"job_1"}) is None


def test_a_job_whose_worker_is_gone_is_free(shelf):
    shelf.add("job_1")
    shelf.claim("a")
    shelf.dead.add("a")
    assert shelf.claim("b").worker == "b"


def test_a_job_this_worker_lost_sight_of_is_free(shelf):
    shelf.add("job_1")
    shelf.claim("a", running={"job_1"})
    assert shelf.claim("a", running=()).job_id == "job_1"


def test_what_is_given_back_is_free_and_only_its_holder_can(shelf):
    shelf.add("job_1")
    shelf.claim("a")
    assert not shelf.write(lambda tx: release_job(tx, shelf.clock, "job_1", "b"))
    assert shelf.write(lambda tx: release_job(tx, shelf.clock, "job_1", "a"))
    assert shelf.claim("b") is not None


def test_whoever_is_due_longest_comes_first(shelf):
    now = shelf.clock()
    shelf.add("job_b", next_wakeup_at=stamp(now - timedelta(seconds=5)))
    shelf.add("job_a", state="RECEIVED", next_wakeup_at=stamp(now - timedelta(seconds=9)))
    shelf.add("job_c", next_wakeup_at=stamp(now + timedelta(seconds=60)))
    assert [shelf.claim("w", running={"job_a", "job_b"}).job_id for _ in range(2)] == ["job_a", "job_b"]
    assert shelf.claim("w", running={"job_a", "job_b"}) is None
    shelf.clock.advance(seconds=61)
    assert shelf.claim("w", running={"job_a", "job_b"}).job_id == "job_c"


def test_only_so_many_are_worked_on_at_once_but_the_dead_do_not_count(shelf):
    for number in range(3):
        shelf.add(f"job_{number}")
    assert shelf.claim("a", at_once=2)
    assert shelf.claim("b", at_once=2)
    assert shelf.claim("c", at_once=2) is None
    shelf.dead.add("a")
    assert shelf.claim("c", at_once=2)


def test_some_jobs_can_be_wanted_alone(shelf):
    shelf.add("job_1")
    shelf.add("job_2")
    assert shelf.claim("a", only={"job_2"}).job_id == "job_2"
    assert shelf.claim("a", running={"job_2"}, only={"job_2"}) is None
    assert shelf.claim("a", running={"job_2"}, only=()) is None


@pytest.mark.parametrize("state", ["DONE", "DENIED", "FAILED", "CANCELLED", "TIMED_OUT"])
def test_what_has_ended_is_never_claimed(shelf, state):
    shelf.add("job_1", state=state)
    assert shelf.claim("a") is None
    assert not any_due(shelf.db.reader, shelf.clock)


def test_a_time_set_by_a_clock_that_ran_ahead_counts_as_come(shelf):
    shelf.add("job_1", next_wakeup_at=stamp(shelf.clock() + timedelta(days=400)))
    assert any_due(shelf.db.reader, shelf.clock)
    assert shelf.claim("a") is not None


def test_a_job_that_waits_for_its_owner_sleeps_until_its_deadline(shelf):
    shelf.add("job_1", state="WAITING_APPROVAL", next_wakeup_at=stamp(shelf.clock() + timedelta(days=400)))
    assert shelf.claim("a") is None
    assert waited_enough(shelf.db.reader) == ["job_1"]  # it has no action without an end
    assert shelf.write(lambda tx: wake_job(tx, shelf.clock, "job_1"))
    assert not shelf.write(lambda tx: wake_job(tx, shelf.clock, "job_1"))
    assert shelf.claim("a").job_id == "job_1"


def test_jobs_are_listed_newest_first_by_state(shelf):
    shelf.add("job_1")
    shelf.add("job_2", state="DONE")
    shelf.add("job_3")
    assert [job.job_id for job in list_jobs(shelf.db.reader, ["EXECUTING"], 10)] == ["job_3", "job_1"]
    assert len(list_jobs(shelf.db.reader, ["EXECUTING", "DONE"], 2)) == 2


def test_events_stay_in_order_whatever_the_clock_does(shelf):
    shelf.add("job_1")
    for number in range(5):
        shelf.clock.advance(seconds=-100)
        shelf.write(lambda tx, number=number: add_job_event(tx, shelf.clock, "job_1", "e", {"n": number}))
    assert [event.payload["n"] for event in job_events(shelf.db.reader, "job_1", 3)] == [2, 3, 4]


def test_limits_tell_what_is_used_up(shelf):
    spec = JobSpec(job_id="job_1", intent="g", constraints=Constraints(max_files_changed=2))
    shelf.add("job_1", spec=spec)
    shelf.write(lambda tx: add_job_files(tx, "job_1", ["b", "a", "b"]))
    limits = job_limits(shelf.db.reader, "job_1")
    assert limits.files_changed == {"a", "b"}
    assert limits.constraints.max_files_changed == 2
    assert job_files(shelf.db.reader, "job_1") == ["a", "b"]
    assert job_limits(shelf.db.reader, "job_9") is None
