# ruff: noqa: PTH119 - kernel paths and descriptors; pathlib adds nothing here
"""Where a box is started from: our own place for an ordinary user, a thread with its own place and uid for root.

A root that starts bubblewrap stays root inside (its kernel uid is 0), so root first takes a seat: a thread that leaves
for a private mount namespace, lends the workspace there by an identity map, and gives up root for itself alone. What
the thread starts inherits all three. No code of ours runs between fork and exec, and the thread ends with the box.
"""

import asyncio
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


class RootThread:
    """Root's: a thread of its own for one box. An ordinary user starts boxes from where it is."""

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor  # only root needs it

        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="box-seat")

    async def call(self, act: Callable[[], None]) -> None:
        """Do it in the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, act)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=True)


def start(argv: list[str], streams: Streams, descriptors: tuple[int, ...]) -> "subprocess.Popen[bytes]":
    """Start a program in a session of its own, with these descriptors and no others, and nothing but our mark on it."""
    try:
        return subprocess.Popen(
            argv, stdin=streams.stdin, stdout=streams.stdout, stderr=streams.stderr, env=mark(), cwd="/",
            close_fds=True, pass_fds=descriptors, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        if error.errno == 7:  # E2BIG
            raise ToolError(
                "The command is too long for the kernel to start.", remedy="Put it into a script in the workspace.",
                code="BAD_COMMAND", begun=False,
            ) from error  # fmt: skip
        raise BoxUnavailable(f"{os.path.basename(argv[0])} cannot be started: {error.strerror}.",
                             remedy="Run `coilclaw doctor` to see what a box needs here.") from error  # fmt: skip
