# ruff: noqa: PTH123 - kernel paths and descriptors; pathlib adds nothing here
"""Resources of a running box that no kernel limit covers as a whole: memory without a group, and writes.

Writes are counted in two ways, because neither sees everything. The kernel's counters of live processes
miss one that comes and goes between two checks. The space lost on the file system covers only what still exists,
and includes other programs. The larger one counts; checking every 50 ms limits the excess.
A box without a time limit is checked ten times less often: many of them are open at once, and mostly idle.
One on a terminal where nothing happens is checked more and more seldom, until somebody types or something is written:
a hundred of them must not keep a machine awake.
"""

import os

from coilclaw.packets.box import BoxEnd, BoxLimits
from coilclaw.sandbox.limits import Group, memory_of
from coilclaw.sandbox.process_tree import descendants

_LOOK_SECONDS = 0.05
_SELDOM_SECONDS = 0.5
_RESTING_SECONDS, _GUARDED_RESTING_SECONDS = 4.0, 16.0
"""The longest pause between two checks; the second where the kernel limits the memory of the whole box."""
_FILE_BYTES = 4096
"""The minimum count of a file: a file system can also run out of inodes."""


class Usage:
    """Monitors one box while it runs."""

    def __init__(
        self, first: int, limits: BoxLimits, group: Group | None, workspace: str, *, rests: bool = False
    ) -> None:
        """`rests`: it is checked less often while nothing happens."""
        self._first = first
        self._limits = limits
        self._group = group
        self._workspace = workspace
        self.every = _SELDOM_SECONDS if limits.wall_seconds is None else _LOOK_SECONDS
        self._least = self._most = self.every
        if rests and limits.wall_seconds is None:
            self._most = _RESTING_SECONDS if group is None else _GUARDED_RESTING_SECONDS
        self._seen: tuple[list[int], int] = [], 0
        self._written: dict[tuple[int, str], int] = {}
        self._by_the_dead = 0
        self._before = _room(workspace)

    @property
    def writers(self) -> frozenset[tuple[int, str]]:
        """The processes whose writes are counted, each with its start time."""
        return frozenset(self._written)

    def over(self) -> tuple[BoxEnd, str] | None:
        """Why the box must end now. With a group the kernel enforces memory; without one we do."""
        inside = [self._first, *descendants(self._first)]
        most = self._limits.memory_bytes
        if self._group.ran_out_of_memory if self._group is not None else memory_of(inside, most) > most:
            return "memory_limit", f"It was stopped for using more than {most} bytes of memory."
        most = self._limits.write_bytes
        written = self._by_processes(inside)
        self.every = min(2 * self.every, self._most) if self._seen == (inside, written) else self._least
        self._seen = inside, written
        if max(written, self._by_room()) > most:
            return "write_limit", f"It was stopped for writing more than {most} bytes."
        return None

    def stir(self) -> bool:
        """Something happens: check again soon. Whether it was resting."""
        resting, self.every = self.every > self._least, self._least
        return resting

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
    """Free bytes and files (as bytes) on the file system of a path, which may be gone."""
    try:
        found = os.statvfs(path)
    except OSError:
        return 0, 0
    return found.f_bfree * found.f_frsize, found.f_ffree * _FILE_BYTES


def _io_of(pid: int) -> tuple[str, int] | None:
    """A process's start time and written bytes; None if it is gone or inaccessible."""
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
