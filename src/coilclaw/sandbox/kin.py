# ruff: noqa: PTH208 - kernel paths and descriptors; pathlib adds nothing here
"""Who descends from a process. Standard library only: the launcher imports it."""

import os


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on; those that end meanwhile are left out."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        here = waiting.pop()
        try:
            for thread in os.listdir(f"/proc/{here}/task"):
                source = os.open(f"/proc/{here}/task/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
                children = [int(child) for child in os.read(source, 1 << 16).split()]
                os.close(source)
                found += children
                waiting += children
        except OSError:
            continue
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
