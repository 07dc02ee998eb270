"""coilclaw up."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
import msgspec

from coilclaw.cli.output import counted, tell
from coilclaw.cli.session import opened
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.app import App
    from coilclaw.app.background import Background
    from coilclaw.app.site import Site

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@click.command()
@click.option("--addr", metavar="HOST:PORT", help="Listen there instead of [server] http_addr; port 0 is any free one.")
@click.option("--pair", "want_code", is_flag=True, help="Show a pairing code even though a device is paired.")
@click.option(
    "--no-worker",
    is_flag=True,
    help="Leave jobs and schedules to another worker; what is approved still runs.",
)
@click.option("--unsafe", is_flag=True, help="Run commands without a box. Said, logged and receipted.")
def up(addr: str | None, want_code: bool, no_worker: bool, unsafe: bool) -> int:
    """Serve the panel and the API, and work in the background, until stopped.

    Listens on this machine alone; beyond it only with TLS ([server] in the configuration). Prints where to open the
    panel and, while no device is paired, a one-time code for the first. Ctrl-C or SIGTERM: what runs may finish within
    ten seconds; the second time it ends at once.
    """
    from coilclaw.app.alone import alone

    with opened(unsafe=unsafe) as app:
        _settle_address(app, addr)
        with alone(app.home.locks_dir) as tell_address:
            asyncio.run(_serve(app, tell_address, want_code=want_code, with_worker=not no_worker))
    return 0


def _settle_address(app: "App", addr: str | None) -> None:
    """What is listened on is in the configuration from here on, so that everything that asks sees the same."""
    from coilclaw.config.checks import address_fault
    from coilclaw.config.listening import exposure_fault

    address = addr or app.config.server.http_addr
    fault = address_fault(address)
    if fault:
        raise UsageError(f"--addr {address}: {fault}.")
    fault = exposure_fault(app.config.server, address)
    if fault:
        raise UsageError(f"{address} {fault}.")
    _listen_on(app, address)


def _listen_on(app: "App", address: str) -> None:
    server = msgspec.structs.replace(app.config.server, http_addr=address)
    app.config = msgspec.structs.replace(app.config, server=server)


async def _serve(app: "App", tell_address: Callable[[str], None], *, want_code: bool, with_worker: bool) -> None:
    from coilclaw.app.background import Background
    from coilclaw.app.fronts.front import Front
    from coilclaw.app.site import build_whole

    stop = _stop_signal()
    background = Background(app)
    site = build_whole(Front(app, background))
    ready = asyncio.Event()

    def listening(port: int) -> None:
        site.auth.listening(port)
        host = app.config.server.http_addr.rpartition(":")[0]
        _listen_on(app, f"{host}:{port}")
        tell_address(site.auth.hosts.address)
        ready.set()

    try:
        serving = asyncio.ensure_future(_listen(app, site, stop, listening))
        await _first(serving, asyncio.ensure_future(ready.wait()))
        if ready.is_set():
            _greet(app, site, want_code=want_code)
            work: list[Callable[[asyncio.Event], Awaitable[object]]] = [*site.beside]
            if with_worker:
                work.append(lambda stop: _work(app, background, stop))
            await _together(stop, serving, *(asyncio.ensure_future(run(stop)) for run in work))
        else:
            await serving
    finally:
        site.close()


def _stop_signal() -> asyncio.Event:
    """Set by the first signal; the second does what signals do."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told() -> None:
        stop.set()
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in SIGNALS:
        loop.add_signal_handler(number, told)
    return stop


async def _listen(app: "App", site: "Site", stop: asyncio.Event, ready: Callable[[int], None]) -> None:
    from coilclaw.server.listener import Tls, listen

    config = app.config.server
    tls = Tls(cert=config.tls_cert, key=config.tls_key) if config.tls_cert and config.tls_key else None
    if site.auth.port:
        site.auth.listening(site.auth.port)  # known before the first request can come
    await listen(site.door, site.auth.host, site.auth.port, stop, ready, tls=tls)


async def _first(*tasks: "asyncio.Future[Any]") -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _together(stop: asyncio.Event, *tasks: "asyncio.Future[Any]") -> None:
    """Run until everything has ended; what ends first by itself, or fails, ends the rest."""
    await _first(*tasks)
    stop.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _work(app: "App", background: "Background", stop: asyncio.Event) -> None:
    from coilclaw.cli.worker import chores_of

    with ExitStack() as held:
        name = held.enter_context(background.named())
        held.enter_context(app.executor(background.conveyor).hold())
        app.observe("worker_started", {"name": name})
        try:
            await background.worker(name, chores=chores_of(app, background)).run(stop)
        finally:
            app.observe("worker_stopped", {"name": name})


def _greet(app: "App", site: "Site", *, want_code: bool) -> None:
    """Say where the panel is, and how a device comes in."""
    from coilclaw.cli.code import issue_code, show_code
    from coilclaw.cli.estop import way_out
    from coilclaw.packets.ids import stamp
    from coilclaw.store.devices import active_devices

    address = site.auth.hosts.address
    tell(f"CoilClaw is up: {address}/")
    paired = active_devices(app.db.reader, stamp(app.clock()))
    if not paired and not want_code and "JOURNAL_STREAM" in app.environ:
        tell("No device is paired. `coilclaw pair` shows a code; it does not belong in a journal.")
    elif not paired or want_code:
        issued, voided = issue_code(app, "add" if paired else "first")
        show_code(app, issued, address, voided=voided)
    else:
        told = counted(len(paired), "device")
        tell(f"{told} paired. `coilclaw pair --add` lets another in, `coilclaw devices list` shows them.")
    if app.estop.engaged():
        passkey = app.owner_proof.registered(app.db.reader)
        tell(f"ESTOP is engaged: nothing runs until it is cleared. {way_out(passkey)}")
    if sys.stdout.isatty():
        tell("Ctrl-C stops it. Other commands go into a second terminal.")
    sys.stdout.flush()
