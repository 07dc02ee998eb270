"""A terminal over the stream: beside reading a PTY and doing nothing with it, and beside a bare WebSocket."""

import asyncio
import os
import socket
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvicorn

from bench.home import BenchHome
from bench.rounds import Timing
from bench.row import Plan, Row, beside
from coilclaw.features.runner.event import RepoRef
from coilclaw.features.runner.live import (
    LARGEST_CHUNK,
    RING,
    Chunk,
    LiveSession,
    SessionAccess,
    TerminalReader,
    Watched,
)
from coilclaw.features.runner.recording import Recording
from coilclaw.features.runner.stream import COALESCE_SECONDS, StreamController
from coilclaw.features.runner.tokens import RunnerTokens
from coilclaw.packets.ids import stamp
from coilclaw.runtime import Runtime
from coilclaw.server.door.tokens import new_token, token_hash
from coilclaw.server.listener import listen
from coilclaw.server.part import Part
from coilclaw.server.serving import Serving
from coilclaw.server.site import build_site
from coilclaw.store.devices import add_device, add_token
from coilclaw.store.tx import Tx

CLIENT = Path(__file__).with_name("stream_client.py")
LINE = "src/module_{0:04}.py:{0}: a line of output as compilers and tests print it, \x1b[32mok\x1b[0m\n"
PATIENCE = 240.0


class _Sample:
    """What one run took."""

    def __init__(self, size: int) -> None:
        self._size = size / 1e6
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def ended(self) -> tuple[float, float]:
        """Seconds per MB: of the clock, and of this process."""
        return (time.perf_counter() - self._wall) / self._size, (time.process_time() - self._cpu) / self._size


def measure(plan: Plan) -> Iterator[Row]:
    """The same bytes by three ways."""
    text = "".join(LINE.format(number) for number in range(plan.size(100_000, 3_000))).encode()
    source = plan.folder / "output"
    source.write_bytes(text)
    home = BenchHome(plan.folder / "home")
    try:
        with asyncio.Runner() as loop:
            raw: list[tuple[float, float]] = []
            ours: list[tuple[float, float]] = []
            bare: list[tuple[float, float]] = []
            joins: list[float] = []
            sends: list[float] = []
            for number in range(plan.rounds + 1):
                raw.append(loop.run(_raw(source)))
                ours.append(loop.run(_ours(home.app, plan.folder / f"{number}.rec", source)))
                bare.append(loop.run(_bare(source)))
                join, send = loop.run(_join(home.app, plan.folder / f"{number}.join")), loop.run(_send_ring())
                joins.append(join)
                sends.append(send)
    finally:
        home.close()
    wall, cpu = _timing(ours, 0), _timing(ours, 1)
    yield beside("stream", "PTY to WebSocket, 1 MB", "ms", wall, "raw PTY read", _timing(raw, 0), at_most=2.0)
    yield beside("stream", "CPU of 1 MB", "ms", cpu, "bare uvicorn, equal frames", _timing(bare, 1), at_most=1.5)
    joined, sent = (Timing.of(each[1:]).scaled(1e3) for each in (joins, sends))
    yield beside("stream", "joining late", "ms", joined, "sending the ring", sent, at_most=2.0)


def _timing(samples: list[tuple[float, float]], which: int) -> Timing:
    return Timing.of([sample[which] for sample in samples[1:]]).scaled(1e3)


async def _pty(source: Path, take: Callable[[bytes], Awaitable[None]]) -> int:
    """`cat` on a terminal; every piece is handed on before the next is read. Returns how much it was."""
    ours, theirs = os.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    process = subprocess.Popen(["cat", source], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.set_blocking(ours, False)
    loop, readable, total = asyncio.get_running_loop(), asyncio.Event(), 0
    loop.add_reader(ours, readable.set)
    try:
        over = False
        while not over:
            await readable.wait()
            pieces = bytearray()
            try:
                while len(pieces) < LARGEST_CHUNK - 4096:
                    pieces += os.read(ours, 4096)
            except BlockingIOError:
                readable.clear()
            except OSError:  # the other end was closed
                over = True
            total += len(pieces)
            if pieces:
                await take(bytes(pieces))
        return total
    finally:
        loop.remove_reader(ours)
        os.close(ours)
        process.wait()


async def _raw(source: Path) -> tuple[float, float]:
    async def nothing(_: bytes) -> None:
        pass

    sample = _Sample(source.stat().st_size)
    await _pty(source, nothing)
    return sample.ended()


async def _client(port: int, path: str, token: str, wanted: int) -> "asyncio.subprocess.Process":
    url = f"ws://localhost:{port}{path}"
    return await asyncio.create_subprocess_exec(sys.executable, str(CLIENT), url, token, str(wanted))


async def _ended(client: "asyncio.subprocess.Process") -> None:
    async with asyncio.timeout(PATIENCE):
        if await client.wait():
            raise RuntimeError("the viewer failed, so nothing was measured")


@asynccontextmanager
async def session_site(
    runtime: Runtime, live: LiveSession, send: Callable[[str, bytes], Awaitable[None]] | None = None
) -> AsyncIterator[tuple[int, str]]:
    """The real door and listener, with one session. Gives the port and a token."""
    token = new_token(os.urandom)

    def pair(tx: Tx) -> None:
        tx.execute("DELETE FROM auth_tokens")
        if tx.execute("SELECT 1 FROM devices").fetchone() is None:
            add_device(
                tx, runtime.clock, device_id="dev_bench", name="", public_key="", confirmed=True, paired_by="terminal"
            )
        ends = stamp(runtime.clock() + timedelta(days=1))
        add_token(
            tx, runtime.clock, token_id="tok_bench", device_id="dev_bench", token_hash=token_hash(token), way="bearer",
            expires_at=ends,
        )  # fmt: skip

    runtime.db.write_now(pair)
    watched = Watched(
        session_id="sess_bench", org_id="self", repo_id="bench", state="RUNNING", rows=24, columns=80, seq=0,
        repo_ref=RepoRef(provider="local", owner="", name="bench"),
    )  # fmt: skip

    async def nothing(*_: object) -> None:
        pass

    access = SessionAccess(
        find=lambda _: watched, knows=lambda _, __: True, live=lambda _: live, events=lambda _, __, ___: [],
        send=send or nothing, resize=nothing, redraw=nothing,
    )  # fmt: skip
    given: dict[str, object] = {"session_access": access, "runner_tokens": RunnerTokens(runtime.db, runtime.clock)}
    built = build_site(Serving(runtime), (lambda _: Part(controllers=(StreamController,), given=given),))
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()

    def ready(number: int) -> None:
        built.serving.listening(number)
        port.set_result(number)

    listening = asyncio.ensure_future(listen(built.door, "127.0.0.1", 0, stop, ready))
    try:
        yield await port, token
    finally:
        stop.set()
        await listening
        built.close()


class _Paced(LiveSession):
    """A session that tells when its viewer went on: output that outruns it would be skipped, and not measured."""

    def __init__(self, recording: Recording, runtime: Runtime) -> None:
        super().__init__("sess_bench", recording, runtime.redactor, now=lambda: 0, seq=0)
        self.taken = asyncio.Event()

    def take(self, reader: TerminalReader) -> Chunk | None:
        self.taken.set()
        return super().take(reader)


async def _ours(runtime: Runtime, path: Path, source: Path) -> tuple[float, float]:
    recording = Recording(path, most=256 << 20)
    live = _Paced(recording, runtime)
    size, fed = source.stat().st_size, 0

    async def take(data: bytes) -> None:
        nonlocal fed
        live.feed(fed, data)
        fed += len(data)
        await asyncio.sleep(0)
        while live.behind > RING:
            live.taken.clear()
            await live.taken.wait()

    try:
        async with session_site(runtime, live) as (port, token):
            client = await _client(port, "/runner/v1/stream", token, size)
            while not live.watched:
                await asyncio.sleep(0.001)
            sample = _Sample(size)
            await _pty(source, take)
            live.end()
            await _ended(client)
            return sample.ended()
    finally:
        recording.close()


@asynccontextmanager
async def bare_site(app: Any) -> AsyncIterator[int]:
    """uvicorn with nothing else; gives the port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, ws="websockets-sansio", ws_per_message_deflate=False, log_config=None, lifespan="off"
        )
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve([taken]))
        while not server.started:
            await asyncio.sleep(0.001)
        try:
            yield taken.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


async def _bare(source: Path) -> tuple[float, float]:
    """uvicorn and a loop that reads, waits 4 ms and sends."""
    connected: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        connected.set_result(send)
        await over.wait()

    held = bytearray()
    sent = 0.0

    async def flush() -> None:
        nonlocal sent
        for at in range(0, len(held), LARGEST_CHUNK):
            await connected.result()({"type": "websocket.send", "bytes": bytes(held[at : at + LARGEST_CHUNK])})
        held.clear()
        sent = time.monotonic()

    async def take(data: bytes) -> None:
        held.extend(data)
        if len(held) >= LARGEST_CHUNK or time.monotonic() - sent > COALESCE_SECONDS:
            await flush()
        await asyncio.sleep(0)

    async with bare_site(app) as port:
        size = source.stat().st_size
        client = await _client(port, "/", "", size)
        await connected
        sample = _Sample(size)
        await _pty(source, take)
        await flush()
        await _ended(client)
        over.set()
        return sample.ended()


async def _join(runtime: Runtime, path: Path) -> float:
    """From the start of a viewer to its end, with a full ring to read."""
    recording = Recording(path, most=16 << 20)
    live = LiveSession("sess_bench", recording, runtime.redactor, now=lambda: 0, seq=0)
    line = LINE.format(1).encode()
    for number in range(2 * RING // len(line)):
        live.feed(number * len(line), line)
    try:
        async with session_site(runtime, live) as (port, token):
            start = time.perf_counter()
            await _ended(await _client(port, "/runner/v1/stream", token, RING))
            return time.perf_counter() - start
    finally:
        recording.close()


async def _send_ring() -> float:
    """The same from a bare server that has the bytes ready."""
    data = (LINE.format(1).encode() * (2 * RING // len(LINE)))[: RING + LARGEST_CHUNK]

    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        for at in range(0, len(data), LARGEST_CHUNK):
            await send({"type": "websocket.send", "bytes": data[at : at + LARGEST_CHUNK]})
        while (await receive())["type"] != "websocket.disconnect":
            pass

    async with bare_site(app) as port:
        start = time.perf_counter()
        await _ended(await _client(port, "/", "", RING))
        return time.perf_counter() - start
