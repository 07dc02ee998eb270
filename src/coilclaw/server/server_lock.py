"""One server per home: a lock, with the server's address in the lock file."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coilclaw.packets.errors import UsageError
from coilclaw.store.lock import open_lock_file

_NAME = "up.lock"
_LONGEST = 1000


@contextmanager
def hold_server_lock(locks: Path) -> Iterator[Callable[[str], None]]:
    """Hold this home's server lock; yields a function that records the address. The lock ends with the process."""
    fd = open_lock_file(locks / _NAME)
    try:
        if not _take_soon(fd):
            raise UsageError(
                "`coilclaw up` is already running on this home.",
                remedy="Use that one, or stop it first. `coilclaw pair` shows a code for it.",
            )
        os.ftruncate(fd, 0)
        yield lambda address: _write(fd, address)
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _take_soon(fd: int) -> bool:
    """A process that only checks holds it for an instant; a server, for as long as it lives."""
    for _ in range(10):
        if _take(fd):
            return True
        time.sleep(0.03)
    return False


def _take(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _write(fd: int, address: str) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, address.encode(), 0)


def running_address(locks: Path) -> str | None:
    """The address of a home's running server, or None."""
    try:
        fd = os.open(locks / _NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _take(fd):
            return None
        return os.pread(fd, _LONGEST, 0).decode("utf-8", "replace") or None
    finally:
        os.close(fd)
