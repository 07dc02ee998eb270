"""Locks held by processes, not by clocks: a file lock is free the instant its holder dies."""

import fcntl
import os
from pathlib import Path
from types import TracebackType

from coilclaw.packets.errors import StorageError


def open_lock_file(path: Path) -> int:
    """A descriptor on a lock file, made if missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(
            f"the lock file {path} cannot be opened ({error.strerror}).",
            remedy="The home must be writable by you; check its owner, its mode and the free disk space.",
        ) from error


class HeldLock:
    """A lock a process holds for as long as it lives: whoever finds it free knows that its holder is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = open_lock_file(path)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Let go; the file goes too."""
        self.path.unlink(missing_ok=True)
        os.close(self._fd)


def holder_is_gone(path: Path) -> bool:
    """Whether nobody holds the lock of that name."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    path.unlink(missing_ok=True)
    return True


class FairLock:
    """A lock between processes that a busy one cannot keep to itself.

    Whoever wants it first takes the queue, then the lock, then gives the queue back. The holder who comes round again
    finds the queue taken by whoever waits, so it cannot overtake.
    """

    def __init__(self, path: Path) -> None:
        self._queue = open_lock_file(path.with_suffix(".queue"))
        self._lock = open_lock_file(path.with_suffix(".lock"))

    def __enter__(self) -> "FairLock":
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._queue)
        os.close(self._lock)
