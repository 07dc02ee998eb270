"""Growth: the same work over n and over 4n things. The exponent is log(ratio)/log(4): 0 is constant, 1 is linear.

CPU time of this process is compared, not wall time: how work grows must not depend on who else uses the machine.
"""

import asyncio
import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.approvals import JobRequests
from bench.home import BenchHome
from bench.rounds import Case, Timing, timings
from bench.row import Plan, Row, Unit, beside
from coilclaw.features.chat.store.message_page import messages_page
from coilclaw.features.chat.store.thread_list import list_overviews
from coilclaw.features.schedules.registry_edit import changing
from coilclaw.features.schedules.scheduler import Scheduler
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import utc_now
from coilclaw.secrets.redactor import Redactor
from coilclaw.server.events.feed import Feed
from coilclaw.server.events.reader import Reader
from coilclaw.store.action_pages import (
    ActionPlace,
    WaitingOf,
    WaitingPlace,
    WantedActions,
    page_of_actions,
    page_of_waiting,
)
from coilclaw.store.database import Database
from coilclaw.store.threads import MessageRow, add_message, ensure_owner, ensure_thread

FOUR = 4
LINEAR = round(FOUR**1.1, 1)
"""How much longer four times as much may take: an exponent of 1.1."""
CONSTANT = round(FOUR**0.25, 1)
PAGE = 50


def _cpu(work: Callable[[], object], times: int = 1) -> Case:
    """A case that does a piece of work so many times and says how much CPU time one of them took."""

    def case() -> float:
        start = time.process_time()
        for _ in range(times):
            work()
        return (time.process_time() - start) / times

    return case


def _grown(what: str, unit: Unit, size: int, many: Timing, few: Timing, at_most: float) -> Row:
    exponent = math.log(many.median / few.median) / math.log(FOUR)
    return beside(
        "growth", f"{what}, {FOUR * size:,}", unit, many, f"{size:,}", few, at_most=at_most,
        note=f"exponent {exponent:.2f}",
    )  # fmt: skip


def _compared(
    plan: Plan, what: str, unit: Unit, size: int, case: Callable[[Path, int], Iterator[Case]], at_most: float
) -> Row:
    """Both sizes side by side; a case is set up by its first step and taken down by its second."""
    folder = plan.folder / what.replace(" ", "-")
    few, many = case(folder / "few", size), case(folder / "many", FOUR * size)
    try:
        found = timings({"few": next(few), "many": next(many)}, plan.rounds)
    finally:
        few.close()
        many.close()
    factor = {"ms": 1e3, "us": 1e6}.get(unit, 1.0)
    return _grown(what, unit, size, found["many"].scaled(factor), found["few"].scaled(factor), at_most)


def measure(plan: Plan) -> Iterator[Row]:
    """What is paged through as a whole grows with it; one page, or one change, does not."""
    size = plan.size(2_000, 100)
    yield _compared(plan, "paging through all waiting approvals", "ms", size, _approvals, LINEAR)
    yield _compared(plan, "paging through all approved and executed actions", "ms", size, _executed, LINEAR)
    yield _compared(plan, "paging through all conversations", "ms", size, _threads, LINEAR)
    yield _compared(plan, "one page of a conversation's messages", "us", size, _messages, CONSTANT)
    size = plan.size(250, 50)
    yield _compared(plan, "one schedule edit, the file included", "ms", size, _edit, LINEAR)
    yield _compared(plan, "rows written by one schedule edit", "rows", size, _edited_rows, 1)
    size = plan.size(100, 25)
    yield _compared(plan, "a piece of text past streams that did not ask for it", "us", size, _text, LINEAR)


def _approvals(folder: Path, size: int) -> Iterator[Case]:
    home = BenchHome(folder)
    try:
        (action,) = asyncio.run(JobRequests(home).wait(1))
        db = home.app.db
        db.write_now(lambda tx: _copies(tx, action.action_id, size - 1))

        def walk() -> None:
            place: WaitingPlace | None = None
            seen = 0
            while seen == 0 or place is not None:
                actions, place = page_of_waiting(db.reader, WaitingOf(), place, PAGE)
                seen += len(actions)
            if seen != size:
                raise ToolError(f"{seen} of {size} approvals were listed.")

        yield _cpu(walk)
    finally:
        home.close()


def _executed(folder: Path, size: int) -> Iterator[Case]:
    home = BenchHome(folder)
    try:
        db = home.app.db

        async def one() -> str:
            desk = JobRequests(home)
            (action,) = await desk.wait(1)
            await desk.answer([action])
            return action.action_id

        action_id = asyncio.run(one())
        db.write_now(lambda tx: _copies(tx, action_id, size - 1))

        def walk() -> None:
            place: ActionPlace | None = None
            seen = 0
            while seen == 0 or place is not None:
                actions, place = page_of_actions(db.reader, WantedActions(standing="executed"), place, PAGE)
                seen += len(actions)
            if seen != size:
                raise ToolError(f"{seen} of {size} executed actions were listed.")

        yield _cpu(walk)
    finally:
        home.close()


def _copies(tx: sqlite3.Connection, action_id: str, number: int) -> None:
    """So many more actions like one, each with times of its own."""
    names = [row[1] for row in tx.execute("PRAGMA table_info(proposed_actions)")]
    own = {
        "action_id": "action_id || '-' || :number",
        "idempotency_key": "idempotency_key || '-' || :number",
        "created_at": "strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+' || :number || ' seconds')",
        "expires_at": "strftime('%Y-%m-%dT%H:%M:%fZ', expires_at, '+' || :number || ' seconds')",
    }
    values = ", ".join(own.get(name, name) for name in names)
    tx.executemany(
        f"INSERT INTO proposed_actions ({', '.join(names)}) SELECT {values} FROM proposed_actions"
        " WHERE action_id = :action",
        [{"number": each, "action": action_id} for each in range(1, number + 1)],
    )


def _conversations(folder: Path, threads: int, messages: int) -> Database:
    db = Database(folder / "memory.sqlite", folder / "locks")

    def write(tx: sqlite3.Connection) -> None:
        ensure_owner(tx, utc_now)
        for number in range(threads):
            name = f"conv_{number:06d}"
            ensure_thread(tx, utc_now, name, "cli", f"conversation {number}")
            for each in range(messages):
                add_message(
                    tx,
                    utc_now,
                    MessageRow(
                        message_id=f"msg_{number}_{each}",
                        thread_id=name,
                        turn_id=f"turn_{each}",
                        role="user" if each % 2 == 0 else "assistant",
                        content="look around and tell what changed",
                        label="owner",
                    ),
                )

    db.write_now(write)
    return db


def _threads(folder: Path, size: int) -> Iterator[Case]:
    db = _conversations(folder, size, 2)
    try:

        def walk() -> None:
            place: tuple[str, int] | None = None
            seen = 0
            while page := list_overviews(db.reader, PAGE, after=place):
                place = (page[-1].updated_at, page[-1].number)
                seen += len(page)
            if seen != size:
                raise ToolError(f"{seen} of {size} conversations were listed.")

        yield _cpu(walk)
    finally:
        db.close()


def _messages(folder: Path, size: int) -> Iterator[Case]:
    db = _conversations(folder, 1, size)
    try:
        yield _cpu(lambda: messages_page(db.reader, "conv_000000", PAGE, before=size // 2 + PAGE), 20)
    finally:
        db.close()


def _scheduled(folder: Path, size: int) -> BenchHome:
    home = BenchHome(folder)
    file = home.app.workspace / "cron" / "jobs.json"
    file.parent.mkdir(exist_ok=True)
    jobs = [
        {
            "job_id": f"s{number}",
            "cron": f"{number % 60} 9 * * *",
            "timezone": "UTC",
            "job_spec": {"intent": "look around and tell what changed"},
        }
        for number in range(size)
    ]
    file.write_text(json.dumps({"version": 1, "jobs": jobs}))
    _change(home, 0)
    return home


def _change(home: BenchHome, number: int) -> None:
    changed = {"job_spec": {"intent": f"look around, time {number}"}}
    asyncio.run(Scheduler(home.app).edit(changing("s7", changed)))


def _edit(folder: Path, size: int) -> Iterator[Case]:
    home = _scheduled(folder, size)
    numbers = iter(range(1, 1 << 30))
    try:
        yield _cpu(lambda: _change(home, next(numbers)))
    finally:
        home.close()


def _edited_rows(folder: Path, size: int) -> Iterator[Case]:
    home = _scheduled(folder, size)
    numbers = iter(range(1, 1 << 30))

    def rows() -> int:
        return home.app.db.write_now(lambda tx: tx.total_changes)

    def case() -> float:
        before = rows()
        _change(home, next(numbers))
        return float(rows() - before)

    try:
        yield case
    finally:
        home.close()


def _text(folder: Path, size: int) -> Iterator[Case]:
    """One stream asks for the conversation; all others ask for another one."""
    db = Database(folder / "memory.sqlite", folder / "locks")
    feed = Feed(db, utc_now, Redactor())
    asking, others = Reader(text_of="conv_1"), [Reader(text_of="conv_2") for _ in range(size)]

    async def join() -> None:
        for reader in (asking, *others):
            feed.join(reader)

    def say() -> None:
        feed.say_text("conv_1", "turn_1", 0, "a piece of text")
        asking.take()

    with asyncio.Runner() as loop:
        try:
            loop.run(join())
            say()
            if any(reader.take() for reader in others):
                raise ToolError("A stream was told what it did not ask for.")
            yield _cpu(say, 500)
        finally:
            for reader in (asking, *others):
                feed.leave(reader)
            db.close()
