# ruff: noqa: PTH123 - kernel paths and descriptors; pathlib adds nothing here
"""Detects processes that a finished command left running."""

import asyncio
import os
import select
from collections.abc import Callable

from coilclaw.sandbox.process_tree import children, descendants

_LOOK = 0.02
_GRACE = 0.25
"""Helpers that end with their command, such as the reader of its last pipe, may take a moment to exit."""
_COMMAND = 2
"""The command's pid in its pid namespace: the first that is started there, and never reused."""


class LeftoverProcesses:
    """Waits for the end of a box's command, and reports how many processes it left if some still run a moment later.

    Only processes seen alive are reported. It never concludes that nothing is left: the process at the `top` inherits
    orphans and exits once it has reaped the last of them; until then we check again.
    """

    def __init__(self, top: int, *, command: int | None, left: Callable[[int], None]) -> None:
        """`command` is a descriptor of the command's process, or None to find it in the namespace of `top`."""
        self._loop = asyncio.get_running_loop()
        self._top = top
        self._left = left
        self._missed = 0
        self._command = -1
        self._timer: asyncio.TimerHandle | None = None
        if command is None:
            self._timer = self._loop.call_later(_LOOK, self._seek)
        else:
            self._wait_for(os.dup(command))

    def _wait_for(self, command: int) -> None:
        self._command = command
        self._loop.add_reader(command, self._over)

    def _seek(self) -> None:
        """Find the command. It is the eldest child of `top`, so children without it mean that it has ended."""
        found = children(self._top)
        for pid in found[:8]:
            command = _command_of_a_namespace(pid)
            if command is not None:
                self._wait_for(command)
                return
        self._missed = self._missed + 1 if found else 0
        if self._missed > 1:  # the kernel may omit one from a list that changes while it is read
            self._over()
        else:
            self._timer = self._loop.call_later(_LOOK, self._seek)

    def _over(self) -> None:
        self._forget()
        self._timer = self._loop.call_later(_GRACE, self._look)

    def _look(self) -> None:
        alive = sum(_is_alive(pid) for pid in descendants(self._top))
        if alive:
            self._left(alive)
        else:
            self._timer = self._loop.call_later(_LOOK, self._look)

    def _forget(self) -> None:
        if self._command >= 0:
            self._loop.remove_reader(self._command)
            os.close(self._command)
            self._command = -1

    def close(self) -> None:
        """Stop watching."""
        self._forget()
        if self._timer is not None:
            self._timer.cancel()


def _command_of_a_namespace(pid: int) -> int | None:
    """A descriptor of the process, if it is the command of its box."""
    try:
        command = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        with open(
            f"/proc/{pid}/status"
        ) as lines:  # read after opening the descriptor, so it is the same process or none
            if any(line.startswith("NSpid:") and line.split()[-1] == str(_COMMAND) for line in lines):
                return command
    except OSError:
        pass
    os.close(command)
    return None


def is_over(pidfd: int) -> bool:
    """Whether every thread of a process has ended; unlike its state, this is not fooled by an exited main thread."""
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(0))


def _is_alive(pid: int) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        return not is_over(pidfd)
    finally:
        os.close(pidfd)
