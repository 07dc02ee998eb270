"""A process of our own beside this one: it ends when we close its standard input, or die; its tree can be killed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from coilclaw.sandbox.process_tree import descendants

_PATIENCE = 5.0


class Companion:
    """One such process."""

    def __init__(self, argv: tuple[str, ...], environment: Mapping[str, str], output: Path) -> None:
        """What it prints is appended to `output`."""
        with output.open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd="/",
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    async def stop(self) -> None:
        """Let it end by itself for a few seconds, then kill it with everything it started."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        deadline = time.monotonic() + _PATIENCE
        while self.ended() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        self.kill()

    def kill(self) -> None:
        """Kill it with everything it started. It is stopped first, so that nothing new appears meanwhile."""
        if self.ended() is not None:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (self.pid, *descendants(self.pid)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        self._process.wait()
