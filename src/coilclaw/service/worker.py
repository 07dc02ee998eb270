"""coilclaw worker."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, tell
from coilclaw.cli.yolo_warning import warn_of_yolo

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime import Runtime
    from coilclaw.work.worker import Tally, Worker


@click.command()
@click.option("--once", is_flag=True, help="Do what is due now, then exit.")
@click.option("--jobs", "slots", type=click.IntRange(1, 1000), help="Number of jobs this worker runs at the same time.")
@click.option("--unsafe", is_flag=True, help="Run commands without a box. This is announced, logged and receipted.")
def worker(once: bool, slots: int | None, unsafe: bool) -> int:
    """Execute approved actions, expire old proposals, work on jobs, prune daily.

    Any number of workers may run; nothing is done twice. Ctrl-C or SIGTERM: what runs may finish within ten seconds.
    """
    with opened(unsafe=unsafe) as app:
        warn_of_yolo(app)
        tally = asyncio.run(_work(app, once=once, slots=slots or 0))
    if once:
        jobs, chores = counted(len(tally.work), "job"), counted(tally.chores, "other thing")
        tell(f"Worked on {jobs}, did {chores}.")
    return 0


async def _work(runtime: "Runtime", *, once: bool, slots: int) -> "Tally":
    from coilclaw.packets.card import nobody

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with at_work(runtime, runtime.conveyor(nobody), slots=slots, announce=True) as worker:
        try:
            tally = await (worker.drain(stop) if once else worker.run(stop))
            if once:  # background commands live no longer than this process
                ends = (asyncio.ensure_future(runtime.background.wait()), asyncio.ensure_future(stop.wait()))
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for end in ends:
                    end.cancel()
            return tally
        finally:
            await runtime.leave()


@contextmanager
def at_work(runtime: "Runtime", conveyor: "Conveyor", *, slots: int = 0, announce: bool = False) -> "Iterator[Worker]":
    """A named worker, while this process is registered as executing approved actions."""
    from coilclaw.app import build_worker
    from coilclaw.store.claims import Claimant

    with Claimant(runtime.home.locks_dir, "jobs", runtime.clock) as name, runtime.executor(conveyor).hold():
        if announce:
            runtime.announce("worker")
        runtime.observe("worker_started", {"name": name})
        try:
            yield build_worker(runtime, conveyor, name, slots=slots)
        finally:
            runtime.observe("worker_stopped", {"name": name})
