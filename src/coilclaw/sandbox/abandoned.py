# ruff: noqa: PTH116, PTH123, PTH208 - kernel paths and descriptors; pathlib adds nothing here
"""Boxes whose CoilClaw is gone: each program we start is marked with who we are, and whoever comes next ends it.

A box dies with us by itself: its gate closes, and the kernel signals who was started by the dead. There are moments
when neither holds, such as between the start of bubblewrap and its own request for that signal. The mark is in the
environment of what builds a box, never in that of the command.
"""

import contextlib
import os
import signal

_NAME = "COILCLAW_BOX"


def mark() -> dict[str, str]:
    """The environment of a program we start: our process namespace, our number in it, and when we began."""
    return {_NAME: f"{_namespace()}-{os.getpid()}-{_began(os.getpid())}"}


def end_abandoned() -> int:
    """Kill what builds or holds a box for a process that is gone; how many. Each is known by its mark alone."""
    ended = 0
    here = _namespace()
    for name in os.listdir("/proc"):
        if name.isdigit() and _is_abandoned(int(name), here):
            ended += _end(int(name), here)
    return ended


def _end(pid: int, here: int) -> bool:
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            if _is_abandoned(pid, here):  # read after the descriptor was opened: it is this process or none
                signal.pidfd_send_signal(process, signal.SIGKILL)
                return True
        finally:
            os.close(process)
    return False


def _is_abandoned(pid: int, here: int) -> bool:
    """Whether it carries the mark of a process of our namespace that is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as source:
            found = source.read(4096)
    except OSError:
        return False  # it has just ended, or belongs to somebody else
    for entry in found.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == _NAME.encode():
            namespace, _, owner = value.decode(errors="replace").partition("-")
            number, _, began = owner.partition("-")
            return namespace == str(here) and number.isdigit() and began != _began(int(number))
    return False


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _began(pid: int) -> str:
    """When a process began, in ticks since the machine did; empty when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as source:
            return source.read(4096).rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""
