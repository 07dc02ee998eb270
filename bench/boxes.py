"""Boxed commands, beside bubblewrap started bare with the very same flags; and one tier beside the other."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.rounds import Case, Timing, timed, timings
from bench.row import Plan, Row, alone, beside
from coilclaw.gate.live_output import LiveOutput
from coilclaw.packets.box import BoxLimits, BoxSpec, OutputName, Tier
from coilclaw.packets.errors import BoxUnavailable
from coilclaw.packets.ports import Box
from coilclaw.sandbox.binaries import Programs, forbid
from coilclaw.sandbox.box import open_box, tools
from coilclaw.sandbox.bubblewrap import Arguments
from coilclaw.sandbox.layout import command_line, environment, steps_for
from coilclaw.sandbox.seccomp import filter_bytes, this_machine
from coilclaw.secrets.redactor import Redactor


def _spec(workspace: Path) -> BoxSpec:
    forbidden = ("dd", "mkfs", "reboot", "rm", "shutdown")
    return BoxSpec(
        command=("/bin/true",), workspace=str(workspace), cwd=str(workspace), forbidden_binaries=forbidden
    )  # fmt: skip


def _bare(spec: BoxSpec, programs: Programs) -> float:
    """bubblewrap with the flags of a box of ours, started and waited for; how long that took, and nothing else."""
    steps = steps_for(spec, guarded=(), hide=(), programs=programs, source=spec.workspace)
    status = os.open(os.devnull, os.O_WRONLY)
    gate = os.memfd_create("filter")
    os.write(gate, filter_bytes(this_machine(), "inet"))
    os.lseek(gate, 0, os.SEEK_SET)
    arguments = Arguments()
    try:
        argv = arguments.command(
            tools().bwrap, steps, environment=environment(spec), cwd=spec.cwd, argv=command_line(spec),
            gate=gate, status=status, workspace=(spec.workspace, spec.workspace),
        )  # fmt: skip
        started = time.perf_counter()
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, env={}, cwd="/",
            pass_fds=(status, gate, *arguments.descriptors), start_new_session=True, check=False,
        )  # fmt: skip
        took = time.perf_counter() - started
    finally:
        arguments.close()
        for descriptor in (status, gate):
            os.close(descriptor)
    if done.returncode:
        raise BoxUnavailable(f"bare bubblewrap failed: {done.stderr.decode(errors='replace')}")
    return took


def _boxed(box: Box, spec: BoxSpec, loop: asyncio.Runner) -> Case:
    def run() -> None:
        result = loop.run(box.run(spec))
        if result.exit_code:
            raise BoxUnavailable(f"a boxed command failed: {result.stderr.decode(errors='replace')} {result.reason}")

    return timed(run)


def _output(plan: Plan, workspace: Path) -> Iterator[Row]:
    """A flood of output, shown as it is written, redacted and bounded, beside the same read from a bare pipe."""
    size = plan.size(256 << 20, 128 << 20)  # so much that what starting the box costs hardly counts
    command = f"head -c {size} /dev/zero"
    limits = BoxLimits(wall_seconds=600.0, cpu_seconds=600, output_bytes=4 << 30, kept_bytes=64 << 10)
    spec = BoxSpec(command=command, workspace=str(workspace), cwd=str(workspace), limits=limits)

    def piped() -> None:
        with subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE) as process:
            if process.stdout is not None:
                while os.read(process.stdout.fileno(), 64 << 10):
                    pass

    with asyncio.Runner() as loop:
        box = open_box(hide=())
        heard: list[int] = []

        def boxed() -> None:
            heard.clear()
            live = LiveOutput(Redactor(()).stream, lambda _offset, _piece: None)

            def hear(name: OutputName, data: bytes) -> None:
                heard.append(len(data))
                live(name, data)

            loop.run(box.run(spec, on_output=hear))
            live.close()
            if sum(heard) != size:
                raise BoxUnavailable(f"{sum(heard)} bytes of {size} were heard")

        boxed()
        found = timings({"pipe": timed(piped), "box": timed(boxed)}, plan.rounds)
    yield beside(
        "boxes", "live output of a boxed command", "ms", found["box"].scaled(1e3), "a bare pipe",
        found["pipe"].scaled(1e3), at_most=2.0, note=f"{size >> 20} MiB",
    )  # fmt: skip


def measure(plan: Plan) -> Iterator[Row]:
    """`true` in each tier, after each tier has been tried once."""
    workspace = plan.folder / "workspace"
    workspace.mkdir()
    spec = _spec(workspace)
    programs = forbid(spec.forbidden_binaries)
    with asyncio.Runner() as loop:
        cases: dict[str, Case] = {}
        first: dict[str, float] = {}
        tiers: tuple[Tier, ...] = ("A", "B")
        for tier in tiers:
            started = time.perf_counter()
            cases[tier] = _boxed(open_box(hide=(), prefer=tier), spec, loop)
            cases[tier]()
            first[tier] = (time.perf_counter() - started) * 1e3
        found = timings({"bare": lambda: _bare(spec, programs), **cases}, plan.size(3 * plan.rounds, plan.rounds))
    bare = found["bare"].scaled(1e3)
    yield beside(
        "boxes", "boxed `true`, tier A", "ms", found["A"].scaled(1e3), "bare bwrap, same flags", bare, at_most=1.3,
        note="as root, with a lent workspace" if os.geteuid() == 0 else "",
    )  # fmt: skip
    yield beside("boxes", "boxed `true`, tier B", "ms", found["B"].scaled(1e3), "tier A", found["A"].scaled(1e3))
    yield from _output(plan, workspace)
    for tier, took in first.items():
        yield alone("boxes", f"first command of a process, tier {tier} (walls tried)", "ms", Timing.of([took]))
