"""The part of a job's life that its pull request has: opened, asked about, merged, deployed."""

from collections.abc import Callable
from datetime import timedelta

import msgspec

from coilclaw.features.jobs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from coilclaw.features.jobs.record import keep, say_further, to_state
from coilclaw.packets.errors import TryLater, UsageError
from coilclaw.packets.ids import Clock, from_stamp, stamp
from coilclaw.packets.job import JobState
from coilclaw.runtime.job_forge import JobForge
from coilclaw.store.database import Database
from coilclaw.store.jobs import JobRow
from coilclaw.store.tx import Tx

LATER = timedelta(hours=1)


class JobEnding(msgspec.Struct, frozen=True):
    """How a job ends."""

    state: JobState
    reason: str


DONE = JobEnding("DONE", "Every step of the plan is done.")


class JobPulls:
    """Takes a job along while its pull request is what matters. Without a forge, jobs have none."""

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        forge: JobForge | None,
        max_hours: Callable[[], int],
        redact: Callable[[str], str],
    ) -> None:
        self._db = db
        self._clock = clock
        self._forge = forge
        self._max_hours = max_hours
        self._redact = redact

    async def prepare(self, job: JobRow) -> None:
        """Give a job the folder it works in."""
        if self._forge is not None:
            await self._forge.prepare(job)

    async def publish(self, job: JobRow) -> JobRow | JobEnding:
        """Every step is done: open the pull request, if there is anything in it."""
        try:
            opened = None if self._forge is None else await self._forge.publish(job)
        except TryLater as error:
            return await self._publish_later(job, self._redact(str(error)))
        except UsageError as error:  # its own limits: trying again changes nothing
            return JobEnding("FAILED", self._redact(str(error)))
        if opened is None or self._forge is None:
            return DONE
        days = timedelta(days=self._forge.pr_days())
        waiting = msgspec.structs.replace(job, deadline_at=stamp(self._clock() + days))
        reason = f"Pull request #{opened.number}: {self._redact(opened.title)}"
        return await self._db.write(lambda tx: to_state(tx, self._clock, waiting, "PR_OPENED", reason=reason))

    async def _publish_later(self, job: JobRow, reason: str) -> JobRow:
        """Its work is done, so its deadline is that of a pull request which nobody answers."""
        days = 0 if self._forge is None else self._forge.pr_days()
        until = stamp(from_stamp(job.created_at) + timedelta(days=days))
        later = msgspec.structs.replace(
            job,
            worker=None,
            reason=reason,
            next_wakeup_at=stamp(self._clock() + LATER),
            deadline_at=None if job.deadline_at is None else max(job.deadline_at, until),
        )
        return await self._db.write(lambda tx: keep(tx, self._clock, later, "retry", {"reason": reason}))

    async def advance(self, job: JobRow) -> JobRow | JobEnding:
        """The next thing to do for a job whose pull request is open, merged or deployed."""
        if self._forge is None:
            return DONE
        if job.state == "DEPLOYED":
            return JobEnding("DONE", self._redact(self._forge.in_force(job)))
        if job.state == "PR_OPENED":
            return await self._ask(job, self._forge)
        fault = await self._forge.deploy(job)
        if fault:
            return JobEnding("FAILED", self._redact(fault))
        return await self._db.write(lambda tx: to_state(tx, self._clock, job, "DEPLOYED", reason=job.reason))

    async def _ask(self, job: JobRow, forge: JobForge) -> JobRow:
        """Put the merge question; the merge mode may have answered it by the time this returns."""
        asked = await forge.ask(job)
        waiting = (asked,) if asked else ()
        resting = msgspec.structs.replace(
            _waiting_for(job, waiting), worker=None, next_wakeup_at=job.deadline_at if asked else stamp(self._clock())
        )
        reason = f"It waits until its pull request is merged ({asked})." if asked else job.reason
        return await self._db.write(lambda tx: to_state(tx, self._clock, resting, "WAITING_APPROVAL", reason=reason))

    def waits(self, job: JobRow) -> bool:
        """Whether the merge is what a job waits for."""
        return self._forge is not None and self._forge.waits_for_merge(job)

    def overdue(self, job: JobRow) -> JobEnding:
        """A job missed its deadline."""
        if self.waits(job):
            return JobEnding("CANCELLED", "Nobody answered its pull request in time.")
        return JobEnding("TIMED_OUT", "It missed its deadline (waiting included).")

    async def answered(self, job: JobRow) -> JobRow | JobEnding:
        """Go on as the answer to the merge question says."""
        assert self._forge is not None  # noqa: S101 - it waits for the merge
        settled = await self._forge.settled(job)
        if settled.fate == "closed":
            return JobEnding("CANCELLED", self._redact(settled.words))
        if settled.fate == "merged":
            return await self._db.write(lambda tx: to_state(tx, self._clock, job, "MERGED", reason=job.reason))
        if settled.fate == "waits":
            resting = msgspec.structs.replace(job, worker=None, next_wakeup_at=job.deadline_at)
            return await self._db.write(lambda tx: keep(tx, self._clock, resting, "sleep", {"until": job.deadline_at}))
        now = self._clock()
        further = msgspec.structs.replace(
            _waiting_for(job, ()),
            next_wakeup_at=stamp(now),
            deadline_at=stamp(now + timedelta(hours=self._max_hours())),
        )

        def go_on(tx: Tx) -> JobRow:
            say_further(tx, self._clock, further, self._redact(settled.words), by_owner=settled.by_owner)
            return to_state(tx, self._clock, further, "EXECUTING")

        return await self._db.write(go_on)

    async def close(self, job: JobRow) -> None:
        """A job is over: nothing of its pull request stays open."""
        if self._forge is not None:
            await self._forge.close(job, job.reason)


def _waiting_for(job: JobRow, actions: tuple[str, ...]) -> JobRow:
    checkpoint = Checkpoint() if job.checkpoint is None else read_checkpoint(job.checkpoint)
    kept = write_checkpoint(msgspec.structs.replace(checkpoint, waiting=actions, finished=False))
    return msgspec.structs.replace(job, checkpoint=kept)
