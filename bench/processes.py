"""Whole commands: start-up, one turn on the mock, one turn against a model server, one with a tool call."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.rounds import Timing
from bench.row import Plan, Row, alone, beside
from coilclaw.packets.errors import ToolError

SOURCE = Path(__file__).resolve().parent.parent / "src"
SPAWN = Path(__file__).with_name("spawn.py")
COILCLAW = Path(sys.executable).with_name("coilclaw")
TOOL_CALL = '[[tool:file_list {"path": "."}]]'

SERVER_CONFIG = """
default_provider = "server"

[providers.models.server]
kind = "openai-compatible"
base_url = "{base_url}"
model = "fake-model"
"""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command to measure, and what its output must hold to count."""

    name: str
    argv: tuple[str, ...]
    home: str
    expect: str = ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one run took."""

    wall: float
    cpu: float
    peak_kib: int


def _environment(home: str) -> dict[str, str]:
    """Nothing of Python's switches (PYTHONDONTWRITEBYTECODE makes imports slow), and a home of its own."""
    return {"PATH": os.environ["PATH"], "HOME": home, "COILCLAW_HOME": f"{home}/.coilclaw", "LANG": "C.UTF-8"}


def run_once(command: Command, baseline: str) -> Cost:
    """Run to the end; a command that fails or says something else ends the measurement."""
    read, write = os.pipe()
    try:
        done = subprocess.run(
            [baseline, "-I", "-S", str(SPAWN), str(write), *command.argv],
            env=_environment(command.home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[write],
            timeout=120,
            check=False,
        )
    finally:
        os.close(write)
    with os.fdopen(read) as pipe:
        fields = pipe.read().split()
    said = done.stdout.decode(errors="replace")
    if len(fields) != 4 or fields[3] != "0" or command.expect not in said:
        raise ToolError(f"{command.name} failed and cannot be measured: {said[-2000:]}")
    return Cost(wall=float(fields[0]), cpu=float(fields[1]), peak_kib=int(fields[2]))


@contextmanager
def model_server() -> Iterator[str]:
    """The shipped model server in a process of its own; gives its base URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coilclaw.sandbox.fake_openai"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()
    finally:
        process.terminate()
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()


def _home(folder: Path, config: str = "") -> str:
    folder.mkdir()
    subprocess.run([COILCLAW, "init", "--quiet"], env=_environment(str(folder)), check=True, stdout=subprocess.DEVNULL)
    if config:
        (folder / ".coilclaw" / "config.toml").write_text(config)
    return str(folder)


def measure(plan: Plan) -> Iterator[Row]:
    """Every command once a round, after the bare interpreter."""
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", str(SOURCE)], env=_environment(str(plan.folder)), check=False
    )
    with model_server() as base_url:
        mock = _home(plan.folder / "mock")
        server = _home(plan.folder / "server", SERVER_CONFIG.format(base_url=base_url))
        coilclaw = str(COILCLAW)
        commands = [
            Command(name="python -c pass", argv=(plan.baseline, "-c", "pass"), home=mock),
            Command(name="coilclaw --help", argv=(coilclaw, "--help"), home=mock, expect="agent"),
            Command(name="agent -m hi, mock", argv=(coilclaw, "agent", "-m", "hi"), home=mock),
            Command(
                name="agent -m hi, model server", argv=(coilclaw, "agent", "-m", "hi"), home=server,
                expect="You said: hi",
            ),
            Command(
                name="the same with one tool call", argv=(coilclaw, "agent", "-m", TOOL_CALL), home=server,
                expect="SYSTEM.md",
            ),
        ]  # fmt: skip
        costs: dict[str, list[Cost]] = {command.name: [] for command in commands}
        for number in range(plan.rounds + 1):
            for command in commands:
                cost = run_once(command, plan.baseline)
                if number:
                    costs[command.name].append(cost)
    goals = dict(zip([command.name for command in commands[1:]], (5.0, 12.0, 25.0, 30.0), strict=True))
    for name, goal in goals.items():
        yield _row(name, costs[name], costs["python -c pass"], goal)
    yield from (_memory(name, costs[name], goal) for name, goal in zip(goals, (None, None, 45.0, 45.0), strict=True))


def _row(name: str, costs: list[Cost], floor: list[Cost], goal: float) -> Row:
    """Judged by wall and by CPU: both must stay within the goal."""
    wall = beside(
        "processes", name, "ms", Timing.of([cost.wall for cost in costs]).scaled(1e3), "`python -c pass`",
        Timing.of([cost.wall for cost in floor]).scaled(1e3), at_most=goal,
    )  # fmt: skip
    cpu, least = Timing.of([cost.cpu for cost in costs]), Timing.of([cost.cpu for cost in floor])
    ratio = cpu.median / least.median
    note = f"CPU {cpu.median * 1e3:.1f} ({cpu.min * 1e3:.1f}) ms, {ratio:.2f}× ({cpu.min / least.min:.2f}×)"
    return msgspec.structs.replace(wall, ok=bool(wall.ok) and ratio <= goal, note=note)


def _memory(name: str, costs: list[Cost], goal: float | None) -> Row:
    peak = Timing.of([cost.peak_kib * 1024 / 1e6 for cost in costs])
    return alone("processes", f"{name}: peak memory", "MB", peak, at_most=goal)
