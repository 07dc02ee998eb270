"""The gate: what a durable call costs beyond the commits it needs, and what calls gain by sharing them."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.home import BenchHome
from bench.rounds import timed, timings
from bench.row import Plan, Row, beside
from coilclaw.packets.canonical import JsonObject

TOGETHER = 32
READ: tuple[str, JsonObject] = ("time", {})
EFFECT: tuple[str, JsonObject] = ("shell", {"command": "ls -la src"})


class BareCommits:
    """Commits done by nothing but SQLite: the same settings, the same file system, as many bytes."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, data TEXT NOT NULL)")

    def commit(self, *rows: str) -> None:
        """One durable transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        for row in rows:
            self._db.execute("INSERT INTO rows (data) VALUES (?)", (row,))
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Give the file back."""
        self._db.close()


def last_row(db: sqlite3.Connection, table: str, condition: str = "TRUE") -> str:
    """As many characters as the newest row of a table has in all its columns."""
    row = db.execute(f"SELECT * FROM {table} WHERE {condition} ORDER BY rowid DESC LIMIT 1").fetchone()
    return "x" * sum(len(str(value)) for value in row if value is not None)


def measure(plan: Plan) -> Iterator[Row]:
    """Reads need one commit, effects two."""
    home = BenchHome(plan.folder, autonomy="full")
    bare = BareCommits(home.database.with_name("bare.sqlite"))
    try:
        with asyncio.Runner() as loop:
            yield from _durable(plan, home, bare, loop)
            yield from _shared(plan, home, loop)
    finally:
        bare.close()
        home.close()


def _durable(plan: Plan, home: BenchHome, bare: BareCommits, loop: asyncio.Runner) -> Iterator[Row]:
    times = plan.size(24, 4)
    conveyor = home.conveyor()
    reader = home.app.db.reader
    loop.run(home.call(conveyor, *EFFECT))
    loop.run(home.call(conveyor, *READ))
    action, receipt = last_row(reader, "proposed_actions"), last_row(reader, "receipts")
    asked = last_row(reader, "audit_log", "event_type = 'tool_requested'")
    begun = last_row(reader, "audit_log", "event_type = 'tool_begun'")
    ended = last_row(reader, "audit_log", "event_type = 'tool_completed'")

    def bare_effect() -> None:
        bare.commit(action, asked, begun)
        bare.commit(action, receipt, ended)

    found = timings(
        {
            "bare read": timed(lambda: bare.commit(action, receipt, asked, ended), times),
            "read": timed(lambda: loop.run(home.one_by_one(conveyor, *READ, times))),
            "bare effect": timed(bare_effect, times),
            "effect": timed(lambda: loop.run(home.one_by_one(conveyor, *EFFECT, times))),
        },
        plan.rounds,
    )
    for kind, commits in (("read", "1 bare commit"), ("effect", "2 bare commits")):
        measured = found[kind].scaled(1e3 / times)
        yield beside(
            "gate", f"gated {kind}, durable", "ms", measured, commits, found[f"bare {kind}"].scaled(1e3), at_most=1.5
        )


def _shared(plan: Plan, home: BenchHome, loop: asyncio.Runner) -> Iterator[Row]:
    """Throughput, so more is better: the ratio is of calls a second."""
    conveyor = home.conveyor()
    for kind, call in (("reads", READ), ("effects", EFFECT)):
        found = timings(
            {
                "alone": timed(lambda call=call: loop.run(home.one_by_one(conveyor, *call, TOGETHER))),
                "together": timed(lambda call=call: loop.run(home.at_once(conveyor, *call, TOGETHER))),
            },
            plan.rounds,
        )
        gain = found["alone"].median / found["together"].median
        row = beside(
            "gate", f"{TOGETHER} gated {kind} at once, for all of them", "ms", found["together"].scaled(1e3),
            "one at a time", found["alone"].scaled(1e3), note=f"throughput {gain:.2f}×",
        )  # fmt: skip
        yield msgspec.structs.replace(row, goal="≥ 5× throughput", ok=gain >= 5)
