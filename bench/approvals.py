"""Approvals: what it costs to say yes to a waiting action and have it done, beside the commits that needs."""

import asyncio
import time
from collections.abc import Iterator

from bench.gate import BareCommits, last_row
from bench.home import BenchHome
from bench.rounds import timed, timings
from bench.row import Plan, Row, beside
from coilclaw.gate.conveyor import Conveyor
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action, ToolCall
from coilclaw.packets.card import Answer, Card
from coilclaw.packets.errors import ToolError


async def _later(_: Card) -> Answer:
    return Answer(approved=None)


class JobRequests:
    """Proposes actions that wait, and answers them."""

    def __init__(self, home: BenchHome) -> None:
        self._conveyor: Conveyor = home.app.conveyor(_later)
        self._approvals = home.app.approvals(self._conveyor)
        self._number = 0

    async def wait(self, number: int) -> list[Action]:
        """So many new actions that wait."""
        waiting: list[Action] = []
        for _ in range(number):
            self._number += 1
            turn = Turn("turn_bench", "", "cli")
            call = ToolCall.of("shell", {"command": "touch made.txt"})
            outcome = await self._conveyor.carry(
                self._conveyor.intake.propose(call, turn, f"key-{self._number}"), turn, stored=False
            )
            if not outcome.pending:
                raise ToolError(f"It ought to wait: {outcome.result.output}")
            waiting.append(outcome.action)
        return waiting

    async def answer(self, waiting: list[Action]) -> None:
        """Say yes to each and have it done, one after the other."""
        for action in waiting:
            answered = await self._approvals.approve(action, by="terminal", digest=action.digest)
            outcome = await self._conveyor.execute(answered) if isinstance(answered, Action) else answered
            if outcome is None or not outcome.result.success:
                raise ToolError("What was approved was not done.")


def measure(plan: Plan) -> Iterator[Row]:
    """A yes is one commit, doing it two."""
    home = BenchHome(plan.folder)
    bare = BareCommits(home.database.with_name("bare.sqlite"))
    times = plan.size(32, 4)
    desk = JobRequests(home)
    try:
        with asyncio.Runner() as loop:
            loop.run(desk.answer(loop.run(desk.wait(1))))
            reader = home.app.db.reader
            action, receipt = last_row(reader, "proposed_actions"), last_row(reader, "receipts")
            events = {
                name: last_row(reader, "audit_log", f"event_type = '{name}'")
                for name in ("tool_approved", "tool_begun", "tool_completed")
            }

            def bare_answer() -> None:
                bare.commit(action, events["tool_approved"])
                bare.commit(action, events["tool_begun"])
                bare.commit(action, receipt, events["tool_completed"])

            def answered() -> float:
                waiting = loop.run(desk.wait(times))
                start = time.perf_counter()
                loop.run(desk.answer(waiting))
                return (time.perf_counter() - start) / times

            found = timings({"bare": timed(bare_answer, times), "answered": answered}, plan.rounds)
    finally:
        bare.close()
        home.close()
    measured = found["answered"].scaled(1e3)
    yield beside(
        "approvals", "a waiting action approved and done", "ms", measured, "3 bare commits", found["bare"].scaled(1e3),
        at_most=1.5, note=f"{1e3 / measured.median:.0f} approvals/s",
    )  # fmt: skip
