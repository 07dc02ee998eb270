"""A key that is typed over the stream until it is on the screen, beside a bare WebSocket on a bare terminal."""

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from bench.home import BenchHome
from bench.rounds import Timing, percentile
from bench.row import Plan, Row, beside
from bench.stream import bare_site, session_site
from bench.terminals import Ground
from coilclaw.features.runner.follower import feed_in_turn
from coilclaw.features.runner.live import LiveSession
from coilclaw.features.runner.recording import Recording
from coilclaw.runtime import Runtime
from coilclaw.sandbox.box import open_box

_WAITS = ("/bin/sh", "-c", "sleep 100000")
"""The terminal itself echoes what is typed."""
_FLOODS = ("/bin/sh", "-c", "while :; do head -c 200000 /dev/zero | tr '\\0' x; sleep 0.05; done")
_NEIGHBOURS = 10
Press = Callable[[], Awaitable[None]]
"""Types a key and waits until it is shown."""


def measure(plan: Plan) -> Iterator[Row]:
    """Alone, and beside terminals that write without end."""
    home = BenchHome(plan.folder / "home")
    ground = Ground(plan, open_box(hide=()).tier)
    keys = plan.size(100, 5)
    try:
        with asyncio.Runner() as loop:
            for neighbours in (0, _NEIGHBOURS):
                ours: list[float] = []
                bare: list[float] = []
                for number in range(plan.rounds + 1):
                    took = loop.run(_keys(_ours(home.app, ground, plan.folder, neighbours), keys))
                    beside_it = loop.run(_keys(_bare(neighbours), keys))
                    if number:
                        ours.append(percentile(took, 0.95 if neighbours else 0.5))
                        bare.append(percentile(beside_it, 0.95 if neighbours else 0.5))
                which = f"p95 with {neighbours} floods beside" if neighbours else "p50"
                yield beside(
                    "echo", f"a key to the screen, {which}", "ms", Timing.of(ours).scaled(1e3),
                    "bare uvicorn on a bare terminal", Timing.of(bare).scaled(1e3), at_most=3.0 if neighbours else 2.0,
                )  # fmt: skip
    finally:
        home.close()


async def _keys(made: "contextlib.AbstractAsyncContextManager[Press]", count: int) -> list[float]:
    async with made as press:
        await press()
        took: list[float] = []
        for _ in range(count):
            began = time.perf_counter()
            await press()
            took.append(time.perf_counter() - began)
            await asyncio.sleep(0.01)
        return took


@asynccontextmanager
async def _ours(runtime: Runtime, ground: Ground, folder: Path, neighbours: int) -> AsyncIterator[Press]:
    async with AsyncExitStack() as stack:
        stack.push_async_callback(ground.keepers.end_all)
        turn, names = asyncio.Lock(), [f"s{number}" for number in range(neighbours + 1)]
        followed = [await _followed(runtime, ground, folder, name, stack, turn) for name in names]
        live, send = followed[0]
        port, token = await stack.enter_async_context(session_site(runtime, live, send))
        protocols: Any = ["coilclaw-binary", token]
        socket = await stack.enter_async_context(
            connect(f"ws://localhost:{port}/runner/v1/stream", subprotocols=protocols, compression=None)
        )
        await socket.send(json.dumps({"type": "subscribe", "session_id": "sess_bench"}))
        key = json.dumps({"type": "input", "session_id": "sess_bench", "data": "x"})

        async def press() -> None:
            await socket.send(key)
            while True:
                frame = await socket.recv()
                if isinstance(frame, bytes) and frame[0] == 1:
                    return

        yield press


async def _followed(
    runtime: Runtime, ground: Ground, folder: Path, name: str, stack: AsyncExitStack, turn: asyncio.Lock
) -> tuple[LiveSession, Callable[[str, bytes], Awaitable[None]]]:
    """A kept terminal as the follower follows it; the first waits, the others flood."""
    attached = await ground.start(name, *(_WAITS if name == "s0" else _FLOODS))
    follower = await ground.keepers.attach(name, 0, follow=True)
    if follower is None:
        raise RuntimeError("the keeper is gone")
    path = folder / f"{name}.rec"
    path.unlink(missing_ok=True)
    recording = Recording(path, most=16 << 20)
    live = LiveSession("sess_bench", recording, runtime.redactor, now=lambda: 0, seq=0)

    async def follow() -> None:
        async for offset, data in follower.output():
            await feed_in_turn(live, offset, data, turn)

    task = asyncio.ensure_future(follow())

    async def end() -> None:
        task.cancel()
        await asyncio.wait({task})
        await follower.close()
        await attached.close()
        live.end()
        recording.close()

    stack.push_async_callback(end)

    async def send(_: str, data: bytes) -> None:
        await follower.send(data)

    return live, send


@asynccontextmanager
async def _bare(neighbours: int) -> AsyncIterator[Press]:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    async with AsyncExitStack() as stack:
        for _ in range(neighbours):
            flood = _terminal(_FLOODS, stack)
            loop.add_reader(flood, lambda flood=flood: os.read(flood, 65536))
            stack.callback(loop.remove_reader, flood)
        terminal = _terminal(_WAITS, stack)

        async def app(_: Any, receive: Any, send: Any) -> None:
            await receive()
            await send({"type": "websocket.accept"})
            sending: set[asyncio.Task[None]] = set()

            def shown() -> None:
                sending.add(asyncio.ensure_future(send({"type": "websocket.send", "bytes": os.read(terminal, 65536)})))

            loop.add_reader(terminal, shown)
            while (told := await receive())["type"] == "websocket.receive":
                os.write(terminal, told["bytes"])
            loop.remove_reader(terminal)
            over.set()

        port = await stack.enter_async_context(bare_site(app))
        socket = await stack.enter_async_context(connect(f"ws://localhost:{port}/", compression=None))

        async def press() -> None:
            await socket.send(b"x")
            await socket.recv()

        yield press


def _terminal(command: tuple[str, ...], stack: AsyncExitStack) -> int:
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)

    def end() -> None:
        os.killpg(process.pid, 9)
        process.wait()
        os.close(ours)

    stack.callback(end)
    return ours
