"""The worker: a loop that claims work, runs several items at once, and does chores in between.

Jobs, the turns of conversations and everything periodic (approved actions, schedules, SOP
runs) run in it: claimed under a name (`claims`), recovered when that name is gone, wound down within a grace period.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

import msgspec

from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, RowDamaged

Log: TypeAlias = Callable[[str, dict[str, Json]], None]

TROUBLE_SECONDS = 5.0
"""Backoff: no new work is claimed for this long after a failure that no job caused."""


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """An item of work claimed by this process."""

    id: str
    run: Callable[[Callable[[], bool]], Awaitable[None]]
    """Runs it as far as possible now. The argument says whether work is being stopped."""


class Chore(msgspec.Struct, frozen=True, kw_only=True):
    """Periodic work."""

    name: str
    every: float
    """Seconds from one start to the next."""
    run: Callable[[], Awaitable[int]]
    """Does it and returns how much there was to do."""
    first: bool = False
    """Whether it must run once before any work is claimed."""
    at_once: int = 1
    """How many rounds may overlap, if one may take long and others must not wait for it."""


class Tally(msgspec.Struct, kw_only=True):
    """What a worker did."""

    work: set[str] = msgspec.field(default_factory=set[str])
    claims: int = 0
    chores: int = 0


class Worker:
    """Claims and runs; what an item of work or a chore does is passed in."""

    def __init__(
        self,
        *,
        claim: Callable[[Collection[str]], Awaitable[Claimed | None]],
        wake: Callable[[], Awaitable[int]],
        chores: tuple[Chore, ...],
        held: Callable[[], bool],
        slots: Callable[[], int],
        say: Log,
        now: Callable[[], float],
        poll_seconds: float = 0.5,
        grace_seconds: float = 10.0,
        unsaid_seconds: float = 0.5,
    ) -> None:
        self._claim = claim
        self._wake = wake
        self._chores = chores
        self._held = held
        self._slots = slots
        self._say = say
        self._now = now
        self._poll = poll_seconds
        self._grace = grace_seconds
        self._unsaid = unsaid_seconds  # a stop that takes no longer needs no words
        self._running: dict[str, asyncio.Task[None]] = {}
        self._busy: dict[tuple[str, int], asyncio.Task[int]] = {}
        self._last: dict[str, float] = {}
        self._stopping = False
        self._claims_from = 0.0
        self._was_held = False
        self._passed: set[str] = set()
        """Unreadable work already reported."""
        self._nudged = asyncio.Event()
        self.tally = Tally()

    async def run(self, stop: asyncio.Event) -> Tally:
        """Work until `stop` is set; running items may finish within the grace period, then they are cancelled."""
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
        """Do everything that is due now or becomes due meanwhile, then return."""
        try:
            while not stop.is_set() and not self._is_held():
                before = (self.tally.claims, self.tally.chores)
                for chore in self._chores:
                    await self._do(chore)
                await self._tick(with_chores=False)
                while self._running and not stop.is_set():
                    await self._rest(stop)
                    await self._tick(with_chores=False)
                if (self.tally.claims, self.tally.chores) == before:
                    break
        finally:
            await self._wind_down()
        return self.tally

    def nudge(self) -> None:
        """There may be something to claim: check now instead of at the next poll."""
        self._nudged.set()

    def _is_held(self) -> bool:
        held = self._held()
        if held != self._was_held:
            self._say("worker_held" if held else "worker_goes_on", {})
        self._was_held = held
        return held

    async def _tick(self, *, with_chores: bool = True) -> None:
        """Collect finished items, start due ones."""
        self._nudged.clear()
        self._reap()
        if with_chores:
            self._start_chores()
        if self._is_held() or self._now() < self._claims_from:
            return
        try:
            await self._wake()
            while len(self._running) < self._slots():
                claimed = await self._claim(set(self._running))
                if claimed is None:
                    return
                self.tally.claims += 1
                self.tally.work.add(claimed.id)
                self._running[claimed.id] = asyncio.ensure_future(claimed.run(lambda: self._stopping))
        except RowDamaged as error:
            self._pass_over(error)
        except Exception as error:  # chores and running work must continue, whatever it is
            self._trouble(f"Cannot claim work: {_words(error)}")
            self._pause_claims()

    def _pass_over(self, error: RowDamaged) -> None:
        """Reported once; other work is claimed as usual."""
        if str(error) not in self._passed:
            self._passed.add(str(error))
            self._trouble(f"Skipped: {error}")

    def _reap(self) -> None:
        for work_id, task in list(self._running.items()):
            if task.done():
                del self._running[work_id]
                if self._hear(work_id, task):
                    self._pause_claims()
        for place, task in list(self._busy.items()):
            if task.done():
                del self._busy[place]
                self._hear(place[0], task)

    def _hear(self, name: str, task: "asyncio.Task[None] | asyncio.Task[int]") -> bool:
        """Report a failure, if there was one; the worker itself continues."""
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
            places = ((chore.name, number) for number in range(chore.at_once))
            free = next((place for place in places if place not in self._busy), None)
            if free is not None and (last is None or self._now() - last >= chore.every):
                self._last[chore.name] = self._now()
                self._busy[free] = asyncio.ensure_future(self._run(chore))

    async def _run(self, chore: Chore) -> int:
        done = await chore.run()
        self.tally.chores += done
        if done:
            self._say("worker_chore", {"chore": chore.name, "done": done})
        return done

    async def _do(self, chore: Chore) -> None:
        try:
            await self._run(chore)
        except Exception as error:  # a failing chore is reported and runs again when due
            self._trouble(f"{chore.name}: {_words(error)}")

    async def _rest(self, stop: asyncio.Event) -> None:
        """Wait until an item finishes, a nudge arrives, or a moment passes."""
        signs = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._nudged.wait())]
        try:
            waiting = {*signs, *self._running.values()}
            await asyncio.wait(waiting, timeout=self._poll, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for sign in signs:
                sign.cancel()

    async def _wind_down(self) -> None:
        self._stopping = True
        left = {*self._running.values(), *self._busy.values()}
        if left:
            _, late = await asyncio.wait(left, timeout=min(self._unsaid, self._grace))
            if late:
                self._say("worker_stopping", {"running": len(late), "seconds": round(self._grace)})
                _, late = await asyncio.wait(late, timeout=max(0.0, self._grace - self._unsaid))
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        self._reap()


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, CoilclawError) else f"an unexpected {type(error).__name__}"
