# ruff: noqa: PTH119 - kernel paths and descriptors; pathlib adds nothing here
"""Where a box is started: in our own context for an ordinary user, in a thread with its own namespace and uid for root.

If root starts bubblewrap it stays root inside (kernel uid 0), so root uses a thread that moves
to a private mount namespace, maps the workspace there, and gives up root for itself only. What
the thread starts inherits all three. No code of ours runs between fork and exec, and the thread ends with the box.
"""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable

import msgspec

from coilclaw.packets.errors import BoxUnavailable, ToolError
from coilclaw.sandbox.abandoned import mark


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """The command's ends of its three streams."""

    stdin: int
    stdout: int
    stderr: int
    terminal: bool = False
    """All three are our controlling terminal, which becomes the command's."""


class RootThread:
    """For root: a separate thread for one box. An ordinary user needs none."""

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor  # only root needs it

        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="box-seat")

    async def call(self, act: Callable[[], None]) -> None:
        """Run it in the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, act)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=True)


def start(argv: list[str], streams: Streams, descriptors: tuple[int, ...]) -> "subprocess.Popen[bytes]":
    """Start a program with only these descriptors and only our mark as environment.

    It gets its own session, or on a terminal, which belongs to our session, the foreground of it.
    """
    try:
        started = subprocess.Popen(
            argv, stdin=streams.stdin, stdout=streams.stdout, stderr=streams.stderr, env=mark(), cwd="/",
            close_fds=True, pass_fds=descriptors, start_new_session=not streams.terminal,
            process_group=0 if streams.terminal else None,
        )  # fmt: skip
    except OSError as error:
        if error.errno == 7:  # E2BIG
            raise ToolError(
                "The command is too long for the kernel to start.", remedy="Put it into a script in the workspace.",
                code="BAD_COMMAND", begun=False,
            ) from error  # fmt: skip
        raise BoxUnavailable(f"{os.path.basename(argv[0])} cannot be started: {error.strerror}.",
                             remedy="Run `coilclaw doctor` to see what a box needs here.") from error  # fmt: skip
    if streams.terminal:
        with contextlib.suppress(OSError):  # it has already died, and will be found dead
            os.tcsetpgrp(streams.stdin, started.pid)
    return started
