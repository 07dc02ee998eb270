"""The executor: carries out approved actions when they are due. Any number of executors may run on one database."""

from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

from coilclaw.gate.approvals import Approvals
from coilclaw.gate.conveyor import Conveyor, Outcome
from coilclaw.gate.outcomes import LONGEST_PAUSE
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.actions import due_actions
from coilclaw.store.database import Database
from coilclaw.store.lock import present, somebody_is_present

LOCK = "executor.lock"
BATCH = 100


class Executor:
    """Takes approved actions in the order they were proposed; each is claimed before anything is done."""

    def __init__(self, conveyor: Conveyor, approvals: Approvals, db: Database, clock: Clock, locks: Path) -> None:
        self._conveyor = conveyor
        self._approvals = approvals
        self._db = db
        self._clock = clock
        self._locks = locks

    def hold(self) -> AbstractContextManager[None]:
        """Announce, for as long as this lasts, that this process carries out approved actions. Several may."""
        return present(self._locks / LOCK)

    async def run_due(self) -> int:
        """Carry out everything that is due; returns the number of attempts."""
        now = self._clock()
        never_after = stamp(now + timedelta(seconds=2 * LONGEST_PAUSE))
        outcomes: list[Outcome] = []
        for action in due_actions(self._db.reader, stamp(now), never_after, BATCH):
            outcome = await self._conveyor.guarded(action.action_id, self._conveyor.execute(action))
            if outcome is not None:
                outcomes.append(outcome)
        return len(outcomes)

    async def expire(self) -> int:
        """End the actions that waited too long for the owner; returns how many."""
        return len(await self._approvals.expire())

    async def tidy(self) -> None:
        """Recover what dead processes left; run approved actions that are due here, unless a worker does."""
        await self._conveyor.recover()
        if not worker_is_running(self._locks):
            await self.run_due()


def worker_is_running(locks: Path) -> bool:
    """Whether some process carries out approved actions."""
    return somebody_is_present(locks / LOCK)
