"""A chamber: one home that is killed again and again, brought to rest by fresh processes, and looked at."""

import asyncio
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.torture.life import KINDS, Journal, Life, Place, come_to_rest, let_expire
from tests.torture.receivers import Receivers, die_with_parent, received_file
from tests.torture.verdict import Verdict, compare

STUCK_SECONDS = 120


class Cell(msgspec.Struct, frozen=True):
    """So many kills of one sort against one sort of receiver, in one home."""

    how: str
    """A named point, or `random`, or `race`."""
    variant: str
    kills: int
    seed: int


class Tally(msgspec.Struct):
    """What came of a cell."""

    how: str
    variant: str
    kills: int = 0
    again: int = 0
    """Kills of processes that were bringing things to rest."""
    actions: int = 0
    effects: int = 0
    unknown: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    said: list[str] = []

    def add(self, other: "Tally") -> None:
        for name in ("kills", "again", "actions", "effects", "unknown", "lost", "duplicated", "wrong"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.said = [*self.said, *other.said]


def child(work: Callable[[], str]) -> tuple[int, int]:
    """Do something in a process of its own: its id, and where to read what it says."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 70
    try:
        os.close(reading)
        die_with_parent()
        signal.alarm(STUCK_SECONDS)
        said = work()
        with os.fdopen(writing, "w") as out:
            out.write(said)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def await_child(pid: int, reading: int) -> tuple[bool, str]:
    """Whether it was killed as intended, and what it said; anything else that ends it is an error."""
    with os.fdopen(reading) as source:
        said = source.read()
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True, said
    if status:
        raise RuntimeError(f"a life ended by itself, with wait status {status}")
    return False, said


class Chamber:
    """One home that is killed again and again."""

    def __init__(self, cell: Cell, base: Path, template: Path, receivers: Receivers) -> None:
        self._cell = cell
        self._chance = random.Random(cell.seed)
        self._name = base.name
        shutil.copytree(template, base, symlinks=True)
        self._place = Place(base, base.name, cell.variant, receivers.port)
        self._received = received_file(base.parent, base.name)
        self._receivers = receivers
        self._lives = 0
        self._typical = 0.1
        self.tally = Tally(cell.how, cell.variant)

    def run(self) -> Tally:
        self._measure()
        misses = 0
        while self.tally.kills < self._cell.kills and misses < 5 * self._cell.kills + 20:
            killed = self._race() if self._cell.how == "race" else self._kill_once()
            misses += not killed
            self.tally.kills += killed
            self._rest(come_to_rest)
        if self.tally.kills < self._cell.kills:
            self.wrong(f"{self._cell.how} was reached only {self.tally.kills} times")
        found = self._rest(let_expire, over=True)
        self.tally.actions, self.tally.effects, self.tally.unknown = found.actions, found.effects, found.unknown
        return self.tally

    def wrong(self, what: str) -> None:
        self.tally.wrong += 1
        self.tally.said.append(f"{self._cell.how}/{self._cell.variant} seed {self._cell.seed}: {what}")

    # Lives

    def _doings(self, *, sending_only: bool = False) -> list[tuple[str, str]]:
        self._lives += 1
        kinds = [kind for kind in KINDS if not (kind == "unsure" and self._cell.variant == "neither")]
        if sending_only:
            chosen = ["queue"] * 3
        else:
            chosen = [*self._chance.sample(kinds, 3), self._chance.choice(["send", "queue", "prompt"])]
            self._chance.shuffle(chosen)
        return [(f"{self._name}.{self._lives}.{number}", kind) for number, kind in enumerate(chosen)]

    def _live(self, doings: list[tuple[str, str]], reached, seed: int, *, execute: bool = True) -> str:
        app, _ = self._place.open(reached)
        life = Life(app, Journal(self._place.journal), random.Random(seed))
        asyncio.run(life.run(doings, execute=execute))
        app.close()
        return ""

    def _measure(self) -> None:
        """One whole life, to know how long it takes."""
        doings, seed = self._doings(), self._chance.random()
        start = time.monotonic()
        await_child(*child(lambda: self._live(doings, nothing, seed)))
        self._typical = time.monotonic() - start

    def _kill_once(self) -> bool:
        doings, seed = self._doings(), self._chance.random()
        if self._cell.how == "random":
            pid, reading = child(lambda: self._live(doings, nothing, seed))
            time.sleep(self._chance.uniform(0, 1.1 * self._typical))
            os.kill(pid, signal.SIGKILL)
        else:
            last = _Last(self._cell.how, self._chance.choice([1, 1, 2, 3]))
            pid, reading = child(lambda: self._live(doings, last, seed))
        killed, _ = await_child(pid, reading)
        self._receivers.rest()
        return killed

    def _race(self) -> bool:
        """Several executors at once on what one life left approved, or died over; one of them is killed."""
        doings, seed = self._doings(sending_only=True), self._chance.random()
        died = self._chance.random() < 0.5
        last = _Last(self._chance.choice(["proposed", "begun", "done"]), 1) if died else nothing
        await_child(*child(lambda: self._live(doings, last, seed, execute=died)))
        self._receivers.rest()

        def execute() -> str:
            app, _ = self._place.open(nothing)
            asyncio.run(Life(app, Journal(self._place.journal), random.Random(seed)).run_due())
            app.close()
            return ""

        racers = [child(execute) for _ in range(3)]
        time.sleep(self._chance.uniform(0, self._typical))
        os.kill(racers[0][0], signal.SIGKILL)
        ends = [await_child(*racer)[0] for racer in racers]
        self._receivers.rest()
        return ends[0]

    # Afterwards

    def _rest(self, come: Callable, *, over: bool = False) -> Verdict:
        place = self._place

        def settle() -> str:
            app, clock = place.open(nothing)
            asyncio.run(come(app, clock))
            app.close()
            verdict = compare(place, self._received, over=over)
            verdict.later = clock.later
            return msgspec.json.encode(verdict).decode()

        while True:
            pid, reading = child(settle)
            if self._chance.random() < 0.3:  # whoever cleans up dies too
                time.sleep(self._chance.uniform(0, self._typical))
                os.kill(pid, signal.SIGKILL)
            killed, said = await_child(pid, reading)
            self._receivers.rest()
            if not killed:
                break
            self.tally.again += 1
        found = msgspec.json.decode(said, type=Verdict)
        place.later = found.later
        self.tally.lost += len(found.lost)
        self.tally.duplicated += len(found.duplicated)
        if not found.sound:
            for what in (*found.lost, *found.duplicated):
                self.tally.said.append(f"{self._cell.how}/{self._cell.variant} seed {self._cell.seed}: {what}")
            for what in (*found.unapproved, *found.disagreeing):
                self.wrong(what)
            raise Unsound(self.tally)
        return found


class Unsound(Exception):
    """Something is lost, done twice or contradicted; the home is left as it is."""

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self.tally = tally


class _Last:
    """Makes the n-th time a boundary is reached the last thing the process does."""

    def __init__(self, point: str, times: int) -> None:
        self._point = point
        self._left = times

    def __call__(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


def nothing(_: str) -> None:
    pass
