"""Guests: our MCP client beside the official SDK, and a plugin's call beside a boxed `true` with the same pipes."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.home import BenchHome
from bench.rounds import Timing, timed, timings
from bench.row import Plan, Row, beside
from coilclaw.features.guests.offer import Pin
from coilclaw.features.guests.plugin_call import call_plugin, plugin_spec
from coilclaw.features.guests.plugin_files import copy_of, install, settle_copy
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.box import open_box

CLIENTS = Path(__file__).with_name("guest_clients.py")
MANIFEST = """\
name = "bench"
version = "1"
capabilities = ["tool"]
[[tools]]
name = "echo"
command = "./echo"
schema = { type = "object" }
"""
PROGRAM = '#!/bin/sh\nread -r line\necho \'{"success": true, "output": "done"}\'\n'


def _clients(plan: Plan) -> Iterator[Row]:
    """Start, list and call once, each in a process of its own; what that process took."""
    found: dict[str, list[tuple[float, float]]] = {"own": [], "sdk": []}
    for number in range(plan.rounds + 1):
        for name, taken in found.items():
            done = subprocess.run(
                [sys.executable, str(CLIENTS), name, str(plan.folder)], capture_output=True, timeout=120, check=False
            )
            words = done.stdout.split()
            if done.returncode or not words or words[0] != b"done":
                raise ToolError(f"the {name} client failed: {done.stderr.decode(errors='replace')[-500:]}")
            if number:
                taken.append((float(words[1]) * 1e3, int(words[2]) / 1024))
    cpu = {name: Timing.of([each[0] for each in taken]) for name, taken in found.items()}
    peak = {name: Timing.of([each[1] for each in taken]) for name, taken in found.items()}
    what = "MCP server: start, list, call"
    yield beside("guests", f"{what}: CPU", "ms", cpu["own"], "the SDK", cpu["sdk"], at_most=0.2)
    yield beside("guests", f"{what}: peak memory", "MB", peak["own"], "the SDK", peak["sdk"], at_most=0.4)


def _plugin(plan: Plan) -> Iterator[Row]:
    source = plan.folder / "plugin"
    source.mkdir()
    (source / "manifest.toml").write_text(MANIFEST)
    (source / "echo").write_text(PROGRAM)
    (source / "echo").chmod(0o755)
    home = BenchHome(plan.folder / "guests")
    app, box = home.app, open_box(hide=())
    app.open_box = lambda: box
    with asyncio.Runner() as loop:
        offer = install(app, source)
        settle_copy(app, offer)
        pin, tool = Pin(offer=offer, classes={"echo": "reads"}), offer.tools[0]
        spec = plugin_spec(app, pin, tool, copy_of(app, offer), b"{}\n")
        bare = msgspec.structs.replace(spec, command=("/bin/sh", "-c", "read -r line; true"))
        cases = {
            "plugin": timed(lambda: loop.run(call_plugin(app, pin, tool, {}, "key"))),
            "true": timed(lambda: loop.run(box.run(bare))),
        }
        found = timings(cases, plan.size(3 * plan.rounds, plan.rounds))
    yield beside(
        "guests", "a plugin's call", "ms", found["plugin"].scaled(1e3), "boxed `true`, same pipes",
        found["true"].scaled(1e3), at_most=1.3,
    )  # fmt: skip


def measure(plan: Plan) -> Iterator[Row]:
    """The client first, then a plugin."""
    yield from _clients(plan)
    yield from _plugin(plan)
