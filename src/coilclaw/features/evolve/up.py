"""`evolve up`: the watcher as a child process, the desk it asks, and ESTOP over both."""

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.features.evolve import watcher
from coilclaw.features.evolve.box import check_route, evolve_box
from coilclaw.features.evolve.desk import EvolveDesk
from coilclaw.features.evolve.init import needed
from coilclaw.features.evolve.places import EvolvePlaces
from coilclaw.features.evolve.watcher.agent import started_at
from coilclaw.features.evolve.watcher.settings import WatcherSettings
from coilclaw.features.evolve.wheels import checked_wheels
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import UsageError
from coilclaw.sandbox.companion import Companion

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from coilclaw.runtime.runtime import Runtime

_PATIENCE = 30.0
_GLANCE = 1.0
_RESTART_SECONDS = 2.0
_MERGE_SECONDS = 30.0
"""A merge that nobody is asked about is waited for, so that main starts with it."""


# One at a time


@contextlib.contextmanager
def held(places: EvolvePlaces) -> Iterator[None]:
    """Be the one that runs the agent of this home; a UsageError if another process is."""
    with (places.root / "up.lock").open("a+", encoding="ascii") as lock:
        _take(lock)
        lock.seek(0)
        lock.truncate()
        lock.write(f"{os.getpid()} {started_at(os.getpid())}")
        lock.flush()
        yield


def _take(lock: "TextIO") -> None:
    deadline = time.monotonic() + _GLANCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:  # whoever only looks holds it for a moment
                raise UsageError("the agent is up already.", remedy="See `coilclaw evolve status`.") from None
            time.sleep(0.01)
        else:
            return


def running(places: EvolvePlaces) -> int | None:
    """The process that runs the agent; None if there is none."""
    try:
        with (places.root / "up.lock").open("r+", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pid, started = lock.read().split()
                # Another one may have taken the lock and not said so yet: the id before it may be a stranger's by now.
                return int(pid) if started_at(int(pid)) == started else None
    except (OSError, ValueError):
        return None
    return None


def stop(places: EvolvePlaces) -> bool:
    """End what runs and wait until it has; False if nothing did."""
    pid = running(places)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        _terminate(places, pid)
    deadline = time.monotonic() + _PATIENCE
    while running(places) is not None:
        if time.monotonic() > deadline:
            raise UsageError(f"process {pid} does not end.", remedy="Engage ESTOP, or end the process yourself.")
        time.sleep(0.05)
    return True


def _terminate(places: EvolvePlaces, pid: int) -> None:
    process = os.pidfd_open(pid)
    try:
        if running(places) == pid:  # it still was when its descriptor was there, which names no other
            signal.pidfd_send_signal(process, signal.SIGTERM)
    finally:
        os.close(process)


# Running


async def run(app: "Runtime", stopped: asyncio.Event, ready: "Callable[[str], None]") -> None:
    """Keep the watcher running until told to stop. ESTOP kills it with the agent, and holds until it is cleared.

    `ready` hears which box holds, once one does.
    """
    places = needed(app)
    check_route(app)
    await asyncio.to_thread(lambda: checked_wheels(places))
    tier = await asyncio.to_thread(lambda: evolve_box(app).tier)  # refuses with the remedy, before anything starts
    write_settings(app, places)
    ready(tier)
    desk = asyncio.ensure_future(EvolveDesk(app, app.conveyor(nobody)).run())
    try:
        while not stopped.is_set():
            if app.estop.engaged():
                await asyncio.sleep(0.2)
            else:
                await _watch(app, places, stopped, desk)
    finally:
        desk.cancel()
        await asyncio.gather(desk, return_exceptions=True)
        await app.leave()


async def _watch(app: "Runtime", places: EvolvePlaces, stopped: asyncio.Event, desk: "asyncio.Future[None]") -> None:
    """One life of the watcher."""
    watcher_process = Companion(_argv(places), app.environ, places.state / "watcher.out")
    await _note(app, "evolve_started", {"pid": watcher_process.pid})
    ends = {
        "stopped": asyncio.ensure_future(stopped.wait()),
        "estop": asyncio.ensure_future(app.estop.wait()),
        "ended": asyncio.ensure_future(_ended(watcher_process)),
    }
    try:
        await asyncio.wait({*ends.values(), desk}, return_when=asyncio.FIRST_COMPLETED)
        if ends["estop"].done():
            watcher_process.kill()
        if desk.done():
            desk.result()  # raises: without a desk nobody would be asked
    finally:
        for task in ends.values():
            task.cancel()
        await watcher_process.stop()
    why = "ESTOP" if app.estop.engaged() else "stop" if stopped.is_set() else f"exit {watcher_process.ended()}"
    await _note(app, "evolve_stopped", {"why": why})
    if not stopped.is_set() and not app.estop.engaged():
        app.warn(f"The watcher ended unexpectedly ({why}) and is started again.")
        await asyncio.sleep(_RESTART_SECONDS)


async def _ended(process: Companion) -> None:
    while process.ended() is None:
        await asyncio.sleep(0.2)


async def _note(app: "Runtime", event: str, about: dict[str, Json]) -> None:
    await app.db.write(lambda tx: add_event(tx, app.clock, event, "evolve", about))


def _argv(places: EvolvePlaces) -> tuple[str, ...]:
    program = Path(watcher.__file__).parent
    return (sys.executable, "-I", "-S", str(program), str(places.settings))


def write_settings(app: "Runtime", places: EvolvePlaces) -> None:
    """Tell the watcher everything it needs to know."""
    evolve = app.config.evolve
    WatcherSettings(
        home=str(places.root),
        launch=(sys.executable, "-m", "coilclaw.features.evolve.launch", "{branch}"),
        look_seconds=evolve.look_seconds,
        start_seconds=evolve.start_seconds,
        merge_wait=_MERGE_SECONDS if evolve.merge == "boxed" else 0,
        disk_bytes=evolve.disk_mb << 20,
        processes=evolve.processes,
    ).save(places.settings)
