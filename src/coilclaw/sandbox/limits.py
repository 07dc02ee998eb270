# ruff: noqa: PTH102, PTH106, PTH110, PTH116, PTH120, PTH123, PTH208 - kernel paths and descriptors; pathlib adds nothing here
"""Limits on a box's resources: a control group where possible, resource limits everywhere."""

import asyncio
import contextlib
import os
import resource
from typing import Literal

import msgspec

from coilclaw.packets.box import BoxLimits

_ROOT = "/sys/fs/cgroup"
_NAME = "coilclaw-"
_OWN_PROCESSES = 3
"""Tasks of a box that are not the command's: the monitor, process 1, and root's thread."""
_LEAVING_SECONDS = 0.02
_SHARED_MEMORY_SLACK = 4 << 30


class GroupHome(msgspec.Struct, frozen=True, kw_only=True):
    """Where control groups can be created: one directory (v2), or one per controller (v1)."""

    version: Literal[1, 2]
    memory: str
    processes: str


def _own_groups() -> dict[str, str]:
    """This process's group by controller; the empty name is v2."""
    groups: dict[str, str] = {}
    with open("/proc/self/cgroup") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _writable(directory: str) -> bool:
    return os.access(directory, os.W_OK) and os.access(f"{directory}/cgroup.procs", os.W_OK)


def find_group_home() -> GroupHome | None:
    """Where memory and processes of a whole box can be limited, or None."""
    try:
        own = _own_groups()
    except OSError:
        return None
    memory = f"{_ROOT}/memory{own.get('memory', '')}".rstrip("/")
    processes = f"{_ROOT}/pids{own.get('pids', '')}".rstrip("/")
    if "memory" in own and "pids" in own and _writable(memory) and _writable(processes):
        return GroupHome(version=1, memory=memory, processes=processes)
    directory = f"{_ROOT}{own.get('', '/')}".rstrip("/")
    while len(directory) > len(_ROOT):  # our own group may not contain others; the nearest parent that does
        directory = os.path.dirname(directory)
        with contextlib.suppress(OSError), open(f"{directory}/cgroup.subtree_control") as offered:
            if {"memory", "pids"} <= set(offered.read().split()) and _writable(directory):
                return GroupHome(version=2, memory=directory, processes=directory)
    return None


def _write(path: str, value: int | str) -> None:
    target = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(target, str(value).encode())
    finally:
        os.close(target)


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


class Group:
    """The control group of one box."""

    def __init__(self, home: GroupHome, limits: BoxLimits) -> None:
        self._version = home.version
        self.joined = False
        """Whether the thread that starts the box is already in it."""
        name = f"{_NAME}{os.getpid()}-{_pid_namespace()}-{os.urandom(5).hex()}"
        self._memory = f"{home.memory}/{name}"
        self._processes = f"{home.processes}/{name}"
        self._directories = tuple(dict.fromkeys((self._memory, self._processes)))
        for directory in self._directories:
            os.mkdir(directory)
        try:
            self._bound(limits)
        except OSError:
            self.remove()
            raise

    def _bound(self, limits: BoxLimits) -> None:
        _write(f"{self._processes}/pids.max", limits.processes + _OWN_PROCESSES)
        if self._version == 1:
            _write(f"{self._memory}/memory.limit_in_bytes", limits.memory_bytes)
            with contextlib.suppress(OSError):  # absent where the kernel does not account for swap
                _write(f"{self._memory}/memory.memsw.limit_in_bytes", limits.memory_bytes)
            return
        _write(f"{self._memory}/memory.max", limits.memory_bytes)
        with contextlib.suppress(OSError):
            _write(f"{self._memory}/memory.swap.max", 0)
        with contextlib.suppress(OSError):
            _write(f"{self._memory}/memory.oom.group", 1)

    def join(self) -> None:
        """Put the calling thread, and what it will start, under the limits: much faster, but only in version 1."""
        if self._version == 1:
            for directory in self._directories:
                _write(f"{directory}/tasks", 0)
            self.joined = True

    def add(self, pid: int) -> None:
        """Put a process, and all it will start, under the limits, unless the thread that started it is."""
        for directory in () if self.joined else self._directories:
            _write(f"{directory}/cgroup.procs", pid)

    def _event(self, path: str, name: str) -> bool:
        with contextlib.suppress(OSError), open(path) as events:
            return any(line.startswith(f"{name} ") and not line.endswith(" 0\n") for line in events)
        return False

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a process for lack of memory."""
        source = "memory.oom_control" if self._version == 1 else "memory.events"
        return self._event(f"{self._memory}/{source}", "oom_kill")

    @property
    def ran_out_of_processes(self) -> bool:
        """Whether the limit prevented a process from starting."""
        return self._event(f"{self._processes}/pids.events", "max")

    def remove(self) -> bool:
        """Remove the group if it is empty; dead processes may take a moment to leave."""
        self._directories = tuple(directory for directory in self._directories if not _removed(directory))
        return not self._directories


def _removed(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


class Groups:
    """Creates the groups of a box's runs, if possible, and removes them again."""

    def __init__(self) -> None:
        self._home = find_group_home()
        self._leaving: list[Group] = []
        if self._home is not None:
            sweep(self._home)

    def make(self, limits: BoxLimits) -> Group | None:
        """A new group, or None if only resource limits are available."""
        self._look_again()
        if self._home is None:
            return None
        try:
            return Group(self._home, limits)
        except OSError:
            return None

    def take_away(self, group: Group | None) -> None:
        """Remove a group now or, while its dead are still leaving, a moment later."""
        if group is not None and not group.remove():
            self._leaving.append(group)
            asyncio.get_running_loop().call_later(_LEAVING_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._leaving = [group for group in self._leaving if not group.remove()]


def sweep(home: GroupHome) -> None:
    """Remove groups left by killed processes. Those of another pid namespace, as of a container, are left to it."""
    for parent in dict.fromkeys((home.memory, home.processes)):
        for name in os.listdir(parent):
            owner, *more = name.removeprefix(_NAME).split("-")
            elsewhere = len(more) > 1 and more[0] != str(_pid_namespace())
            if name.startswith(_NAME) and owner.isdigit() and not elsewhere and not os.path.exists(f"/proc/{owner}"):
                with contextlib.suppress(OSError):
                    os.rmdir(f"{parent}/{name}")


def bound_process(pid: int, limits: BoxLimits, *, grouped: bool, namespaced: bool) -> None:
    """Set the resource limits of a process that waits to be released; all it starts inherits them.

    Set from outside after its user namespace exists: then the process limit counts only this box. Without such a
    namespace, or before Linux 5.14, it counts everything its uid runs, so running processes are added.
    """
    processes = limits.processes + _OWN_PROCESSES
    if not (namespaced and _counts_by_namespace()):
        processes += _running_as(os.stat(f"/proc/{pid}").st_uid)
    wanted = {
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 64 << 10,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NPROC: processes,
    }
    if not grouped:  # RLIMIT_DATA does not count reserved address space, unlike RLIMIT_AS
        wanted[resource.RLIMIT_DATA] = limits.memory_bytes
        if limits.address_space:
            wanted[resource.RLIMIT_AS] = limits.memory_bytes + _SHARED_MEMORY_SLACK
    if limits.cpu_seconds is not None:
        wanted[resource.RLIMIT_CPU] = limits.cpu_seconds
    for kind, most in wanted.items():
        _, hard = resource.prlimit(pid, kind)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        last = value + 1 if kind == resource.RLIMIT_CPU and value != hard else value  # SIGXCPU first, then SIGKILL
        resource.prlimit(pid, kind, (value, last))


def _counts_by_namespace() -> bool:
    major, minor, *_ = os.uname().release.split("-")[0].split(".")
    return (int(major), int(minor)) >= (5, 14)


def _running_as(uid: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def memory_of(pids: list[int], limit: int) -> int:
    """Bytes used by the processes together; shared pages are separated only if the plain sum exceeds the limit."""
    held = sum(_field(pid, "status", ("RssAnon:", "RssShmem:")) for pid in pids)
    return held if held <= limit else sum(_field(pid, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) for pid in pids)


def _field(pid: int, file: str, names: tuple[str, ...]) -> int:
    try:
        with open(f"/proc/{pid}/{file}") as lines:
            return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(names))
    except OSError:
        return 0
