"""Following an action of a step to its end: the owner is asked if there, what is approved is carried out, once."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal, TypeAlias

from coilclaw.gate.conveyor import Conveyor
from coilclaw.gate.estop import Estop
from coilclaw.gate.records import Taken
from coilclaw.packets.action import Action
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.actions import load_action
from coilclaw.store.database import Database
from coilclaw.store.sops import ActionStand, action_stand

Followed: TypeAlias = Literal["ended", "waiting", "held"]
"""It has an end; it waits for the owner or the worker; ESTOP holds it."""

Answer: TypeAlias = Callable[[Action], Awaitable[bool]]
"""Puts a waiting action to the owner; False when nobody is there."""


class Follower:
    """Follows actions. With `patient`, what only needs time is waited for here."""

    def __init__(
        self,
        *,
        db: Database,
        conveyor: Conveyor,
        estop: Estop,
        clock: Clock,
        worker_runs: Callable[[], bool],
        answer: Answer | None,
        patient: bool,
        poll_seconds: float = 0.2,
    ) -> None:
        self._db = db
        self.conveyor = conveyor
        self._estop = estop
        self._clock = clock
        self._worker_runs = worker_runs
        self._answer = answer
        self._patient = patient
        self._poll = poll_seconds

    async def end_of(self, action_id: str) -> Followed:
        """Take a stored action as far as it goes now."""
        asked = False
        while True:
            stand = action_stand(self._db.reader, action_id)
            if stand is None or stand.ended:
                return "ended"
            if self._estop.engaged():
                return "held"
            if stand.worker is not None:
                if not await self._freed(stand):
                    return "waiting"
            elif stand.status == "PENDING":
                if asked or not await self._ask(action_id):
                    return "waiting"
                asked = True
            elif not self._patient:
                return "waiting"
            else:
                await self._carry_out(stand)

    async def _freed(self, stand: ActionStand) -> bool:
        """Whether it is worth looking again at an action that is in somebody's hands."""
        if stand.worker == self.conveyor.records.worker():
            return False  # our own, cut off in the middle: taken up when this process is gone
        with suppress(Taken):
            await self.conveyor.recover()
        after = action_stand(self._db.reader, stand.action_id)
        if after is not None and after.worker == stand.worker and not after.ended:
            await asyncio.sleep(self._poll)
            return self._patient
        return True

    async def _ask(self, action_id: str) -> bool:
        action = load_action(self._db.reader, action_id)
        return self._answer is not None and action is not None and await self._answer(action)

    async def _carry_out(self, stand: ActionStand) -> None:
        """Do what was approved, when its time has come and no worker does it."""
        action = load_action(self._db.reader, stand.action_id)
        due = stand.next_attempt_at is None or stand.next_attempt_at <= stamp(self._clock())
        if action is None or not due or self._worker_runs() or await self.conveyor.execute(action) is None:
            await asyncio.sleep(self._poll)
