"""coilclaw worker."""

import asyncio
import signal
from typing import TYPE_CHECKING

import click
import msgspec

from coilclaw.cli.output import counted, tell
from coilclaw.cli.session import opened

if TYPE_CHECKING:
    from coilclaw.app import App
    from coilclaw.app.background import Background
    from coilclaw.jobs.worker import Chore, Tally


@click.command()
@click.option("--once", is_flag=True, help="Do what is due now, then leave.")
@click.option("--jobs", "slots", type=click.IntRange(1, 1000), help="Jobs this worker works on at the same time.")
@click.option("--unsafe", is_flag=True, help="Run commands without a box. Said, logged and receipted.")
def worker(once: bool, slots: int | None, unsafe: bool) -> int:
    """Carry out approved actions, let old proposals expire, work on jobs, prune daily.

    Any number of workers may run; nothing is done twice. Ctrl-C or SIGTERM: what runs may finish within ten seconds.
    """
    with opened(unsafe=unsafe) as app:
        tally = asyncio.run(_work(app, once=once, slots=slots or 0))
    if once:
        jobs, chores = counted(len(tally.jobs), "job"), counted(tally.chores, "other thing")
        tell(f"Worked on {jobs}, did {chores}.")
    return 0


async def _work(app: "App", *, once: bool, slots: int) -> "Tally":
    from coilclaw.app.background import Background

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    background = Background(app)
    with background.named() as name, app.executor(background.conveyor).hold():
        app.observe("worker_started", {"name": name})
        worker = background.worker(name, slots=slots, chores=chores_of(app, background))
        try:
            return await (worker.drain(stop) if once else worker.run(stop))
        finally:
            app.observe("worker_stopped", {"name": name})


def chores_of(app: "App", background: "Background") -> "tuple[Chore, ...]":
    """What a worker does beside jobs and approved actions, wherever it runs."""
    from coilclaw.app.estop_watch import estop_watch
    from coilclaw.app.notices import notifier_chore
    from coilclaw.app.schedules.clockwork import Clockwork
    from coilclaw.app.sops.chore import answered_runs

    sops = answered_runs(app, background.conveyor)
    return (Clockwork(app).chore(background), sops, notifier_chore(app), estop_watch(app), _prune(app))


def _prune(app: "App") -> "Chore":
    """Once a day, whichever worker comes first."""
    from coilclaw.cli.prune import pruner
    from coilclaw.jobs.worker import Chore

    async def run() -> int:
        done = await asyncio.to_thread(pruner(app).prune_if_due)
        return 0 if done is None or not any(msgspec.structs.astuple(done.gone)) else 1

    return Chore(name="prune", every=600.0, run=run)
