# ruff: noqa: PTH116, PTH123, PTH208 - kernel paths and descriptors; pathlib adds nothing here
"""Boxes whose CoilClaw process is gone: each program we start carries our mark, and the next process ends it.

A box normally dies with us: its gate closes, and the kernel signals children of the dead. There are moments
when neither works, such as between the start of bubblewrap and its own request for that signal. The mark is in the
environment of the program that builds a box, never in that of the command.
"""

import contextlib
import os
import signal

_NAME = "COILCLAW_BOX"


def mark() -> dict[str, str]:
    """The environment of a program we start: our pid namespace, our pid in it, and our start time."""
    return {_NAME: f"{_namespace()}-{os.getpid()}-{_began(os.getpid())}"}


def end_abandoned() -> int:
    """Kill the builders and monitors of boxes of dead processes, identified by their mark; returns how many."""
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
            if _is_abandoned(pid, here):  # read after opening the descriptor: it is this process or none
                signal.pidfd_send_signal(process, signal.SIGKILL)
                return True
        finally:
            os.close(process)
    return False


def _is_abandoned(pid: int, here: int) -> bool:
    """Whether it carries the mark of a dead process of our namespace."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as source:
            found = source.read(4096)
    except OSError:
        return False  # it has just ended, or belongs to another user
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
    """A process's start time in ticks since boot; empty if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as source:
            return source.read(4096).rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""
