"""A dispatcher over a real database, with a clock, a registry and ends of jobs that the test decides."""

import itertools
import json

import msgspec

from coilclaw.features.jobs.record import end
from coilclaw.features.schedules.dispatcher import Dispatcher
from coilclaw.features.schedules.launch import Terms
from coilclaw.features.schedules.store.schedule_runs import recent_runs
from coilclaw.features.schedules.store.schedules import load_schedule
from coilclaw.features.schedules.sync import Source, Sync
from coilclaw.ledger.audit import Wanted, last_events
from coilclaw.store.jobs import JobBudget, load_job

NO_FILE = {"data": None, "stamp": 0, "labels": (), "at": None, "held": False, "hide": str}


def entry(job_id="s", cron="0 * * * *", timezone="UTC", **more):
    """An entry of the registry."""
    made = {"job_id": job_id, "timezone": timezone, "job_spec": {"intent": "do it"}}
    if cron:
        made["schedule_cron"] = cron
    return {**made, **more}


class World:
    """One dispatcher. Further ones on the same database are made by `another`."""

    def __init__(self, db, clock, *, registry=None, redact=None, hash_file=lambda job_id, path: None):
        self.hash_file = hash_file
        self.db = db
        self.clock = clock
        self.registry = registry if registry is not None else dict(NO_FILE)
        self.stopped = False
        self.withdrawn = []
        self.said = []
        self.objections = lambda declared: ()
        self.source = Source(
            read=lambda: self.registry["data"],
            stamp=lambda: None if self.registry["data"] is None else (self.registry["stamp"],),
            labels=lambda: self.registry["labels"],
            written=lambda: self.registry["at"],
            redact=lambda text: str(self.registry["hide"](text)),
            held=lambda: self.registry["held"],
        )
        self.terms = Terms(budget=JobBudget(tokens=1000, steps=10), max_hours=72, redact=redact or (lambda text: text))
        self.dispatcher = self._made()

    def _made(self):
        async def withdraw(job_id):
            self.withdrawn.append(job_id)

        def say(event, fields):
            self.said.append((event, fields))

        return Dispatcher(
            db=self.db,
            clock=self.clock,
            sync=Sync(db=self.db, clock=self.clock, source=self.source, say=say, objections=self.objections),
            terms=lambda: self.terms,
            stopped=lambda: self.stopped,
            hash_file=self.hash_file,
            withdraw=withdraw,
            say=say,
        )

    def restart(self):
        """As after a crash: nothing remembered in the process."""
        self.dispatcher = self._made()

    def another(self, db=None, **more):
        return World(db or self.db, self.clock, registry=self.registry, **more)

    def file(self, data):
        """The registry's bytes as they lie there now."""
        self.registry["data"] = data
        self.registry["stamp"] += 1
        self.registry["at"] = self.clock()

    def declare(self, *entries):
        self.file(json.dumps({"version": 1, "jobs": list(entries)}).encode())

    async def tick(self):
        return await self.dispatcher.tick()

    def row(self, schedule_id="s"):
        return load_schedule(self.db.reader, schedule_id)

    def runs(self, schedule_id="s"):
        """Oldest first."""
        return sorted(recent_runs(self.db.reader, schedule_id, 100_000), key=lambda run: run.scheduled_at)

    def started(self, schedule_id="s"):
        return [run.scheduled_at for run in self.runs(schedule_id) if run.job_id]

    def jobs(self):
        return [row[0] for row in self.db.reader.execute("SELECT job_id FROM jobs ORDER BY rowid")]

    def events(self, kind, entity=None):
        return [e.payload for e in last_events(self.db.reader, Wanted(event_type=kind, entity_id=entity), 10_000)]

    def finish(self, job_id=None, state="DONE"):
        """The job, or every open one, comes to its end."""
        for each in [job_id] if job_id else self.jobs():
            self.db.write_now(lambda tx, each=each: _end(tx, self.clock, each, state))


def _end(tx, clock, job_id, state):
    from coilclaw.packets.job import ENDED

    job = load_job(tx, job_id)
    if job.state in ENDED:
        return
    if state in ("DONE", "DENIED"):  # from where those may follow
        tx.execute("UPDATE jobs SET state = ? WHERE job_id = ?", ("EXECUTING" if state == "DONE" else "PARSED", job_id))
        job = load_job(tx, job_id)
    end(tx, clock, job, state, "the test says so", {})


numbers = itertools.count()


def fields(struct):
    return msgspec.to_builtins(struct)
