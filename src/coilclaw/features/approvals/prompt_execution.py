"""Prompt execution: what was just approved is carried out at once, beside the request that approved it."""

import asyncio

from coilclaw.gate.conveyor import Conveyor, Outcome
from coilclaw.packets.action import Action


class PromptExecution:
    """Starts approved actions right away. The first to claim one carries it out: a worker may be faster."""

    def __init__(self, conveyor: Conveyor) -> None:
        self._conveyor = conveyor
        self._tasks: set[asyncio.Task[Outcome | None]] = set()

    def carry_out(self, action: Action) -> None:
        """Begin, and do not wait. What cannot be done now is left to the worker."""
        work = self._conveyor.guarded(action.action_id, self._conveyor.execute(action))
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[Outcome | None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the disk failed: the action stays approved, and the worker says so when it fails too

    async def rest(self, grace_seconds: float = 10.0) -> None:
        """Let what runs finish; what takes longer is cut, with its receipt."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=grace_seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
