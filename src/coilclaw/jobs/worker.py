"""The worker: a loop that claims jobs, works on several at once, and does its chores in between."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

import msgspec

from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError
from coilclaw.store.jobs import JobRow, JobUnreadable

Say: TypeAlias = Callable[[str, dict[str, Json]], None]

TROUBLE_SECONDS = 5.0
"""After something failed that is no job's fault, nothing new is taken up for so long."""


class Chore(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done now and then."""

    name: str
    every: float
    """Seconds from one beginning to the next."""
    run: Callable[[], Awaitable[int]]
    """Does it and says how much there was to do."""
    first: bool = False
    """Whether it must have been done once before any job is taken up."""


class Tally(msgspec.Struct, kw_only=True):
    """What a worker did."""

    jobs: set[str] = msgspec.field(default_factory=set[str])
    claims: int = 0
    chores: int = 0


class Worker:
    """Schedules; what a job or a chore is, it does not know."""

    def __init__(
        self,
        *,
        claim: Callable[[Collection[str]], Awaitable[JobRow | None]],
        work: Callable[[JobRow, Callable[[], bool]], Awaitable[None]],
        wake: Callable[[], Awaitable[int]],
        chores: tuple[Chore, ...],
        held: Callable[[], bool],
        slots: int,
        say: Say,
        now: Callable[[], float],
        poll_seconds: float = 0.5,
        grace_seconds: float = 10.0,
    ) -> None:
        self._claim = claim
        self._work = work
        self._wake = wake
        self._chores = chores
        self._held = held
        self._slots = slots
        self._say = say
        self._now = now
        self._poll = poll_seconds
        self._grace = grace_seconds
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self._busy: dict[str, asyncio.Task[int]] = {}
        self._last: dict[str, float] = {}
        self._stopping = False
        self._claims_from = 0.0
        self._was_held = False
        self._passed: set[str] = set()
        """Jobs that cannot be read, and of which that was said."""
        self.tally = Tally()

    async def run(self, stop: asyncio.Event) -> Tally:
        """Work until `stop` is set; what runs then may finish within the grace, after that it is cut."""
        try:
            for chore in self._chores:
                if chore.first:
                    self._last[chore.name] = self._now()
                    await self._do(chore)
            while not stop.is_set():
                await self._tick()
                await self._rest(stop)
        finally:
            await self._wind_down()
        return self.tally

    async def drain(self, stop: asyncio.Event) -> Tally:
        """Do everything that is due now, and what becomes due by doing it; then come back."""
        try:
            while not stop.is_set() and not self._is_held():
                before = (self.tally.claims, self.tally.chores)
                for chore in self._chores:
                    await self._do(chore)
                await self._tick(with_chores=False)
                while self._jobs and not stop.is_set():
                    await self._rest(stop)
                    await self._tick(with_chores=False)
                if (self.tally.claims, self.tally.chores) == before:
                    break
        finally:
            await self._wind_down()
        return self.tally

    def _is_held(self) -> bool:
        held = self._held()
        if held != self._was_held:
            self._say("worker_held" if held else "worker_goes_on", {})
        self._was_held = held
        return held

    async def _tick(self, *, with_chores: bool = True) -> None:
        """Take back what is done, start what is due."""
        self._reap()
        if with_chores:
            self._start_chores()
        if self._is_held() or self._now() < self._claims_from:
            return
        try:
            await self._wake()
            while len(self._jobs) < self._slots:
                job = await self._claim(set(self._jobs))
                if job is None:
                    return
                self.tally.claims += 1
                self.tally.jobs.add(job.job_id)
                self._say("job_claimed", {"job_id": job.job_id, "state": job.state})
                self._jobs[job.job_id] = asyncio.ensure_future(self._work(job, lambda: self._stopping))
        except JobUnreadable as error:
            self._pass_over(error)
        except Exception as error:  # whatever it is, chores and running jobs go on
            self._trouble(f"Jobs cannot be taken: {_words(error)}")
            self._pause_claims()

    def _pass_over(self, error: JobUnreadable) -> None:
        """Said once; others are taken up as if it were not there."""
        if error.job_id not in self._passed:
            self._passed.add(error.job_id)
            self._say("worker_trouble", {"job_id": error.job_id, "message": f"Passed over: {error}"})

    def _reap(self) -> None:
        for job_id, task in list(self._jobs.items()):
            if task.done():
                del self._jobs[job_id]
                if self._hear(job_id, task):
                    self._pause_claims()
        for name, task in list(self._busy.items()):
            if task.done():
                del self._busy[name]
                self._hear(name, task)

    def _hear(self, name: str, task: "asyncio.Task[None] | asyncio.Task[int]") -> bool:
        """Say what went wrong, if anything did; the worker itself lives on."""
        if task.cancelled() or (error := task.exception()) is None:
            return False
        self._trouble(f"{name}: {_words(error)}")
        return True

    def _trouble(self, words: str) -> None:
        self._say("worker_trouble", {"message": words})

    def _pause_claims(self) -> None:
        self._claims_from = self._now() + TROUBLE_SECONDS

    def _start_chores(self) -> None:
        for chore in self._chores:
            last = self._last.get(chore.name)
            if chore.name not in self._busy and (last is None or self._now() - last >= chore.every):
                self._last[chore.name] = self._now()
                self._busy[chore.name] = asyncio.ensure_future(self._run(chore))

    async def _run(self, chore: Chore) -> int:
        done = await chore.run()
        self.tally.chores += done
        if done:
            self._say("worker_chore", {"chore": chore.name, "done": done})
        return done

    async def _do(self, chore: Chore) -> None:
        try:
            await self._run(chore)
        except Exception as error:  # a chore that breaks is said, and done again in its time
            self._trouble(f"{chore.name}: {_words(error)}")

    async def _rest(self, stop: asyncio.Event) -> None:
        """Wait until something is over, or for a moment."""
        stopped = asyncio.ensure_future(stop.wait())
        try:
            waiting = {stopped, *self._jobs.values()}
            await asyncio.wait(waiting, timeout=self._poll, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()

    async def _wind_down(self) -> None:
        self._stopping = True
        left = {*self._jobs.values(), *self._busy.values()}
        if left:
            self._say("worker_stopping", {"running": len(left)})
            _, late = await asyncio.wait(left, timeout=self._grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        self._reap()


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, CoilclawError) else f"an unexpected {type(error).__name__}"
