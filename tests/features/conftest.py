"""A home with a desk and a worker in this process, over real parts and the scripted model."""

import asyncio
import json

import pytest

from coilclaw.config import Jobs
from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.job_requests import Request
from coilclaw.packets.job import Constraints
from coilclaw.store.job_history import artifact_bytes, job_artifacts
from coilclaw.store.jobs import job_events, load_job
from coilclaw.store.threads import turn_messages


def calls(*tools, **more):
    return {"tool_calls": [{"tool": name, "args": args} for name, args in tools], **more}


class Office:
    """Jobs of one home."""

    def __init__(self, home, clock=None):
        self.home = home
        self.app = home.app
        if clock is not None:
            self.app.clock = clock
        self.background = Background(self.app)
        self.desk = self.background.desk()

    async def create(self, goal="do it", thread="conv_1", **more):
        limits = {name: more.pop(name) for name in list(more) if name in Constraints.__struct_fields__}
        request = Request(goal=goal, thread_id=thread, channel="cli", constraints=Constraints(**limits), **more)
        return await self.desk.create(request)

    async def drain(self, **more):
        """A worker that does what is due, and leaves."""
        with self.background.named() as name:
            return await self.background.worker(name, **more).drain(asyncio.Event())

    def job(self, job):
        return load_job(self.app.db.reader, getattr(job, "job_id", job))

    def messages(self, job):
        return turn_messages(self.app.db.reader, job.thread_id, job.turn_id, 1000)

    def said(self, job):
        """What the model said and was told, without the words about the job's state."""
        return [(row.role, row.content) for row in self.messages(job) if row.role in ("assistant", "tool")]

    def states(self, job):
        events = job_events(self.app.db.reader, job.job_id, 1000)
        return [event.payload["to"] for event in events if event.type == "state"]

    def events(self, job, kind):
        return [e.payload for e in job_events(self.app.db.reader, job.job_id, 1000) if e.type == kind]

    def artifacts(self, job):
        return job_artifacts(self.app.db.reader, job.job_id)

    def manifest(self, job):
        """The manifest that the end of a job points to."""
        (artifact_id,) = self.events(job, "state")[-1]["evidence"]
        return json.loads(artifact_bytes(self.app.db.reader, artifact_id))

    async def answer(self, *, approve=True, reason=""):
        """Answer everything that waits, as `coilclaw approvals` does."""
        from coilclaw.store.actions import waiting_actions

        conveyor = self.background.conveyor
        for action in waiting_actions(self.app.db.reader, 100):
            approvals = self.app.approvals(conveyor)
            if approve:
                card = conveyor.intake.card(action)
                await approvals.approve(action, by="terminal", digest=card.digest, seen=card.seen)
            else:
                await approvals.reject(action, reason=reason)


@pytest.fixture
def office(sample):
    def make(clock=None, **overrides):
        return Office(sample(**overrides), clock)

    return make


@pytest.fixture
def hurried():
    """Bounds that a test can reach."""
    return Jobs(step_seconds=0.3, step_retries=1)
