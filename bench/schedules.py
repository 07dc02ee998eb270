"""The dispatcher over a large table of schedules: a look at nothing, a tick with thousands due, a month asleep."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from bench.rounds import Case, Timing, timings
from bench.row import Plan, Row, alone, beside
from coilclaw.features.schedules.dispatcher import Dispatcher
from coilclaw.features.schedules.launch import Terms
from coilclaw.features.schedules.store.schedules import JobPayload, ScheduleRow, put_schedule
from coilclaw.features.schedules.sync import Source, Sync
from coilclaw.features.schedules.timetable import counted
from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import stamp
from coilclaw.store.database import Database
from coilclaw.store.jobs import JobBudget

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
ZONES = ("UTC", "America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Australia/Sydney")
LATER = timedelta(days=1)
DUE = "SELECT schedule_id FROM schedules WHERE enabled = 1 AND paused_reason IS NULL AND due_at <= ?"


class _Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def _nothing(event: str, fields: dict[str, Json]) -> None:
    pass


async def _none(job_id: str) -> None:
    pass


def _dispatcher(db: Database, clock: _Clock) -> Dispatcher:
    source = Source(read=lambda: None, stamp=lambda: None, labels=lambda: ())
    return Dispatcher(
        db=db,
        clock=clock,
        sync=Sync(db=db, clock=clock, source=source, say=_nothing),
        terms=lambda: Terms(budget=JobBudget(tokens=1, steps=1), max_hours=1, redact=lambda text: text),
        stopped=lambda: False,
        hash_file=lambda path: None,
        withdraw=_none,
        say=_nothing,
    )


def _row(number: int, cron: str, zone: str) -> ScheduleRow:
    row = ScheduleRow(
        schedule_id=f"s{number:06d}",
        origin="registry",
        trigger_type="cron",
        trigger_config={"cron": cron},
        payload=JobPayload(intent="look around and tell what changed"),
        timezone=zone,
        enabled=True,
    )
    return counted(msgspec.structs.replace(row, declared_hash=row.schedule_id), NOW)


def _fill(folder: Path, size: int, due: int) -> Database:
    """So many schedules, each at a minute of the day and in a zone; so many of them at one and the same instant."""
    db = Database(folder / "memory.sqlite", folder / "locks")

    def write(tx: sqlite3.Connection) -> None:
        for number in range(size):
            cron = "15 12 * * *" if number < due else f"{number % 60} {number // 60 % 24} * * *"
            zone = "UTC" if number < due else ZONES[number % len(ZONES)]
            if number >= due and (number % 60, number // 60 % 24, zone) == (15, 12, "UTC"):
                cron = "16 12 * * *"
            put_schedule(tx, lambda: NOW, _row(number, cron, zone))

    db.write_now(write)
    return db


def _bare(db: Database, due: int) -> Case:
    """The least there is to it: the indexed query, and one transaction that writes a row and moves one for each."""

    def case() -> float:
        start = time.perf_counter()
        rows = db.reader.execute("SELECT schedule_id FROM schedules ORDER BY schedule_id LIMIT ?", (due,)).fetchall()

        def write(tx: sqlite3.Connection) -> None:
            for (name,) in rows:
                tx.execute("INSERT INTO meta (key, value) VALUES (?, '')", (f"bare.{name}.{start}",))
                tx.execute("UPDATE schedules SET updated_at = ? WHERE schedule_id = ?", (str(start), name))

        db.write_now(write)
        return time.perf_counter() - start

    return case


def _tick(db: Database, clock: _Clock, dispatcher: Dispatcher, due: int, days: list[int]) -> Case:
    def case() -> float:
        days.append(1)
        clock.now = NOW.replace(hour=12, minute=15, second=0) + LATER * (len(days) - 1)
        # Only those that are due at this instant are to be run, and none of them may still be at work.
        db.write_now(lambda tx: tx.execute("UPDATE jobs SET state = 'DONE'"))
        db.write_now(lambda tx: tx.execute("UPDATE schedule_runs SET state = 'ENDED' WHERE state = 'STARTED'"))
        later = stamp(clock.now + timedelta(hours=1))
        db.write_now(
            lambda tx: tx.execute("UPDATE schedules SET due_at = ? WHERE schedule_id >= ?", (later, f"s{due:06d}"))
        )
        start = time.perf_counter()
        done = asyncio.run(dispatcher.tick())
        took = time.perf_counter() - start
        assert done == due, done
        return took

    return case


def measure(plan: Plan) -> Iterator[Row]:
    """Idle, thousands due, and a month asleep."""
    size, due = plan.size(100_000, 2_000), plan.size(3_000, 100)
    db = _fill(plan.folder / "many", size, due)
    clock = _Clock()
    dispatcher = _dispatcher(db, clock)
    asyncio.run(dispatcher.tick())
    try:
        idle = timings({"tick": lambda: _idle(dispatcher), "query": lambda: _query(db)}, max(plan.rounds, 5) * 4)
        yield alone(
            "schedules", f"a look when nothing is due, {size:,} schedules", "ms", idle["tick"].scaled(1e3), at_most=5,
            note=f"the indexed query alone {idle['query'].median * 1e3:.2g} ms",
        )  # fmt: skip
        rounds = min(plan.rounds, 5)
        took = timings({"tick": _tick(db, clock, dispatcher, due, []), "bare": _bare(db, due)}, rounds)
        yield beside(
            "schedules", f"a tick with {due:,} due of {size:,}, each making its job", "ms", took["tick"].scaled(1e3),
            "one query, one transaction of an insert and an update each", took["bare"].scaled(1e3),
        )  # fmt: skip
        yield alone("schedules", f"the same tick with {due:,} due", "ms", took["tick"].scaled(1e3), at_most=1000)
    finally:
        db.close()
    yield _asleep(plan)


def _idle(dispatcher: Dispatcher) -> float:
    start = time.perf_counter()
    asyncio.run(dispatcher.tick())
    return time.perf_counter() - start


def _query(db: Database) -> float:
    start = time.perf_counter()
    db.reader.execute(DUE, (stamp(NOW - timedelta(days=400)),)).fetchall()
    return time.perf_counter() - start


def _asleep(plan: Plan) -> Row:
    """Every minute, missed for thirty days: 43,200 slots."""
    took: list[float] = []
    for number in range(plan.size(5, 2)):
        db = Database(plan.folder / f"asleep{number}" / "memory.sqlite", plan.folder / f"asleep{number}" / "locks")
        clock = _Clock()
        try:
            db.write_now(lambda tx: put_schedule(tx, lambda: NOW, _row(1, "* * * * *", "America/Los_Angeles")))
            dispatcher = _dispatcher(db, clock)
            asyncio.run(dispatcher.tick())
            clock.now = NOW + timedelta(days=30)
            took.append(_idle(dispatcher))
            slots = db.reader.execute("SELECT sum(slots), count(*) FROM schedule_runs").fetchone()
            assert slots == (43_200, 2), slots
        finally:
            db.close()
    return alone(
        "schedules",
        "a month of missed minutes caught up: 43,200 slots",
        "ms",
        Timing.of(took).scaled(1e3),
        at_most=1000,
    )
