"""Jobs: how fast they are worked off, and how fast a worker finds its feet among many that a crash left open."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.gate import BareCommits
from bench.home import BenchHome
from bench.rounds import timed, timings
from bench.row import Plan, Row, alone, beside
from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.job_requests import Request
from coilclaw.packets.errors import StorageError
from coilclaw.packets.job import Constraints, JobState
from coilclaw.store.jobs import JobRow, add_job, any_due, claim_job, load_job, waited_enough


def measure(plan: Plan) -> Iterator[Row]:
    """Jobs of one step each; then ten thousand that nobody works on any more."""
    yield from _worked_off(plan)
    yield from _left_open(plan)


class Office:
    """A home whose model answers at once, and its background work."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        script = folder / "script.json"
        script.write_text(json.dumps([{"text": "done"}]))
        self.home = BenchHome(folder, script=script)
        self.background = Background(self.home.app)

    async def hand_in(self, number: int) -> list[JobRow]:
        """So many new jobs."""
        desk = self.background.desk()
        request = Request(goal="say done", thread_id="conv_bench", channel="cli", constraints=Constraints())
        return [await desk.create(request) for _ in range(number)]

    async def drain(self) -> None:
        """Work until nothing is due."""
        with self.background.named() as name:
            await self.background.worker(name).drain(asyncio.Event())


def _worked_off(plan: Plan) -> Iterator[Row]:
    office = Office(plan.folder / "worked")
    bare = BareCommits(office.home.database.with_name("bare.sqlite"))
    times = plan.size(32, 4)
    try:
        with asyncio.Runner() as loop:

            def worked() -> float:
                jobs = loop.run(office.hand_in(times))
                start = time.perf_counter()
                loop.run(office.drain())
                spent = time.perf_counter() - start
                for job in jobs:
                    row = load_job(office.home.app.db.reader, job.job_id)
                    if row is None or row.state != "DONE":
                        raise StorageError(f"a job that was to be measured is {row and row.state}")
                return spent / times

            row = "x" * 2000
            found = timings({"bare": timed(lambda: bare.commit(row), times), "worked": worked}, plan.rounds)
    finally:
        bare.close()
        office.home.close()
    measured = found["worked"].scaled(1e3)
    rate = f"{1e3 / measured.median:.0f} jobs/s"
    yield beside("jobs", "a job of one step", "ms", measured, "1 bare commit", found["bare"].scaled(1e3), note=rate)


def _left_open(plan: Plan) -> Iterator[Row]:
    """Every job was in the hands of a worker that died; a fresh one claims its first."""
    office = Office(plan.folder / "left")
    app = office.home.app
    size = plan.size(10_000, 200)
    try:
        with asyncio.Runner() as loop:
            (first,) = loop.run(office.hand_in(1))
        now = first.created_at
        states: tuple[JobState, ...] = ("EXECUTING", "EXECUTING", "EXECUTING", "WAITING_APPROVAL")

        def left(tx: object) -> None:
            for number in range(size):
                job = msgspec.structs.replace(
                    first,
                    job_id=f"job_{number:026d}",
                    state=states[number % len(states)],
                    worker="jobs_gone" if number % 2 else None,
                    next_wakeup_at=now,
                )
                add_job(tx, app.clock, job)  # pyright: ignore[reportArgumentType]

        app.db.write_now(left)

        def claimed() -> float:
            name = f"jobs_{os.urandom(4).hex()}"
            start = time.perf_counter()
            waited_enough(app.db.reader)
            if not any_due(app.db.reader, app.clock):
                raise StorageError("nothing is due")
            job = app.db.write_now(
                lambda tx: claim_job(
                    tx, app.clock, worker=name, running=frozenset(), at_once=1 << 30, gone=lambda _: True
                )
            )
            if job is None:
                raise StorageError("nothing could be claimed")
            return time.perf_counter() - start

        def bare() -> None:
            app.db.reader.execute(
                "SELECT * FROM jobs WHERE state = 'EXECUTING' ORDER BY next_wakeup_at LIMIT 1"
            ).fetchall()
            app.db.write_now(lambda tx: tx.execute("UPDATE jobs SET version = version + 1 WHERE job_id = 'job_0'"))

        found = timings({"bare": timed(bare), "claimed": claimed}, plan.rounds)
    finally:
        office.home.close()
    what = f"a worker's first claim among {size:,} open jobs after a crash"
    against = "one indexed query + one transaction"
    yield beside("jobs", what, "ms", found["claimed"].scaled(1e3), against, found["bare"].scaled(1e3))
    yield alone("jobs", "the same, by itself", "ms", found["claimed"].scaled(1e3), at_most=1000)
