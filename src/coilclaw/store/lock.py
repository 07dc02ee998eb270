"""Locks held by processes, not by clocks: a file lock is free the instant its holder dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
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
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: those who ask do not take each other for the holder
    except OSError:
        return False
    finally:
        os.close(fd)
    path.unlink(missing_ok=True)
    return True


@contextmanager
def present(path: Path) -> Iterator[None]:
    """Be seen there for as long as this lasts, or until the process dies. Any number may be, each in its own place."""
    descriptor = _take_place(path)
    try:
        yield
    finally:
        os.close(descriptor)


def somebody_is_present(path: Path) -> bool:
    """Whether anybody is seen there. Those who ask are not, however many ask at once."""
    for number in count():
        try:
            descriptor = os.open(_place(path, number), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


def _take_place(path: Path) -> int:
    """The first place nobody holds. One that somebody asks about right now is passed over; places have no end."""
    for number in count():
        descriptor = open_lock_file(_place(path, number))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            return descriptor
    raise AssertionError


def _place(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.{number}{path.suffix}") if number else path


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
