"""Jobs under workers that come, work and die at any moment: one holder each, no move that may not be, nothing lost."""

import shutil
import tempfile
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from coilclaw.features.jobs.job_spec import Rules
from coilclaw.features.jobs.lifecycle import TRANSITIONS, WrongMove
from coilclaw.features.jobs.record import SAID, create, end, keep, prepare, to_state
from coilclaw.packets.ids import stamp
from coilclaw.packets.job import ENDED, JobSpec, JobState
from coilclaw.store.database import Database
from coilclaw.store.jobs import (
    JobBudget,
    JobMoved,
    JobRow,
    claim_job,
    job_events,
    load_job,
    release_job,
)
from coilclaw.store.lock import HeldLock, holder_is_gone
from tests.conftest import TestClock

RULES = Rules(tools=frozenset({"time"}), allowed_tools=frozenset({"time"}), allowed_domains=())
AT_ONCE = 3


class Machine(RuleBasedStateMachine):
    """What the database says is held against what must be so."""

    jobs = Bundle("jobs")
    workers = Bundle("workers")
    claims = Bundle("claims")
    """(worker, the row as that worker last saw it)"""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.locks = self.folder / "locks"
        self.clock = TestClock()
        self.db = Database(self.folder / "memory.sqlite", self.locks)
        self.alive = {}
        self.state = {}
        self.holder = {}
        self.count = 0

    def teardown(self):
        for lock in self.alive.values():
            lock.close()
        self.db.close()
        shutil.rmtree(self.folder)

    def write(self, work):
        return self.db.write_now(work)

    def load(self, job_id):
        return load_job(self.db.reader, job_id)

    @rule(target=jobs, prepared=st.booleans())
    def hand_in(self, prepared):
        self.count += 1
        job_id = f"job_{self.count}"
        row = JobRow(
            job_id=job_id, thread_id="conv_1", goal="g", state="RECEIVED", spec=JobSpec(job_id=job_id, intent="g"),
            budget=JobBudget(tokens=9, steps=9), deadline_at="2099-01-01T00:00:00.000Z",
        )  # fmt: skip

        def take_in(tx):
            job = create(tx, self.clock, row, "cli")
            return prepare(tx, self.clock, job, RULES) if prepared else job

        job = self.write(take_in)
        self.state[job_id] = job.state
        self.holder[job_id] = None
        return job_id

    @rule(target=workers)
    def start(self):
        self.count += 1
        name = f"w{self.count}"
        self.alive[name] = HeldLock(self.locks / f"{name}.lock")
        return name

    @rule(worker=consumes(workers))
    def die(self, worker):
        """As the kernel would: the lock is free, the row says nothing of it."""
        self.alive.pop(worker).close()

    @rule(target=claims, worker=workers)
    def claim(self, worker):
        mine = {job_id for job_id, holder in self.holder.items() if holder == worker}
        job = self.write(
            lambda tx: claim_job(
                tx, self.clock, worker=worker, running=mine, at_once=AT_ONCE,
                gone=lambda name: holder_is_gone(self.locks / f"{name}.lock"),
            )
        )  # fmt: skip
        if job is None:
            return multiple()
        assert self.holder[job.job_id] not in self.alive, "a living worker lost its job"
        assert job.state == self.state[job.job_id] not in ENDED
        self.holder[job.job_id] = worker
        return (worker, job)

    @rule(target=claims, claim=consumes(claims), to=st.sampled_from(get_args(JobState)), sleep=st.booleans())
    def go_on(self, claim, to, sleep):
        """A worker writes what it did, from what it last saw; whoever is not up to date writes nothing."""
        worker, job = claim
        now = self.load(job.job_id)
        change = msgspec.structs.replace(job, worker=None) if sleep else job
        try:
            if to in ENDED:
                written = self.write(lambda tx: end(tx, self.clock, change, to, "over", {}))
            elif to == job.state:
                written = self.write(lambda tx: keep(tx, self.clock, change, "step", {}))
            else:
                written = self.write(lambda tx: to_state(tx, self.clock, change, to))
        except WrongMove:
            paused = job.state == "PAUSED_BUDGET" and to not in ENDED and to != job.paused_from
            assert to not in TRANSITIONS[job.state] or paused
            assert self.load(job.job_id) == now
            return claim
        except JobMoved:
            assert now.version != job.version
            assert self.load(job.job_id) == now
            return multiple()
        assert now.version == job.version
        self.state[job.job_id] = written.state
        self.holder[job.job_id] = written.worker
        return (worker, written) if written.worker else multiple()

    @rule(claim=consumes(claims))
    def give_back(self, claim):
        worker, job = claim
        given = self.write(lambda tx: release_job(tx, self.clock, job.job_id, worker))
        assert given == (self.holder[job.job_id] == worker)
        if given:
            self.holder[job.job_id] = None

    @rule(job_id=jobs)
    def cancel(self, job_id):
        job = self.load(job_id)
        if job.state not in ENDED:
            self.write(lambda tx: end(tx, self.clock, load_job(tx, job_id), "CANCELLED", "called off", {}))
            self.state[job_id], self.holder[job_id] = "CANCELLED", None

    @rule(seconds=st.integers(-100_000, 100_000))
    def clock_jumps(self, seconds):
        self.clock.advance(seconds=seconds)

    @invariant()
    def the_rows_are_as_they_must_be(self):
        for job_id, state in self.state.items():
            job = self.load(job_id)
            assert (job.state, job.worker) == (state, self.holder[job_id])
            if state in ENDED:
                assert job.reason
                assert job.worker is None
        living = [holder for holder in self.holder.values() if holder in self.alive]
        assert len(living) <= AT_ONCE

    @invariant()
    def the_events_tell_every_move(self):
        for job_id, state in self.state.items():
            moves = [e.payload for e in job_events(self.db.reader, job_id, 1000) if e.type == "state"]
            assert [m["from"] for m in moves] == ["RECEIVED", *(m["to"] for m in moves)][: len(moves)]
            assert (moves[-1]["to"] if moves else "RECEIVED") == state
            if state in ENDED:
                assert moves[-1]["evidence"]
            told = self.db.reader.execute(
                "SELECT count(*) FROM messages WHERE turn_id = ? AND role = 'system'", (f"turn_{job_id[4:]}",)
            ).fetchone()[0]
            assert told == sum(SAID[move["from"]] != SAID[move["to"]] for move in moves)


Machine.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestJobs = pytest.mark.slow(Machine.TestCase)


def test_the_machine_knows_the_time():
    """So that jobs made in it are due: their time is the machine's own."""
    machine = Machine()
    try:
        job_id = machine.hand_in(prepared=True)
        assert machine.load(job_id).next_wakeup_at < stamp(machine.clock())
    finally:
        machine.teardown()
