"""The model proxy of a session, beside a relay that only copies bytes: the first event, and the CPU of a megabyte."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.home import BenchHome
from bench.rounds import Timing
from bench.row import Plan, Row, beside
from coilclaw.config import ResponsesModel
from coilclaw.features.runner.model_proxy import ModelProxy
from coilclaw.features.runner.spec import RepoRef, StartSession
from coilclaw.features.runner.store import Session, add_session, load_session, move
from coilclaw.runtime import Runtime
from coilclaw.store.tx import Tx

ENDS = str(Path(__file__).with_name("model_ends.py"))
THINKING = 0.1
"""Until a model's first token: the fastest ones need two or three times as long."""


def measure(plan: Plan) -> Iterator[Row]:
    """Each call both ways in turn; server and client are processes of their own, so the CPU is that of the middle."""
    size = plan.size(32 << 20, 1 << 20)
    home = BenchHome(plan.folder / "home")
    servers = [_started("serve", str(THINKING), "0"), _started("serve", "0", str(size))]
    client = _started("ask")
    try:
        with asyncio.Runner() as loop:
            found = loop.run(_measured(home.app, servers, client, plan.rounds))
    finally:
        for process in (*servers, client):
            process.kill()
            process.wait()
        home.close()
    first, bare_first, cpu, bare_cpu = ([each[n] for each in found[1:]] for n in range(4))
    asked, relayed = (Timing.of(each).scaled(1e3) for each in (first, bare_first))
    note = f"a model that thinks for {THINKING * 1e3:g} ms"
    yield beside("models", "first event of an answer", "ms", asked, "bare relay", relayed, at_most=1.1, note=note)
    ours, theirs = (Timing.of(each).scaled(1e3 / (size / 1e6)) for each in (cpu, bare_cpu))
    yield beside("models", "CPU of 1 MB of an answer", "ms", ours, "bare relay", theirs, at_most=2.0)


def _started(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, ENDS, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


async def _measured(
    app: Runtime, servers: "list[subprocess.Popen[str]]", client: "subprocess.Popen[str]", rounds: int
) -> list[tuple[float, float, float, float]]:
    ports = [int(_line(each)) for each in servers]
    made: list[asyncio.Server] = []
    try:
        ours = [await _proxy(app, made, f"ses_{port}", port) for port in ports]
        bare = [await _relay(made, port) for port in ports]
        return [
            (
                (await _asked(client, ours[0]))[0],
                (await _asked(client, bare[0]))[0],
                (await _asked(client, ours[1]))[1],
                (await _asked(client, bare[1]))[1],
            )
            for _ in range(rounds + 1)
        ]
    finally:
        for server in made:
            server.close()


async def _asked(client: "subprocess.Popen[str]", port: int) -> tuple[float, float]:
    """Seconds to the first event, and CPU seconds of this process meanwhile."""
    assert client.stdin is not None
    cpu = time.process_time()
    client.stdin.write(f"{port}\n")
    client.stdin.flush()
    first, _ = (await asyncio.to_thread(_line, client)).split()
    return float(first), time.process_time() - cpu


async def _proxy(app: Runtime, made: list[asyncio.Server], session_id: str, upstream: int) -> int:
    model = ResponsesModel(model="m", base_url=f"http://127.0.0.1:{upstream}/v1")
    providers = msgspec.structs.replace(app.config.providers, models={session_id: model})
    app.config = msgspec.structs.replace(
        app.config,
        providers=providers,
        budgets=msgspec.structs.replace(app.config.budgets, daily_tokens=10**9),
    )
    app.__dict__.pop("listing", None)
    app.__dict__.pop("airlock", None)
    app.__dict__.pop("transport", None)
    held = _Fixed(app)
    proxy = ModelProxy(held, await _session(app, session_id))  # pyright: ignore[reportArgumentType] the same, held
    port = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proxy.serve(port, reader, writer)
        writer.close()

    made.append(server := await asyncio.start_server(serve, "127.0.0.1", 0))
    port = server.sockets[0].getsockname()[1]
    return port


class _Fixed:
    """A runtime whose configuration and way out stay as they are now: each proxy here has a provider of its own."""

    def __init__(self, app: Runtime) -> None:
        self._app = app
        self.config = app.config
        self.transport = app.transport

    def __getattr__(self, name: str) -> object:
        return getattr(self._app, name)


async def _session(app: Runtime, session_id: str) -> Session:
    spec = StartSession(repo=RepoRef(name="site"), provider="codex")

    def write(tx: Tx) -> None:
        add_session(tx, app.clock, session_id, spec, action_id="act", by="bench")
        move(tx, app.clock, session_id, "PREPARING_WORKSPACE")
        move(tx, app.clock, session_id, "STARTING_PROVIDER")
        move(tx, app.clock, session_id, "RUNNING")

    await app.db.write(write)
    session = load_session(app.db.reader, session_id)
    assert session is not None
    return session


async def _relay(made: list[asyncio.Server], upstream: int) -> int:
    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up = await asyncio.open_connection("127.0.0.1", upstream)
        outwards = asyncio.ensure_future(copy(reader, up[1]))
        await copy(up[0], writer)
        outwards.cancel()

    made.append(server := await asyncio.start_server(serve, "127.0.0.1", 0))
    return server.sockets[0].getsockname()[1]
