# ruff: noqa: PTH123 - kernel paths and descriptors; pathlib adds nothing here
"""What a running box uses up that no kernel limit bounds for the whole of it: memory without a group, and writes.

Writes are counted twice over, because neither count sees everything. What the kernel put down to each live process
misses one that comes and goes between two looks. What the workspace's file system lost counts only what is still there,
and counts others on it too. Whichever is more is held against the limit; a look every 50 ms bounds what gets past it.
A box without an end is looked at ten times less often: many of them are open at once, and most of the time idle.
"""

import os

from coilclaw.packets.box import BoxEnd, BoxLimits
from coilclaw.sandbox.limits import Group, memory_of
from coilclaw.sandbox.process_tree import descendants

_LOOK_SECONDS = 0.05
_SELDOM_SECONDS = 0.5
_FILE_BYTES = 4096
"""What each file counts at least: a file system also runs out of files."""


class Usage:
    """Looks at one box while it runs."""

    def __init__(self, first: int, limits: BoxLimits, group: Group | None, workspace: str) -> None:
        self._first = first
        self._limits = limits
        self._group = group
        self._workspace = workspace
        self.every = _SELDOM_SECONDS if limits.wall_seconds is None else _LOOK_SECONDS
        self._written: dict[tuple[int, str], int] = {}
        self._by_the_dead = 0
        self._before = _room(workspace)

    @property
    def writers(self) -> frozenset[tuple[int, str]]:
        """The processes whose writes are counted one by one, each with when it began."""
        return frozenset(self._written)

    def over(self) -> tuple[BoxEnd, str] | None:
        """Why the box must end now: with a group the kernel kills one process for its memory, without one nobody."""
        inside = [self._first, *descendants(self._first)]
        most = self._limits.memory_bytes
        if self._group.ran_out_of_memory if self._group is not None else memory_of(inside, most) > most:
            return "memory_limit", f"It was stopped for using more than {most} bytes of memory."
        most = self._limits.write_bytes
        if max(self._by_processes(inside), self._by_room()) > most:
            return "write_limit", f"It was stopped for writing more than {most} bytes."
        return None

    def _by_processes(self, inside: list[int]) -> int:
        for pid in inside:
            told = _io_of(pid)
            if told is not None:
                began, written = told
                self._written[pid, began] = written
        for pid, began in [one for one in self._written if one[0] not in inside]:
            told = _io_of(pid)
            if told is None or told[0] != began:  # hours may see millions of processes come and go
                self._by_the_dead += self._written.pop((pid, began))
        return self._by_the_dead + sum(self._written.values())

    def _by_room(self) -> int:
        now = _room(self._workspace)
        return max(before - after for before, after in zip(self._before, now, strict=True))


def _room(path: str) -> tuple[int, int]:
    """Bytes and files (as bytes) that the file system of a path still has room for; it may be gone."""
    try:
        found = os.statvfs(path)
    except OSError:
        return 0, 0
    return found.f_bfree * found.f_frsize, found.f_ffree * _FILE_BYTES


def _io_of(pid: int) -> tuple[str, int] | None:
    """When a process began and how many bytes it caused to be written; None when it is gone or does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as source:
            began = source.read(4096).rpartition(b")")[2].split()[19].decode()
        with open(f"/proc/{pid}/io", "rb", buffering=0) as source:
            for line in source.read(4096).splitlines():
                if line.startswith(b"write_bytes:"):
                    return began, int(line.split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return None
