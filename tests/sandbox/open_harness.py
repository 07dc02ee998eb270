"""Boxes that stay open, talked to by a process of its own: in every tier, as every user this machine lets us be."""

import subprocess
from collections.abc import Callable

import msgspec
import pytest

from coilclaw.packets.box import BoxLimits, BoxSpec
from tests.sandbox.conftest import Interpreter, Runner

LASTING = BoxLimits(wall_seconds=None, cpu_seconds=None)

PREAMBLE = """
import asyncio, contextlib, fcntl, json, os, resource, signal, socket, sys
import msgspec
from coilclaw.gate.estop import Estop
from coilclaw.packets.box import BoxLimits, BoxMount, BoxSpec
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.sandbox.box import open_box
from coilclaw.sandbox.process_tree import descendants
from pathlib import Path

asked = msgspec.json.decode(sys.argv[1])
spec = msgspec.convert(asked["spec"], BoxSpec)
box = open_box(hide=tuple(asked["hide"]), owned=tuple(asked["owned"]), prefer=asked["tier"])

def told(**fields):
    print(json.dumps(fields), flush=True)

async def never():
    await asyncio.Event().wait()

async def until(there):
    while not there():
        await asyncio.sleep(0.01)

async def warm():
    '''What a box keeps from its first run on is there afterwards.'''
    await box.run(BoxSpec(command="true", workspace=spec.workspace, cwd=spec.workspace))

def with_token(token):
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and int(name) != os.getpid():
                if token.encode() in open(f"/proc/{name}/cmdline", "rb").read():
                    found.append(int(name))
    return found
"""


class Opener:
    """Starts scripts that open boxes."""

    def __init__(self, runner: Runner, interpreter: Interpreter) -> None:
        self.runner = runner
        self.interpreter = interpreter
        self.owned: tuple[str, ...] = ()

    def spec(self, command: str | tuple[str, ...], **fields: object) -> BoxSpec:
        """A spec without an end."""
        return self.runner.spec(command, **{"limits": LASTING, **fields})

    def python(self, script: str, **fields: object) -> BoxSpec:
        """A spec that runs a Python script."""
        return self.spec(("/usr/bin/python3", "-I", "-u", "-c", script), **fields)

    def start(self, spec: BoxSpec, main: str) -> "subprocess.Popen[bytes]":
        """Run `async def main()`, which finds `box` and `spec`, in a process of its own."""
        self.runner.own()
        asked = {"tier": self.runner.tier, "hide": self.runner.hide, "owned": self.owned, "spec": spec}
        script = f"{PREAMBLE}\n{main}\nasyncio.run(main())"
        return self.interpreter.start(script, msgspec.json.encode(asked).decode())

    def tell(self, spec: BoxSpec, main: str) -> dict[str, object]:
        """What it told last."""
        process = self.start(spec, main)
        try:
            output, _ = process.communicate(timeout=280)
        finally:
            process.kill()
        assert process.returncode == 0, output.decode()
        return msgspec.json.decode(output.splitlines()[-1])


@pytest.fixture
def opener(box: Runner, interpreters: Callable[[int], Interpreter]) -> Opener:
    """Opens boxes of each tier, as each user."""
    return Opener(box, interpreters(box.uid))
