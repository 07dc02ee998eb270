"""Kept terminals: reading one through its keeper beside reading it directly, and what a hundred of them cost."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.rounds import Timing, timings
from bench.row import Plan, Row, alone, beside
from coilclaw.packets.box import BoxLimits, BoxSpec, Tier
from coilclaw.packets.ports import Box
from coilclaw.sandbox.box import open_box
from coilclaw.sandbox.keepers import AttachedTerminal, KeeperOrder, Keepers
from coilclaw.sandbox.process_tree import descendants

_HOURS = BoxLimits(wall_seconds=None, cpu_seconds=None, address_space=False)
_TICK = os.sysconf("SC_CLK_TCK")


def _flood(megabytes: int) -> str:
    return f"read line; head -c {megabytes << 20} /dev/zero; read line"


class Ground:
    """A folder with keepers."""

    def __init__(self, plan: Plan, tier: Tier) -> None:
        self.workspace = plan.folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self._estop = str(plan.folder / "ESTOP")
        self._tier: Tier = tier
        self.keepers = Keepers(plan.folder / "run")

    def spec(self, *command: str, limits: BoxLimits = _HOURS) -> BoxSpec:
        here = str(self.workspace)
        return BoxSpec(command=command, workspace=here, cwd=here, limits=limits)

    async def start(self, name: str, *command: str) -> AttachedTerminal:
        return await self.keepers.start(KeeperOrder(
            session_id=name, spec=self.spec(*command), tier=self._tier, hide=(), owned=(), estop=(self._estop,),
            rows=24, columns=80,
        ))  # fmt: skip


def _bare_read(megabytes: int) -> float:
    """The same program on a terminal of our own, without box and keeper, read by nothing but `read`."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(["/bin/sh", "-c", _flood(megabytes)], stdin=theirs, stdout=theirs, stderr=theirs)
    try:
        began, taken = time.perf_counter(), 0
        os.write(ours, b"\n")
        while taken < megabytes << 20:
            taken += len(os.read(ours, 1 << 16))
        return (time.perf_counter() - began) / megabytes
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


async def _kept_read(ground: Ground, megabytes: int) -> float:
    attached = await ground.start("flood", "/bin/sh", "-c", _flood(megabytes))
    follower = await ground.keepers.attach("flood", 0, follow=True)
    if follower is None:
        raise RuntimeError("the keeper is gone")
    began, taken = time.perf_counter(), 0
    await attached.send(b"\n")
    async for _, data in follower.output():
        taken += len(data)
        if taken >= megabytes << 20:
            break
    took = (time.perf_counter() - began) / megabytes
    await ground.keepers.end_all()
    return took


def _throughput(plan: Plan, ground: Ground, loop: asyncio.Runner) -> Iterator[Row]:
    megabytes = plan.size(64, 4)
    cases = {
        "kept": lambda: loop.run(_kept_read(ground, megabytes)),
        "bare": lambda: _bare_read(megabytes),
    }
    found = timings(cases, plan.rounds)
    yield beside(
        "terminals", "terminal to a keeper's client, per MB", "ms", found["kept"].scaled(1e3),
        "reading the terminal directly", found["bare"].scaled(1e3), at_most=2.0,
    )  # fmt: skip


async def _first_byte(ground: Ground) -> float:
    """From the order to the first byte of its program."""
    began = time.perf_counter()
    attached = await ground.start("first", "/bin/echo", "hello")
    async for _ in attached.output():
        break
    took = time.perf_counter() - began
    await attached.close()
    await ground.keepers.end_all()
    return took


async def _boxed_echo(ground: Ground, box: Box) -> float:
    echo = ground.spec("/bin/echo", "hello", limits=BoxLimits(wall_seconds=300, cpu_seconds=60))
    began = time.perf_counter()
    await box.run(echo)
    return time.perf_counter() - began


def _starts(plan: Plan, ground: Ground, loop: asyncio.Runner) -> Iterator[Row]:
    box = open_box(hide=())  # one for all rounds: its first command also looks at the machine
    cases = {"kept": lambda: loop.run(_first_byte(ground)), "bare": lambda: loop.run(_boxed_echo(ground, box))}
    found = timings(cases, plan.rounds)
    yield beside(
        "terminals", "start of a kept terminal to its first byte", "ms", found["kept"].scaled(1e3),
        "the same box, `echo` in it, to its end", found["bare"].scaled(1e3), at_most=1.5,
    )  # fmt: skip


def proportional(pid: int) -> int:
    """What a process takes of memory, shared pages by their share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _processor(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK


def _is_shell(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "bash"
    except OSError:
        return False


async def _many(plan: Plan, ground: Ground, count: int) -> Iterator[Row]:
    """Start them all at once, let them rest, look at what they take, and end them."""
    warm = await ground.start("warm", "/bin/true")
    await warm.ended()
    box = open_box(hide=())
    echo = ground.spec("/bin/echo", "hello", limits=BoxLimits(wall_seconds=300, cpu_seconds=60))
    await box.run(echo)
    began = time.perf_counter()
    await asyncio.gather(*(box.run(echo) for _ in range(count)))
    echoed = time.perf_counter() - began
    began = time.perf_counter()
    shells = [ground.start(f"many{number}", "/bin/bash", "--norc", "-i") for number in range(count)]
    attached = await asyncio.gather(*shells)
    started = time.perf_counter() - began
    await asyncio.sleep(plan.size(60, 2))
    keepers = [each.pid for each in attached]
    ours = [pid for keeper in keepers for pid in (keeper, *descendants(keeper)) if not _is_shell(pid)]
    memory = sum(map(proportional, ours)) / count
    everything = [*ours, *(pid for keeper in keepers for pid in descendants(keeper) if _is_shell(pid))]
    before, began = sum(map(_processor, everything)), time.perf_counter()
    await asyncio.sleep(plan.size(60, 2))
    idle = (sum(map(_processor, everything)) - before) / (time.perf_counter() - began) * 100
    await ground.keepers.end_all()
    return iter([
        beside("terminals", f"starting {count} sessions at once", "ms", Timing.of([started * 1e3]),
               f"{count} boxed `echo` at once", Timing.of([echoed * 1e3]), at_most=1.5),
        alone("terminals", f"memory of one of {count} beyond its shell (PSS)", "MB", Timing.of([memory / 1e6]),
              at_most=3.0),
        alone("terminals", f"CPU of {count} idle sessions, of a core", "%", Timing.of([idle]), at_most=1.0),
    ])  # fmt: skip


def measure(plan: Plan) -> Iterator[Row]:
    """Throughput first, then the crowd."""
    ground = Ground(plan, open_box(hide=()).tier)
    with asyncio.Runner() as loop:
        yield from _throughput(plan, ground, loop)
        yield from _starts(plan, ground, loop)
        yield from loop.run(_many(plan, ground, plan.size(100, 4)))
