"""Boxes to test with: each tier, as whoever runs the tests and, when that is root, as an ordinary user as well."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import coilclaw
from coilclaw.packets.box import BoxLimits, BoxResult, BoxSpec
from coilclaw.packets.errors import BoxUnavailable, ToolError
from tests.missing import lacks

ORDINARY_UID = 12345
BUBBLEWRAP = ("bubblewrap", "Install the package bubblewrap.")

SERVER = """
import asyncio, concurrent.futures, json, os, resource, sys, time
import msgspec
from coilclaw.packets.box import BoxSpec
from coilclaw.packets.errors import CoilclawError
from coilclaw.sandbox.box import open_box

boxes = {}

async def answer(asked):
    hide = tuple(asked["hide"])
    key = asked["tier"], hide
    if key not in boxes:
        boxes[key] = open_box(hide=hide, prefer=asked["tier"])
    spec = msgspec.convert(asked["spec"], BoxSpec)
    heard = {"stdout": 0, "stderr": 0}

    def on_output(name, data):
        heard[name] += len(data)
        if data == b"ready\\n":  # the command waits until somebody heard it
            os.close(os.open(os.path.join(spec.workspace, "heard"), os.O_CREAT | os.O_WRONLY, 0o666))

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    task = asyncio.ensure_future(boxes[key].run(spec, on_output=on_output))
    if asked["cancel_after"]:
        await asyncio.sleep(asked["cancel_after"])
        task.cancel()
        began = time.monotonic()
        try:
            await task
        except asyncio.CancelledError:
            return {"cancelled": time.monotonic() - began}
    try:
        result = msgspec.to_builtins(await task)
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before  # what it began with is its parent's
        return {"result": result, "heard": heard, "peak": peak}
    except CoilclawError as error:
        return {"error": type(error).__name__, "message": error.message, "remedy": error.remedy,
                "code": getattr(error, "code", ""), "begun": getattr(error, "begun", False)}

async def main():
    loop = asyncio.get_running_loop()
    reading = concurrent.futures.ThreadPoolExecutor(1)
    while line := await loop.run_in_executor(reading, sys.stdin.buffer.readline):
        print(json.dumps(await answer(json.loads(line))), flush=True)

asyncio.run(main())
"""


class Runner:
    """Runs specs in one tier, in a process of its own: as the tests' user or as an ordinary one."""

    def __init__(self, tier: str, uid: int, process: "subprocess.Popen[bytes]", ground: Path) -> None:
        self.tier = tier
        self.uid = uid
        self.hide: tuple[str, ...] = ()
        self.process = process
        self.ground = ground
        self.workspace = ground / "workspace"
        self.heard: object = None
        """How many bytes of each stream of the last command were heard while it ran."""
        self.peak: object = None
        """The most memory that the process which runs the boxes ever took."""

    @property
    def as_root(self) -> bool:
        """Whether root started the box."""
        return self.uid == 0

    def own(self, *paths: Path) -> None:
        """Give files to whoever starts the box."""
        for path in paths or (self.workspace,):
            for each in (path, *(path.rglob("*") if path.is_dir() else ())):
                os.chown(each, self.uid, self.uid if self.uid != os.getuid() else -1, follow_symlinks=False)

    def git(self, *words: str) -> None:
        """Run git on the workspace from outside, as its owner."""
        fixed = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", "-C", str(self.workspace)]
        self.own()
        other = {"user": self.uid, "group": self.uid, "extra_groups": []} if self.uid != os.geteuid() else {}
        subprocess.run([*fixed, *words], check=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"}, **other)

    def spec(self, command: str | tuple[str, ...], **fields: object) -> BoxSpec:
        """A spec in the workspace of this test."""
        here = str(self.workspace)
        return msgspec.structs.replace(BoxSpec(command=command, workspace=here, cwd=here), **fields)

    def send(self, spec: BoxSpec, cancel_after: float = 0) -> None:
        """Send a spec to the process, whose answer is to be received later."""
        asked = {"tier": self.tier, "hide": self.hide, "spec": spec, "cancel_after": cancel_after}
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(asked) + b"\n")
        self.process.stdin.flush()

    def received(self) -> dict[str, object]:
        """The answer to what was sent."""
        assert self.process.stdout is not None
        return msgspec.json.decode(self.process.stdout.readline())

    def ask(self, spec: BoxSpec, cancel_after: float = 0) -> dict[str, object]:
        """Send a spec to the process and read its answer."""
        self.send(spec, cancel_after)
        return self.received()

    def ask_checked(self, spec: BoxSpec) -> BoxResult:
        """The result of a spec, or what the box raised."""
        answer = self.ask(spec)
        if "error" in answer:
            if answer["error"] == "ToolError":
                raise ToolError(
                    str(answer["message"]), remedy=str(answer["remedy"]), code=str(answer["code"]),
                    begun=bool(answer["begun"]),
                )  # fmt: skip
            raise BoxUnavailable(f"{answer['error']}: {answer['message']}", remedy=str(answer["remedy"]))
        self.heard, self.peak = answer["heard"], answer["peak"]
        result = msgspec.convert(answer["result"], BoxResult)
        assert result.tier == self.tier
        return result

    def run(self, command: str | tuple[str, ...], **fields: object) -> BoxResult:
        """Run a command in the workspace, which belongs to whoever starts the box."""
        self.own()
        return self.ask_checked(self.spec(command, **fields))

    def text(self, command: str | tuple[str, ...], **fields: object) -> str:
        """Both streams of a command, as text."""
        result = self.run(command, **fields)
        return (result.stdout + result.stderr).decode()

    def python(self, script: str, **fields: object) -> str:
        """Output of a Python script run inside."""
        return self.text(("/usr/bin/python3", "-I", "-c", script), **fields)


def _public_copy(target: Path) -> Path:
    """The package and what it needs, where anyone may read it."""
    shutil.copytree(Path(coilclaw.__file__).parent, target / "coilclaw", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(Path(msgspec.__file__).parent, target / "msgspec")
    for path in (target, *target.rglob("*")):
        path.chmod(0o755)
    return target


def _python_for(uid: int, path: Path) -> str | None:
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")):
        with contextlib.suppress(OSError):
            done = subprocess.run(
                [python, "-c", "import msgspec, sys; assert sys.version_info >= (3, 11)"], user=uid, group=uid,
                extra_groups=[], env={"PYTHONPATH": str(path)}, cwd="/", capture_output=True, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                return python
    return None


class Interpreter(msgspec.Struct, frozen=True):
    """A Python that a user can run, with the package on its path."""

    python: str
    path: str
    identity: dict[str, object]
    """Keywords for subprocess that make it that user."""

    def start(self, script: str, *words: str, before: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        """Start a script, perhaps behind another program."""
        return subprocess.Popen(
            [*before, self.python, "-c", script, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
            env={"PYTHONPATH": self.path}, **self.identity,
        )  # fmt: skip


@pytest.fixture(scope="session")
def interpreters() -> Iterator[Callable[[int], Interpreter]]:
    """An interpreter for each uid; another user's gets a copy of the package that anyone may read."""
    path = ":".join(str(Path(package.__file__).parents[1]) for package in (coilclaw, msgspec))
    made = {os.geteuid(): Interpreter(sys.executable, path, {})}
    with tempfile.TemporaryDirectory(prefix="coilclaw-public-", dir="/var/tmp") as public:
        os.chmod(public, 0o755)

        def interpreter(uid: int) -> Interpreter:
            if uid not in made:
                copy = _public_copy(Path(public))
                python = _python_for(uid, copy)
                if python is None:
                    lacks("an interpreter that an ordinary user can run", "Install the package python3.")
                made[uid] = Interpreter(str(python), str(copy), {"user": uid, "group": uid, "extra_groups": []})
            return made[uid]

        yield interpreter


@pytest.fixture(scope="session")
def servers(interpreters: Callable[[int], Interpreter]) -> Iterator[Callable[[int], "subprocess.Popen[bytes]"]]:
    """Starts, once for each uid, the process that runs boxes."""
    started: dict[int, subprocess.Popen[bytes]] = {}

    def server(uid: int) -> "subprocess.Popen[bytes]":
        if uid not in started:
            started[uid] = interpreters(uid).start(SERVER)
        return started[uid]

    yield server
    for process in started.values():
        process.communicate(timeout=280)


def _combinations() -> list[object]:
    users = [(os.geteuid(), "root" if os.geteuid() == 0 else "me")]
    if os.geteuid() == 0:
        users.append((ORDINARY_UID, "ordinary"))
    return [pytest.param((tier, uid), id=f"{tier}-{name}") for tier in "AB" for uid, name in users]


@pytest.fixture(params=_combinations())
def box(request: pytest.FixtureRequest, servers: Callable[[int], "subprocess.Popen[bytes]"]) -> Iterator[Runner]:
    """A box of each tier, as each user this machine lets us be, with a workspace of its own."""
    tier, uid = request.param
    if tier == "A" and not shutil.which("bwrap"):
        lacks(*BUBBLEWRAP)
    ground = Path(tempfile.mkdtemp(prefix="coilclaw-box-", dir="/var/tmp"))
    try:
        ground.chmod(0o755)
        runner = Runner(tier, uid, servers(uid), ground)
        runner.workspace.mkdir()
        runner.own(ground)
        yield runner
    finally:
        shutil.rmtree(ground, ignore_errors=True)


@pytest.fixture
def limits() -> Callable[..., BoxLimits]:
    """Limits with a generous wall time, so that a slow machine changes nothing."""

    def made(**fields: object) -> BoxLimits:
        return msgspec.structs.replace(BoxLimits(wall_seconds=60.0, cpu_seconds=60), **fields)

    return made


def processes_with(token: str) -> list[int]:
    """Processes on this machine whose command line holds a token."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if token.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
