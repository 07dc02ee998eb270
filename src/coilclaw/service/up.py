"""coilclaw up."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from coilclaw.cli.open_home import here, opened
from coilclaw.cli.output import counted, print_wrapped, tell
from coilclaw.cli.yolo_warning import warn_of_yolo
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime
    from coilclaw.server.site import Site

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@click.command()
@click.option(
    "--addr", metavar="HOST:PORT", help="Listen on this address instead of [server] http_addr; port 0 picks a free one."
)
@click.option(
    "--pair", "want_code", is_flag=True, help="Show a pairing code (at a terminal) even if a device is already paired."
)
@click.option(
    "--no-worker",
    is_flag=True,
    help="Leave jobs and schedules to another worker; approved actions still run.",
)
@click.option("--unsafe", is_flag=True, help="Run commands without a box. This is announced, logged and receipted.")
def up(addr: str | None, want_code: bool, no_worker: bool, unsafe: bool) -> int:
    """Serve the panel and the API and run background work until stopped.

    Listens on this machine only, or beyond it with TLS ([server] in the configuration). Prints where to open the
    panel and, at a terminal while no device is paired, a one-time code for the first. Ctrl-C or SIGTERM: what runs may
    finish within ten seconds; a second signal ends it at once.
    """
    from coilclaw.server.server_lock import hold_server_lock

    _make_home_if_chosen()
    with opened(unsafe=unsafe) as app:
        warn_of_yolo(app)
        _settle_address(app, addr)
        with hold_server_lock(app.home.locks_dir) as tell_address:
            asyncio.run(_serve(app, tell_address, want_code=want_code, with_worker=not no_worker))
    return 0


def _make_home_if_chosen() -> None:
    """Create the home if it does not exist and the environment has everything a backend needs."""
    from coilclaw.config.environment import chooses_openrouter

    if not here().root.exists() and chooses_openrouter(os.environ):
        from coilclaw.cli.commands.init import init

        click.get_current_context().invoke(init, quiet=True)


def _settle_address(app: "Runtime", addr: str | None) -> None:
    """Put the listening address into the configuration, so that all readers see the same."""
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


def _listen_on(app: "Runtime", address: str) -> None:
    server = msgspec.structs.replace(app.config.server, http_addr=address)
    app.config = msgspec.structs.replace(app.config, server=server)


async def _serve(app: "Runtime", tell_address: Callable[[str], None], *, want_code: bool, with_worker: bool) -> None:
    from coilclaw.app import build_server

    stop = _stop_signal()
    site = build_server(app)
    ready = asyncio.Event()

    def listening(port: int) -> None:
        site.serving.listening(port)
        host = app.config.server.http_addr.rpartition(":")[0]
        _listen_on(app, f"{host}:{port}")
        tell_address(site.serving.hosts.address)
        ready.set()

    try:
        serving = asyncio.ensure_future(_listen(app, site, stop, listening))
        await _first(serving, asyncio.ensure_future(ready.wait()))
        if ready.is_set():
            _greet(app, site, want_code=want_code)
            work: list[Callable[[asyncio.Event], Awaitable[object]]] = [*site.beside]
            if with_worker:
                work.append(lambda stop: _work(site, stop))
            await _together(stop, serving, *(asyncio.ensure_future(run(stop)) for run in work))
        else:
            await serving
    finally:
        await app.leave()
        site.close()


def _stop_signal() -> asyncio.Event:
    """Set by the first signal; the second has its default effect."""
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


async def _listen(app: "Runtime", site: "Site", stop: asyncio.Event, ready: Callable[[int], None]) -> None:
    from coilclaw.server.listener import Tls, listen

    config = app.config.server
    tls = None
    if config.tls_cert and config.tls_key:
        tls = Tls(cert=config.tls_cert, key=config.tls_key, client_ca=config.tls_client_ca)
    if site.serving.port:
        site.serving.listening(site.serving.port)  # must be known before the first request
    await listen(site.door, site.serving.host, site.serving.port, stop, ready, tls=tls)


async def _first(*tasks: "asyncio.Future[Any]") -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _together(stop: asyncio.Event, *tasks: "asyncio.Future[Any]") -> None:
    """Run until all have ended; the first to end or fail ends the rest."""
    await _first(*tasks)
    stop.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _work(site: "Site", stop: asyncio.Event) -> None:
    from coilclaw.service.worker import at_work

    with at_work(site.serving.runtime, site.serving.core.conveyor) as worker:
        await worker.run(stop)


def _greet(app: "Runtime", site: "Site", *, want_code: bool) -> None:
    """Print the panel's address and how to pair a device."""
    from coilclaw.cli.commands.estop import way_out
    from coilclaw.features.devices.pairing_code import issue_code, show_code
    from coilclaw.packets.ids import stamp
    from coilclaw.store.devices import active_devices

    address = site.serving.hosts.address
    tell(f"CoilClaw is up: {address}/")
    paired = active_devices(app.db.reader, stamp(app.clock()))
    if paired and not want_code:
        told = counted(len(paired), "device")
        print_wrapped(f"{told} paired. `coilclaw pair --add` lets another in, `coilclaw devices list` shows them.")
    elif not sys.stdout.isatty():  # a journal, a file or a pipe would keep the code
        how = "coilclaw pair --add" if paired else "coilclaw pair"
        print_wrapped(f"Pairing codes are shown at a terminal only: run `{how}` there.")
    else:
        issued, voided = issue_code(app, "add" if paired else "first")
        show_code(app, issued, address, voided=voided)
    if app.estop.engaged():
        passkey = app.owner_proof.registered(app.db.reader)
        print_wrapped(f"ESTOP is engaged: nothing runs until you clear it. {way_out(passkey)}")
    if sys.stdout.isatty():
        print_wrapped("Press Ctrl-C to stop. Run other commands in a second terminal.")
    sys.stdout.flush()
