"""Living with it: a changed setting, the status line of a terminal, and what telling a phone costs."""

import asyncio
import os
import pty
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from bench.processes import SERVER_CONFIG, model_server
from bench.rounds import Timing
from bench.row import Plan, Row, alone
from bench.site import COILCLAW, Line, Served, environment, memory_of, served
from coilclaw.cli.live import PERIOD, Live
from coilclaw.features.notifications.store.deliveries import add_subscription
from coilclaw.features.notifications.web_push import point_of
from coilclaw.ledger.audit import add_event
from coilclaw.packets.ids import utc_now
from coilclaw.store.tx import Tx

PATIENCE = 60.0
SIGNED = 70
"""So many receipts are signed at least once."""
SETTINGS = "/v1/overview"
ENDPOINT = "https://push.invalid/wpush/v2/bench"
"""A name that nobody can look up: the message is made and encrypted, and then goes nowhere."""


def measure(plan: Plan) -> Iterator[Row]:
    """Two processes that stay, one terminal, one phone."""
    with model_server() as base_url, asyncio.Runner() as loop:
        config = SERVER_CONFIG.format(base_url=base_url)
        with served(plan.folder / "served", config) as site:
            loop.run(asyncio.sleep(2))  # what is done once at the start is no idling
            yield _setting(plan, loop, site, config)
            yield _push(loop, site)
    yield _status_line(plan)


def _setting(plan: Plan, loop: asyncio.Runner, site: Served, config: str) -> Row:
    """From the file as written to the moment a server and a worker of its own both go by it."""
    folder = plan.folder / "served"
    log = (plan.folder / "worker.log").open("wb")
    worker = subprocess.Popen(
        [COILCLAW, "worker"], env={**environment(folder), "COILCLAW_LOG": "json"}, stdout=log, stderr=log
    )
    try:
        _wait(lambda: b"worker_started" in _read(plan))
        samples = [loop.run(_changed(plan, site, config, 1_100_000 + number)) for number in range(plan.rounds)]
    finally:
        worker.terminate()
        worker.wait(timeout=30)
        log.close()
    return alone("live", "a changed setting in force everywhere", "ms", Timing.of(samples).scaled(1e3), at_most=1000)


async def _changed(plan: Plan, site: Served, config: str, tokens: int) -> float:
    told = _read(plan).count(b"config_changed")
    line = await Line.to(site.port)
    path = plan.folder / "served" / ".coilclaw" / "config.toml"
    start = time.perf_counter()
    path.write_text(f"{config}\n[server]\nrequests_per_minute = 1000000\n\n[budgets]\ndaily_tokens = {tokens}\n")
    while f"{tokens}".encode() not in await line.ask("GET", SETTINGS, site.head):
        await asyncio.sleep(0.01)
        _still(start)
    while _read(plan).count(b"config_changed") <= told:
        await asyncio.sleep(0.01)
        _still(start)
    line.close()
    return time.perf_counter() - start


def _push(loop: asyncio.Runner, site: Served) -> Row:
    """What a server that has worked (asked its model, signed receipts) has grown by once a phone was sent a message."""

    async def work() -> None:
        line = await Line.to(site.port)
        for _ in range(SIGNED):
            await line.ask("POST", "/v1/files/show", site.head, b'{"path":"SYSTEM.md"}')
        await line.ask("POST", "/v1/receipts/verify", site.head, b"{}")
        made = msgspec.json.decode(await line.ask("POST", "/v1/chat/threads", site.head, b'{"title": "bench"}'))
        await line.ask("POST", f"/v1/chat/threads/{made['thread_id']}/messages", site.head, b'{"text": "hi"}')
        line.close()

    loop.run(work())
    _wait(lambda: _count(site, "ledger_heads") > 0)
    _wait(lambda: _count(site, "turns WHERE state = 'ANSWERED'") > 0)
    before = memory_of(site.pid)
    point = point_of(ec.generate_private_key(ec.SECP256R1()).public_key())

    def subscribe(tx: Tx) -> None:
        add_subscription(tx, utc_now, device_id="dev_bench", endpoint=ENDPOINT, p256dh=point, auth=bytes(16))
        add_event(tx, utc_now, "job_state", "job_1m7h0z8rzxb5zp46pr3", {"to": "FAILED"})

    site.database.write_now(subscribe)
    _wait(lambda: _count(site, "notification_deliveries WHERE attempts > 0 AND code <> ''") > 0)
    grown = Timing.of([max(memory_of(site.pid) - before, 0.0)])
    return alone("live", "push on: memory of worker + server", "MB", grown, at_most=2 * (1 << 20) / 1e6)


def _status_line(plan: Plan) -> Row:
    """The share of one core that drawing takes, at a real terminal, with the output of a command above it."""
    ours, theirs = pty.openpty()
    drained = threading.Thread(target=_drain, args=(ours,), daemon=True)
    drained.start()
    with os.fdopen(theirs, "w", encoding="utf-8") as out:
        live = Live(out, lambda: "1,234 tokens, 0.0123")
        live.output("".join(f"compiling part {number} of the program\n" for number in range(100)))
        live.event("tool_requested", {"what": "Run `make -j2 all`."})
        samples = [_drawing(live, plan.size(200, 20)) for _ in range(plan.rounds)]
        live.stop()
    drained.join(5)
    os.close(ours)
    share = Timing.of([100 * each / PERIOD for each in samples])
    return alone("live", "status line, of a core", "%", share, at_most=1.0)


def _drawing(live: Live, times: int) -> float:
    start = time.thread_time()
    for _ in range(times):
        live.draw()
    return (time.thread_time() - start) / times


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        return  # the other end was closed


def _count(site: Served, what: str) -> int:
    return int(site.database.reader.execute(f"SELECT count(*) FROM {what}").fetchone()[0])


def _read(plan: Plan) -> bytes:
    return (plan.folder / "worker.log").read_bytes()


def _wait(done: Callable[[], bool]) -> None:
    start = time.perf_counter()
    while not done():
        time.sleep(0.02)
        _still(start)


def _still(start: float) -> None:
    if time.perf_counter() - start > PATIENCE:
        raise TimeoutError("it did not happen in time")
