"""Boxes that were granted domains, with real servers to reach: run in a process of their own, as each user."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import h11
import msgspec
import pytest

from coilclaw.packets.box import BoxLimits, BoxResult, BoxSpec
from tests.airlock.test_airlock_tls import Authority
from tests.missing import lacks
from tests.sandbox.conftest import BUBBLEWRAP, Interpreter, Runner, _combinations

WORLD = """
import asyncio, concurrent.futures, json, os, socket, ssl, sys, threading
import msgspec
from coilclaw.packets.box import BoxSpec, BrokerLimits
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ids import utc_now
from coilclaw.airlock import Airlock, Listing
from coilclaw.sandbox.box import open_box, reaching

seen, asked_names, lines = [], [], []

async def answer(reader, writer):
    try:
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        length = [int(l.split(b":")[1]) for l in head.lower().split(b"\\r\\n") if l.startswith(b"content-length:")]
        body = await reader.readexactly(length[0]) if length else b""
        seen.append((head + body).decode("latin-1"))
        path = head.split()[1]
        if path == b"/endless":
            writer.write(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        if path == b"/slow":
            await asyncio.sleep(1.5)
        if path == b"/moved":
            writer.write(b"HTTP/1.1 302 Found\\r\\nLocation: http://elsewhere.test/\\r\\nContent-Length: 0\\r\\n\\r\\n")
        else:
            text = b"" if head.startswith(b"HEAD") else b"reached " + path + b" " + body
            kept = b"Connection: x-hop\\r\\nX-Hop: 1\\r\\nX-Kept: 1\\r\\n"
            writer.write(b"HTTP/1.1 200 OK\\r\\n" + kept + b"Content-Length: %d\\r\\n\\r\\n" % len(text) + text)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()

async def resolve(host):
    asked_names.append(host)
    return ["127.0.0.2", "169.254.169.254"] if host == "mixed.test" else ["127.0.0.2"]

async def serve(port, reader, writer):
    writer.write(b"served at %d" % port)
    await writer.drain()

async def talked_to(box, spec):
    opened = await box.open(spec, stopped=asyncio.Event().wait, serve=serve)
    said = b"".join([line + b"\\n" async for line in opened.lines()])
    return msgspec.structs.replace(await opened.wait(), stdout=said)

async def run(asked, listing):
    seen.clear(); asked_names.clear(); lines.clear()
    airlock = Airlock(listing, log=lines.append, clock=utc_now, resolve=resolve)
    spec = msgspec.convert(asked["spec"], BoxSpec)
    spec = msgspec.structs.replace(spec, broker=BrokerLimits(**asked["broker"]))
    if asked["tier"] not in boxes:  # what a box keeps open from its first run on is there before we count
        boxes[asked["tier"]] = open_box(hide=(), prefer=asked["tier"])
        await boxes[asked["tier"]].run(msgspec.structs.replace(spec, command="true", domains=(), listeners=()))
    box = boxes[asked["tier"]]
    before = len(os.listdir("/proc/self/fd"))
    reached = reaching(box, airlock)
    task = asyncio.ensure_future(talked_to(reached, spec) if asked["lasting"] else reached.run(spec))
    if asked["cancel_after"]:
        while not asked_names and not task.done():
            await asyncio.sleep(0.02)
        await asyncio.sleep(asked["cancel_after"])
        task.cancel()
    try:
        reply = {"result": msgspec.to_builtins(await task)}
    except asyncio.CancelledError:
        reply = {"cancelled": True}
    except CoilclawError as error:
        reply = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    others = [t for t in asyncio.all_tasks() if t is not asyncio.current_task() and "answer" not in repr(t)]
    for _ in range(1200):  # the servers of this process close their ends a moment later
        if len(os.listdir("/proc/self/fd")) <= before:
            break
        await asyncio.sleep(0.05)
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    return {**reply, "seen": list(seen), "names": list(asked_names), "lines": msgspec.to_builtins(lines),
            "more_descriptors": len(os.listdir("/proc/self/fd")) - before, "children": len(children),
            "tasks": len(others)}

boxes = {}

async def main(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    secure = await asyncio.start_server(answer, "127.0.0.2", 0, ssl=context)
    plain = await asyncio.start_server(answer, "127.0.0.2", 0)
    ports = {"secure": secure.sockets[0].getsockname()[1], "plain": plain.sockets[0].getsockname()[1]}
    listed = [f"https://{h}:{ports['secure']}" for h in ("files.test", "other.test", "mixed.test")]
    listed += [f"http://files.test:{ports['plain']}", "listed.example.org"]
    listing = Listing.build(allowed_domains=listed)
    print(json.dumps(ports), flush=True)
    loop = asyncio.get_running_loop()
    reading = concurrent.futures.ThreadPoolExecutor(1)
    while line := await loop.run_in_executor(reading, sys.stdin.buffer.readline):
        print(json.dumps(await run(json.loads(line), listing)), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a run left behind."""

    seen: list[str]
    """Requests that reached a server."""
    names: list[str]
    """Names that were looked up."""
    lines: list[dict[str, object]]
    more_descriptors: int
    children: int
    tasks: int
    result: BoxResult | None = None
    cancelled: bool = False
    error: str = ""
    message: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        assert self.result is not None, self
        return (self.result.stdout + self.result.stderr).decode()

    @property
    def codes(self) -> list[object]:
        return [line["code"] for line in self.lines]


class World:
    """Servers, an airlock that lists them, and boxes of one tier that may be granted some of it."""

    def __init__(self, runner: Runner, ports: dict[str, int]) -> None:
        self.runner = runner
        self.secure = f"https://files.test:{ports['secure']}"
        self.other = f"https://other.test:{ports['secure']}"
        self.mixed = f"https://mixed.test:{ports['secure']}"
        self.plain = f"http://files.test:{ports['plain']}"
        self.port = ports["secure"]
        self.plain_port = ports["plain"]

    def ask(
        self, command: str | tuple[str, ...], *, domains: tuple[str, ...] | None = None,
        broker: dict[str, object] | None = None, cancel_after: float = 0, lasting: bool = False, **fields: object,
    ) -> Reply:  # fmt: skip
        """Run a command in a box that may reach these domains; `cancel_after` counts from the first look-up."""
        granted = (self.secure, self.plain) if domains is None else domains
        limits = BoxLimits(wall_seconds=60.0, cpu_seconds=60)
        spec: BoxSpec = self.runner.spec(command, **{"domains": granted, "limits": limits, **fields})
        asked = {"tier": self.runner.tier, "spec": spec, "broker": broker or {}, "cancel_after": cancel_after}
        asked["lasting"] = lasting
        process = self.runner.process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(asked) + b"\n")
        process.stdin.flush()
        return msgspec.json.decode(process.stdout.readline(), type=Reply)

    def python(self, script: str, **options: object) -> Reply:
        """Run a Python script inside."""
        return self.ask(("/usr/bin/python3", "-I", "-c", SPEAK + script), **options)

    def curl(self, *words: str, **options: object) -> Reply:
        """Run curl inside, trusting the authority of the test."""
        return self.ask(("curl", "-sS", "--max-time", "50", "--cacert", "ca.pem", *words), **options)


SPEAK = """
import socket, ssl
def speak(data, wait=50):
    made = socket.create_connection(("127.0.0.1", 3128), wait)
    made.sendall(data)
    return made
def rest(made):
    got = b""
    try:
        while piece := made.recv(65536):
            got += piece
    except OSError as error:
        got += b"<%s>" % type(error).__name__.encode()
    return got
def asked(data):
    return rest(speak(data)).decode("latin-1")
"""


def _h11_copy(target: Path) -> str:
    shutil.copytree(Path(h11.__file__).parent, target / "h11", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (target, *target.rglob("*")):
        path.chmod(0o755)
    return str(target)


@pytest.fixture(scope="session")
def worlds(interpreters: Callable[[int], Interpreter]) -> Iterator[Callable[[int], tuple[object, ...]]]:
    """Starts, once for each uid, the process that has the servers and the boxes."""
    started: dict[int, tuple[subprocess.Popen[bytes], dict[str, int], Path]] = {}
    with tempfile.TemporaryDirectory(prefix="coilclaw-world-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        authority = Authority(folder, "ours")
        authority.server("files.test")
        library = _h11_copy(folder / "library")

        def world(uid: int) -> tuple[object, ...]:
            if uid not in started:
                used = interpreters(uid)
                used = msgspec.structs.replace(used, path=f"{used.path}:{library}")
                for file in folder.glob("*.pem"):
                    file.chmod(0o644)
                process = used.start(WORLD, str(folder / "ours-files.test.pem"), str(folder / "key.pem"))
                assert process.stdout is not None
                started[uid] = process, msgspec.json.decode(process.stdout.readline()), Path(authority.file)
            return started[uid]

        yield world
        for process, *_ in started.values():
            process.communicate(timeout=280)


@pytest.fixture(params=_combinations())
def world(request: pytest.FixtureRequest, worlds: Callable[[int], tuple[object, ...]]) -> Iterator[World]:
    """A world for each tier and each user this machine lets us be, with a workspace of its own."""
    tier, uid = request.param
    if tier == "A" and not shutil.which("bwrap"):
        lacks(*BUBBLEWRAP)
    process, ports, authority = worlds(uid)
    ground = Path(tempfile.mkdtemp(prefix="coilclaw-box-", dir="/var/tmp"))
    with contextlib.ExitStack() as held:
        held.callback(shutil.rmtree, ground, ignore_errors=True)
        ground.chmod(0o755)
        runner = Runner(tier, uid, process, ground)
        runner.workspace.mkdir()
        shutil.copy(authority, runner.workspace / "ca.pem")
        runner.own(ground)
        yield World(runner, ports)
