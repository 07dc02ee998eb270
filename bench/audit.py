"""Audit: the whole story of one action out of a million events, beside the rows it is told from."""

import asyncio
from collections.abc import Iterator

from bench.home import BenchHome
from bench.rounds import timed, timings
from bench.row import Plan, Row, alone, beside
from coilclaw.ledger.audit import Wanted, last_events
from coilclaw.ledger.story import story_of
from coilclaw.packets.errors import StorageError

TIME = "2026-03-01T12:00:00.000Z"


def measure(plan: Plan) -> Iterator[Row]:
    """One real action among events of others."""
    home = BenchHome(plan.folder, autonomy="full")
    size = plan.size(1_000_000, 20_000)
    try:
        with asyncio.Runner() as loop:
            outcome = loop.run(home.call(home.conveyor(), "shell", {"command": "ls -la src"}))
        action_id = outcome.action.action_id
        db = home.app.db.reader
        db.execute("BEGIN")
        db.executemany(
            "INSERT INTO audit_log (entry_id, event_type, entity_id, payload_json, created_at) VALUES (?, ?, ?, ?, ?)",
            (
                (f"evt_{number:026d}", "tool_completed", f"act_{number // 5:026d}", '{"code":"ALLOWED"}', TIME)
                for number in range(size)
            ),
        )
        db.execute("COMMIT")

        def told() -> None:
            story = story_of(db, action_id)
            if story is None or not story.agrees:
                raise StorageError("the story that was to be measured does not hold")

        def bare() -> None:
            db.execute("SELECT * FROM proposed_actions WHERE action_id = ?", (action_id,)).fetchall()
            db.execute("SELECT * FROM audit_log WHERE entity_id = ? ORDER BY seq", (action_id,)).fetchall()
            db.execute("SELECT * FROM receipts WHERE action_id = ? ORDER BY seq", (action_id,)).fetchall()

        times = plan.size(50, 5)
        cases = {
            "bare": timed(bare, times),
            "told": timed(told, times),
            "newest": timed(lambda: last_events(db, Wanted(), 50), times),
        }
        found = {name: timing.scaled(1e3) for name, timing in timings(cases, plan.rounds).items()}
    finally:
        home.close()
    what = f"audit explain of an action among {size:,} events"
    yield beside("audit", what, "ms", found["told"], "its three indexed queries", found["bare"])
    yield alone("audit", f"the newest 50 of {size:,} events", "ms", found["newest"])
