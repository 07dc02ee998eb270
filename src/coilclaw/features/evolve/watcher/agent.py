"""The running agent: one launcher process with everything below it, its output, and what it uses."""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 16
TICKS = os.sysconf("SC_CLK_TCK")
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


@dataclass(frozen=True)
class UsedByTree:
    """What a process tree uses now."""

    processor_seconds: float
    processes: int
    open_files: int
    deleted_bytes: int
    """Of files that are open and have no name any more: no folder shows them."""


class RunningAgent:
    """A launched branch; `write` gets what it prints."""

    def __init__(self, argv: list[str], branch: str, sha: str, lock: int, write: Callable[[bytes], None]) -> None:
        self.branch = branch
        self.sha = sha
        self.started = time.monotonic()
        self.ready: float | None = None
        """When SUCCESS was seen."""
        self.printed = 0
        self._write = write
        # The launcher holds the lock as long as it lives, so that a new watcher knows; its standard input closes when
        # the watcher dies, in whatever way, and then it must end.
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
            start_new_session=True,
            cwd="/",
        )
        if self._process.stdout is None:
            raise OSError("the launcher has no output")
        self._output: int | None = self._process.stdout.fileno()
        os.set_blocking(self._output, False)

    @property
    def pid(self) -> int:
        """The launcher's process id."""
        return self._process.pid

    def ended(self) -> int | None:
        """The launcher's exit code once it has ended."""
        reap(self.pid)
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """Take in what it prints until the time is up, or it ends, or prints nothing more."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._output is None:
                time.sleep(min(left, 0.2) if self._process.poll() is None else 0)
                if self._process.poll() is not None:
                    return
                continue
            if select.select([self._output], [], [], left)[0] and not self._read():
                return

    def _read(self) -> bool:
        if self._output is None:
            return False
        try:
            chunk = os.read(self._output, CHUNK)
        except BlockingIOError:
            return True
        if not chunk:
            self._output = None
            return False
        self.printed += len(chunk)
        self._write(chunk)
        return True

    def used(self) -> UsedByTree:
        """What the launcher and everything below it use."""
        if self._process.poll() is not None:
            return UsedByTree(0, 0, 0, 0)
        seconds, files, tree = 0.0, 0, descendants(self.pid)
        deleted: dict[tuple[int, int], int] = {}
        for pid in [self.pid, *tree]:
            with suppress(OSError, ValueError, IndexError):
                seconds += sum(int(field) for field in stat_fields(pid)[11:15]) / TICKS
                for place in Path(f"/proc/{pid}/fd").iterdir():
                    files += 1
                    with suppress(OSError):
                        found = place.stat()
                        if found.st_nlink == 0 and stat.S_ISREG(found.st_mode):
                            deleted[found.st_dev, found.st_ino] = found.st_blocks * 512
        return UsedByTree(seconds, len(tree) + 1, files, sum(deleted.values()))

    def stop(self, seconds: float) -> bool:
        """End it and all it started, gently at first; false when something of it is still alive."""
        with suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        self.wait(seconds)
        gone = kill_tree(self.pid, self._process)
        for _ in range(64):  # what it printed last is worth keeping, as far as the pipe holds it
            if not self._output or not select.select([self._output], [], [], 0)[0] or not self._read():
                break
        self._output = None  # closed, its number may soon be another file's
        if self._process.stdout:
            self._process.stdout.close()
        return gone


def adopt_orphans() -> None:
    """Become the parent of every process below that loses its own, so that none can leave the tree by forking away."""
    import ctypes

    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def kill_tree(pid: int, process: subprocess.Popen[bytes] | None = None, started: str = "", seconds: float = 10) -> bool:
    """Kill a process and all below it, and below us: the watcher has no other children. New ones may appear.

    An id that was given away names a stranger: without `process`, our child, `started` says which one is meant.
    """
    if pid <= 1:
        raise ValueError(f"{pid} is not the process of an agent")
    started = started or started_at(pid)
    end = time.monotonic() + seconds
    while True:
        there = started_at(pid) == started != "" if process is None else process.poll() is None
        alive = {**_below(os.getpid()), **(_below(pid) if there else {})}
        alive.pop(pid, None)
        if not alive and there:
            alive = {pid: started}  # last: killed in between, we would leave what it started without anyone above it
        for other, since in alive.items():
            _kill(other, since)
        reap(pid if process is not None else 0)
        there = there and started_at(pid) == started and is_alive(pid)
        if not there and not any(started_at(other) == since and is_alive(other) for other, since in alive.items()):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.02)


def _kill(pid: int, started: str) -> None:
    """Kill a process by a descriptor, which cannot name another one, if it is still the one that was seen."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if started_at(pid) == started:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def is_alive(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be reaped."""
    with suppress(OSError, IndexError):
        return stat_fields(pid)[0] not in {"Z", "X"}
    return False


def reap(besides: int) -> None:
    """Collect orphans that ended, but not the launcher: its exit code is asked for elsewhere."""
    with suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid == besides:
                return
            os.waitpid(found.si_pid, 0)


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything; the first is the state."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - many times a minute
        return file.read().rpartition(b")")[2].decode("ascii").split()


def started_at(pid: int) -> str:
    """When a process started, in ticks: with its id it names one process for as long as the machine is up."""
    with suppress(OSError, IndexError):
        return stat_fields(pid)[19]
    return ""


def descendants(pid: int) -> list[int]:
    """All processes below one; of 0 and 1, below which everything is, nothing."""
    return list(_below(pid))


def _below(pid: int) -> dict[int, str]:
    """The processes below one, and when each started."""
    if pid <= 1:
        return {}
    children: dict[int, list[tuple[int, str]]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is needed
        if name.isdigit():
            with suppress(OSError, IndexError):
                fields = stat_fields(int(name))
                children.setdefault(int(fields[1]), []).append((int(name), fields[19]))
    found: dict[int, str] = {}
    waiting = list(children.get(pid, ()))
    while waiting:
        child, started = waiting.pop()
        found[child] = started
        waiting.extend(children.get(child, ()))
    return found
