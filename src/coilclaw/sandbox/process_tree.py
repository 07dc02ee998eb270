# ruff: noqa: PTH208 - kernel paths and descriptors; pathlib adds nothing here
"""The descendants of a process. Standard library only: the launcher imports it."""

import os


def children(pid: int) -> list[int]:
    """The children of every thread of a process, eldest first; empty if it is gone. Some may end meanwhile."""
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
    """Children, their children, and so on; those that end meanwhile are omitted."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        here = children(waiting.pop())
        found += here
        waiting += here
    return found


def is_childless(pid: int) -> bool:
    """Whether a single-threaded process certainly has no child; unknown counts as no."""
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
