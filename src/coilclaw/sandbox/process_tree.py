# ruff: noqa: PTH208 - kernel paths and descriptors; pathlib adds nothing here
"""Who descends from a process. Standard library only: the launcher imports it."""

import os


def children(pid: int) -> list[int]:
    """The children of every thread of a process, the eldest first; none where it is gone. Some may end meanwhile."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            source = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
            try:
                found += [int(child) for child in os.read(source, 1 << 16).split()]
            finally:
                os.close(source)
    except OSError:
        return found
    return found


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on; those that end meanwhile are left out."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        here = children(waiting.pop())
        found += here
        waiting += here
    return found


def is_childless(pid: int) -> bool:
    """Whether a process of one thread certainly has no child; a kernel that does not tell counts as no."""
    try:
        source = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(source, 1) == b""
    except OSError:
        return False
    finally:
        os.close(source)
