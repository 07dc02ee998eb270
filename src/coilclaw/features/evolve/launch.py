"""The launcher: `python -m coilclaw.features.evolve.launch BRANCH` puts one run of the agent into its box.

The watcher starts it, hears what the agent prints, and is told by the exit code how it ended. It lives until the agent
ends, ESTOP is engaged, or whoever started it is gone.
"""

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from coilclaw.packets.errors import CoilclawError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coilclaw.packets.ports import Box
    from coilclaw.runtime.runtime import Runtime

REFUSED, STOPPED = 78, 75
"""Exit codes: it could not be started; it was stopped from outside."""
_CONTEXT = 200_000
"""Of a provider that does not say how much it can read, less is assumed by itself."""


def main() -> int:
    """Run one branch to its end; the exit code is the agent's."""
    from coilclaw.cli.open_home import opened
    from coilclaw.sandbox import syscalls

    parent = os.getppid()
    syscalls.signal_on_parent_death(signal.SIGKILL)
    if os.getppid() != parent or len(sys.argv) != 2:
        return REFUSED
    try:
        with opened() as app:
            return asyncio.run(launched(app, sys.argv[1]))
    except CoilclawError as error:
        print(error, file=sys.stderr, flush=True)  # noqa: T201 - the watcher keeps it
        return REFUSED


async def launched(app: "Runtime", branch: str, box: "Box | None" = None) -> int:
    """Put the branch into the box and stay with it; how it ended."""
    from coilclaw.features.evolve.box import box_spec, evolve_box
    from coilclaw.features.evolve.model import EvolveModel

    provider = app.provider(app.config.evolve.model)
    spec = box_spec(app, branch, min(provider.capabilities.context_window, _CONTEXT))
    if app.estop.engaged():
        return STOPPED
    box = box or evolve_box(app)
    running = await box.open(spec, stopped=app.estop.wait, serve=EvolveModel(app, provider).serve)
    alone = asyncio.ensure_future(_input_ends())
    shown = asyncio.ensure_future(_show(app, running.lines()))
    ended = asyncio.ensure_future(running.wait())
    try:
        await asyncio.wait({alone, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            await running.close()
            return STOPPED
        await shown
        result = ended.result()
        if result.end in ("exited", "left_behind"):
            return result.exit_code
        print(f"The box ended: {result.reason}", file=sys.stderr, flush=True)  # noqa: T201
        return STOPPED if result.end == "stopped" else result.exit_code or 1
    finally:
        for task in (alone, shown, ended):
            task.cancel()
        await asyncio.gather(alone, shown, ended, return_exceptions=True)


async def _show(app: "Runtime", lines: "AsyncIterator[bytes]") -> None:
    """Pass on what the agent prints, line by line, redacted."""
    async for line in lines:
        text = app.redact(line.decode("utf-8", "replace"))
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


async def _input_ends() -> None:
    """Return when standard input closes: the process that started us is gone, or wants us to end."""
    over = asyncio.get_running_loop().create_future()

    def heard() -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(0, 4096) and not over.done():
                over.set_result(None)

    loop = asyncio.get_running_loop()
    try:
        os.set_blocking(0, False)
        loop.add_reader(0, heard)
    except (OSError, ValueError):  # not a pipe: the parent's death is what ends us
        await asyncio.Event().wait()
    try:
        await over
    finally:
        loop.remove_reader(0)


if __name__ == "__main__":
    sys.exit(main())
