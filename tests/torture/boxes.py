"""Kill processes that start boxes: nothing is left after the next start, and UNKNOWN means that it may have begun."""

import asyncio
import os
import random
import shutil
import signal
import time
from pathlib import Path

import msgspec

from coilclaw.config import Home, load
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.card import Answer
from coilclaw.runtime import Runtime
from tests.torture.chamber import await_child, child

RAN = "ran.txt"


class Left(msgspec.Struct):
    """What came of killing processes that run commands."""

    kills: int = 0
    executed: int = 0
    never_began: int = 0
    unknown: int = 0
    unknown_not_run: int = 0
    """Released, and killed before the command's first word: it might have begun."""
    boxes: int = 0
    locks: int = 0
    wrong: list[str] = []


def _open(base: Path) -> Runtime:
    home, environ = Home(base / "home"), {"HOME": str(base / "user")}
    config = load(home, environ).config
    budgets = msgspec.structs.replace(config.budgets, tool_calls_per_minute=100_000, open_proposals=100_000)
    security = msgspec.structs.replace(config.security, autonomy="full")
    config = msgspec.structs.replace(config, budgets=budgets, security=security)
    return Runtime(home, config, environ, lambda level, event, fields: None)


async def _nobody(_) -> Answer:
    return Answer(approved=None)


def _command(base: Path, key: str) -> str:
    app = _open(base)
    conveyor = app.conveyor(_nobody)
    turn = Turn(f"turn_{key}", "", "cli")
    call = ToolCall.of("shell", {"command": f"echo {key} >> {RAN}; sleep 0.05"})
    asyncio.run(conveyor.carry(conveyor.intake.propose(call, turn, key), turn, stored=False))
    app.close()
    return ""


def _next_start(base: Path) -> str:
    """What any later process does first, and what stands in the rows then."""
    app = _open(base)
    conveyor = app.conveyor(_nobody)
    asyncio.run(conveyor.recover())
    app.open_box()
    rows = dict(app.db.reader.execute("SELECT idempotency_key, status FROM proposed_actions"))
    app.close()
    return msgspec.json.encode(rows).decode()


def _marked(owners: set[int]) -> int:
    """How many processes bear the mark of one that is gone."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            bears = Path(f"/proc/{name}/environ").read_bytes().partition(b"COILCLAW_BOX=")[2].partition(b"\0")[0]
        except OSError:
            continue
        count += bool(bears) and int(bears.split(b"-")[1]) in owners
    return count


def kill_boxes(base: Path, template: Path, kills: int, seed: int) -> Left:
    """Kill that many processes at a random moment of a command, each followed by a fresh start."""
    shutil.copytree(template, base, symlinks=True)
    chance = random.Random(seed)
    start = time.monotonic()
    await_child(*child(lambda: _command(base, "whole")))
    typical = time.monotonic() - start
    left, killed = Left(), set[int]()
    while left.kills < kills:
        key = f"k{left.kills}"
        pid, reading = child(lambda key=key: _command(base, key))
        time.sleep(chance.uniform(0, 1.05 * typical))
        os.kill(pid, signal.SIGKILL)
        await_child(pid, reading)
        killed.add(pid)
        left.kills += 1
        _judge(left, base, key, msgspec.json.decode(await_child(*child(lambda: _next_start(base)))[1]))
    deadline = time.monotonic() + 120  # the dead may take a moment to be gone
    while (boxes := _marked(killed)) and time.monotonic() < deadline:
        time.sleep(0.01)
    left.boxes = boxes
    left.locks = len(list((base / "home" / "locks").glob("*_*.lock")))
    return left


def _judge(left: Left, base: Path, key: str, rows: dict[str, str]) -> None:
    config = load(Home(base / "home"), {"HOME": str(base / "user")}).config
    ran_file = config.workspace_dir / RAN
    times = ran_file.read_text().split().count(key) if ran_file.exists() else 0
    status = rows.get(key, "none")
    left.executed += status == "EXECUTED"
    left.never_began += status in ("FAILED", "none")
    left.unknown += status == "UNKNOWN"
    left.unknown_not_run += status == "UNKNOWN" and not times
    if status not in ("EXECUTED", "FAILED", "UNKNOWN", "none"):
        left.wrong.append(f"{key} is {status} after the next start")
    if times > 1 or (status in ("FAILED", "none") and times) or (status == "EXECUTED" and not times):
        left.wrong.append(f"{key} is {status} and ran {times} times")
