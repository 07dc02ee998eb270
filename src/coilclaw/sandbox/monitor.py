# ruff: noqa: PTH116, PTH123 - kernel paths and descriptors; pathlib adds nothing here
"""The monitor of one box: what is started, what it reports, and whether the reported box is really isolated.

The monitor (bubblewrap or our launcher) is not trusted: the process it names must be its own child,
in its own namespaces, with the requested uid.
"""

import os
from typing import Literal

import msgspec

from coilclaw.packets.box import Tier
from coilclaw.sandbox.monitor_pipes import MonitorPipes

NAMESPACES = ("ipc", "mnt", "net", "pid", "uts")


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What to start and how to talk to it; the descriptors belong to their creator."""

    argv: list[str]
    descriptors: tuple[int, ...]
    wires: MonitorPipes
    """Where the monitor reports, one JSON object per line, and learns when the command may start."""
    word: bytes
    """What releases the box."""
    workspace: str
    """The path whose file system is watched."""
    tier: Tier
    walls: Literal["namespaces", "none"]
    """`none`: no pid namespace, so the monitor is asked to end everything before it is killed."""
    uid: int = -1
    """The uid the box must have when root started it."""
    becomes: int = -1
    """The uid that root's thread takes after the start, if the started program gives up root itself."""


class Status(msgspec.Struct, rename="kebab"):
    """One report: the box's first process, how the command ended, or why there is no box."""

    child_pid: int = 0
    exit_code: int | None = None
    error: str = ""
    ipc_namespace: int = 0
    mnt_namespace: int = 0
    net_namespace: int = 0
    pid_namespace: int = 0
    uts_namespace: int = 0


class Reports:
    """Splits the monitor's output into reports; one may arrive in pieces."""

    def __init__(self, wire: int) -> None:
        self._wire = wire
        self._pending = b""

    def read(self) -> list[bytes] | None:
        """The complete reports so far; None if nothing was written."""
        try:
            data = os.read(self._wire, 4096)
        except BlockingIOError:
            return None
        *lines, self._pending = (self._pending + data).split(b"\n")
        return lines if data else None


class Walls:
    """Our own namespaces, which no box may share."""

    def __init__(self) -> None:
        self._ours = {name: os.stat(f"/proc/self/ns/{name}").st_ino for name in NAMESPACES}

    def check(self, status: Status, launch: Launch) -> None:
        """Raise OSError unless the namespaces differ from ours and the uid is the requested one."""
        if launch.walls == "namespaces":
            for name in NAMESPACES:
                theirs: int = getattr(status, f"{name}_namespace")
                if theirs in {0, self._ours[name]}:
                    raise OSError(1, f"the box shares the {name} namespace of this machine")
        if launch.uid >= 0:
            ids = status_field(status.child_pid, "Uid:")
            if set(ids) != {str(launch.uid)}:
                raise OSError(1, f"the box runs as uid {ids[0]} instead of {launch.uid}")


def status_field(pid: int, name: str) -> list[str]:
    """The fields of one line of a process's status."""
    with open(f"/proc/{pid}/status") as lines:
        return next(line.split()[1:] for line in lines if line.startswith(name))
