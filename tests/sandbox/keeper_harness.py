"""Sessions on terminals, kept by real keepers and started by a process of their own, in every tier, as every user."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator

import msgspec
import pytest

from coilclaw.packets.box import BoxLimits, BoxSpec
from tests.sandbox.conftest import Interpreter, Runner, processes_with

HOURS = BoxLimits(wall_seconds=None, cpu_seconds=None, address_space=False)
SHELL = ("/bin/bash", "--norc", "--noprofile", "-i")
ENVIRONMENT = (("TERM", "xterm-256color"), ("PS1", "$ "), ("HISTFILE", ""), ("INPUTRC", "/dev/null"))

PREAMBLE = """
import asyncio, contextlib, json, os, re, resource, signal, socket, sys, time
import msgspec
from pathlib import Path
from coilclaw.packets.box import BoxLimits, BoxMount, BoxSpec
from coilclaw.packets.errors import BoxUnavailable, CoilclawError, ToolError
from coilclaw.sandbox.abandoned import end_abandoned
from coilclaw.sandbox.keepers import AttachedTerminal, KeeperEnd, KeeperLost, KeeperOrder, Keepers
from coilclaw.sandbox.process_tree import children, descendants

asked = msgspec.json.decode(sys.argv[1])
spec = msgspec.convert(asked["spec"], BoxSpec)
folder = Path(asked["folder"])
estop = folder.parent / "ESTOP"
keepers = Keepers(folder)
PATIENCE = 280

def order(session_id="sess_1", rows=24, columns=80, **fields):
    return KeeperOrder(session_id=session_id, spec=msgspec.structs.replace(spec, **fields), tier=asked["tier"],
                       hide=tuple(asked["hide"]), owned=(), estop=(str(estop), f"{estop}.cleared"), rows=rows,
                       columns=columns)

def told(**fields):
    print(json.dumps(fields), flush=True)

async def until(there, seconds=PATIENCE):
    async with asyncio.timeout(seconds):
        while not there():
            await asyncio.sleep(0.02)

class Screen:
    '''Reads the output of a session as it comes.'''

    def __init__(self, attached):
        self.attached = attached
        self.text = b""
        self.jumps = []
        self.task = asyncio.ensure_future(self._read())

    async def _read(self):
        expected = None
        async for offset, data in self.attached.output():
            if expected is not None and offset != expected:
                self.jumps.append((expected, offset))
            expected = offset + len(data)
            self.text = (self.text + data)[-(1 << 20):]

    async def shows(self, want, since=0):
        try:
            await until(lambda: re.search(want, self.text[since:]) or self.task.done())
        except TimeoutError:
            raise AssertionError(f"never seen: {want} in {self.text[since:][-2000:]}") from None
        found = re.search(want, self.text[since:])
        assert found, (want, self.text[since:][-2000:])
        return found

    async def types(self, keys, want):
        since = len(self.text)
        await self.attached.send(keys)
        return await self.shows(want, since)

    async def runs(self, command):
        '''The output of a command line, up to the next prompt.'''
        mark = os.urandom(4).hex()
        found = await self.types(f"{command}; echo {mark[:4]}''{mark[4:]}\\n".encode(),
                                 b"(?s)''" + mark[4:].encode() + b"(.*?)" + mark.encode())
        lines = re.sub(rb"\\x1b\\[\\?2004[hl]\\r?", b"", found[1]).decode(errors="replace")
        return [line for line in lines.splitlines() if line]

def state(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"

def processes_with(token):
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and int(name) != os.getpid():
                if token.encode() in open(f"/proc/{name}/cmdline", "rb").read():
                    found.append(int(name))
    return found

async def begin(session_id="sess_1", **fields):
    attached = await keepers.start(order(session_id, **fields))
    screen = Screen(attached)
    await screen.shows(rb"\\$ $")
    return attached, screen
"""


class Kept:
    """Starts scripts that start sessions."""

    def __init__(self, runner: Runner, interpreter: Interpreter) -> None:
        self.runner = runner
        self.interpreter = interpreter
        self.folder = runner.ground / "run"

    def spec(self, command: str | tuple[str, ...] = SHELL, **fields: object) -> BoxSpec:
        """A spec for hours."""
        given = {"limits": HOURS, "environment": ENVIRONMENT, **fields}
        return self.runner.spec(command, **given)

    def start(self, main: str, spec: BoxSpec | None = None) -> "subprocess.Popen[bytes]":
        """Run `async def main()` in a process of its own."""
        self.runner.own()
        asked = {"tier": self.runner.tier, "hide": self.runner.hide, "folder": str(self.folder)}
        script = f"{PREAMBLE}\n{main}\nasyncio.run(main())"
        return self.interpreter.start(script, msgspec.json.encode({**asked, "spec": spec or self.spec()}).decode())

    def tell(self, main: str, spec: BoxSpec | None = None) -> dict[str, object]:
        """What it told last."""
        process = self.start(main, spec)
        try:
            output, _ = process.communicate(timeout=280)
        finally:
            process.kill()
        assert process.returncode == 0, output.decode()
        return msgspec.json.decode(output.splitlines()[-1])

    def end(self) -> None:
        """Kill the nursery and the keepers, which all have the folder on their command line."""
        for pid in processes_with(str(self.folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def kept(box: Runner, interpreters: Callable[[int], Interpreter]) -> Iterator[Kept]:
    """Sessions in each tier, as each user."""
    made = Kept(box, interpreters(box.uid))
    try:
        yield made
    finally:
        made.end()
