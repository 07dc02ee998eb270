"""Locks held by processes, not by clocks: a file lock is free the instant its holder dies."""

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from coilclaw.packets.errors import StorageError
from coilclaw.store.durable import full_disk, write_all

if TYPE_CHECKING:
    from coilclaw.store.holder import Holder

_MOST_NOTES = 1 << 16


def open_lock_file(path: Path) -> int:
    """A descriptor of a lock file, created if missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(
            f"the lock file {path} cannot be opened ({error.strerror}).",
            remedy="The home must be writable by you; check its owner, its mode and the free disk space.",
        ) from error


class HeldLock:
    """A lock that a process holds for as long as it lives: if it is free, its holder is gone.

    The holder records in the file what it is about to do. A note survives the process, not the
    machine: it is not synced, and counts only until the next reboot (`notes_of`).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = _held(path)
        self._open: set[str] = set()
        self._size = self._write(_boot())

    def note(self, word: str) -> None:
        """Record something before it is done; finished notes may be dropped from the file."""
        if not self._open and self._size > _MOST_NOTES:
            self._size = len(_boot())
            os.ftruncate(self._fd, self._size)
            os.lseek(self._fd, self._size, os.SEEK_SET)
        self._open.add(word)
        self._size += self._write(word.encode() + b"\n")

    def _write(self, data: bytes) -> int:
        try:
            write_all(self._fd, data)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise full_disk(self.path) from error
            raise StorageError(
                f"the lock file {self.path} cannot be written ({error.strerror}).",
                remedy="Check the owner and mode of the home and its files.",
            ) from error
        return len(data)

    def done(self, word: str) -> None:
        """The outcome of a note is recorded elsewhere."""
        self._open.discard(word)

    def close(self) -> None:
        """Release the lock and remove the file."""
        self.path.unlink(missing_ok=True)
        os.close(self._fd)


def _held(path: Path) -> int:
    """A descriptor that holds the lock of the file that currently has this name."""
    while True:
        fd = open_lock_file(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # its name is new: only a sweeper can hold it, for a moment
            if _is_at(fd, path):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    """Whether the open file still has that name."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _boot() -> bytes:
    """Identifies the current boot; empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return b"\n"


def notes_of(path: Path) -> frozenset[str] | None:
    """The unfinished notes of a dead holder; None if that cannot be known."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    boot, *notes = data.split(b"\n")
    if not boot or boot + b"\n" != _boot():
        return None
    return frozenset(note.decode(errors="replace") for note in notes)


def holder_is_gone(path: Path) -> bool:
    """Whether nobody holds the lock of that name."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(
            fd, fcntl.LOCK_SH | fcntl.LOCK_NB
        )  # shared, so that callers do not mistake each other for the holder
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def sweep_locks(folder: Path, keep: Container[str]) -> int:
    """Remove the lock files of dead holders, except those whose notes are still needed."""
    removed = 0
    for path in folder.glob("*_*.lock"):  # a holder's name consists of a kind and an id; no other lock has such a name
        if path.stem not in keep:
            with suppress(OSError):
                removed += _removed(path)
    return removed


def _removed(path: Path) -> bool:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(fd, path):
            return False
        path.unlink()  # while we hold it: a process that opened it meanwhile sees that it is gone, and creates another
        return True
    finally:
        os.close(fd)


@contextmanager
def present(path: Path) -> Iterator[None]:
    """Be registered there until this ends or the process dies. Any number can be, each in its own slot."""
    descriptor = _take_place(path)
    try:
        yield
    finally:
        os.close(descriptor)


def somebody_is_present(path: Path) -> bool:
    """Whether any process is registered there. Concurrent callers of this do not count."""
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
    """The first free slot. One that is being checked right now is skipped; slots are unlimited."""
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


SAY_SECONDS = 3.0
GIVE_UP_SECONDS = 30.0
_LOOK_SECONDS = 0.25


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for a lock that others hold."""

    say: float = SAY_SECONDS
    """After this many seconds the holder is reported."""
    give_up: float = GIVE_UP_SECONDS
    """After this many the write fails: a stopped process may hold a lock for ever."""


class Wait:
    """One wait: reports the holder once, and finally gives up. `tell` gets "" when the wait is over."""

    def __init__(
        self, what: str, patience: Patience, who: "Callable[[], Holder | None]", tell: Callable[[str], None]
    ) -> None:
        self._what = what
        self._patience = patience
        self._who = who
        self._tell = tell
        self._begun = monotonic()
        self._told = False

    def __enter__(self) -> "Wait":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._told and error is None:
            self._tell("")

    def go_on(self, *, tired: bool = False) -> None:
        """Call periodically; raises StorageError after the timeout."""
        waited = monotonic() - self._begun
        if waited >= self._patience.give_up or (tired and waited >= min(2 * _LOOK_SECONDS, self._patience.give_up)):
            raise held_error(self._what, self._who())
        if waited >= self._patience.say and not self._told:
            self._told = True
            holder = self._who()
            self._tell(f"Waiting: {held_error(self._what, holder)}")


def held_error(what: str, holder: "Holder | None") -> StorageError:
    """Says who holds it and what to do, if that can be determined."""
    if holder is None:
        return StorageError(f"{what} is held by another program.", remedy="Close it, then retry.")
    return StorageError(f"{what} is held by {holder}.", remedy=holder.remedy)


def _tell_nobody(_: str) -> None:
    """Discards the message."""


class FairLock:
    """A fair lock between processes, which a busy one cannot monopolise.

    To take it, a process takes the queue, then the lock, then releases the queue. A holder that wants it again
    finds the queue taken by the next one waiting, so it cannot overtake.

    A thread that waits in the kernel cannot be interrupted, so if the lock is not free a helper thread waits.
    On a timeout the helper stays in line; if it gets the lock after all, it releases it at once.
    """

    def __init__(
        self,
        path: Path,
        *,
        what: str = "",
        patience: Patience | None = None,
        who: "Callable[[], Holder | None] | None" = None,
        tell: Callable[[str], None] = _tell_nobody,
    ) -> None:
        self._path = path.with_suffix(".lock")
        self._queue = open_lock_file(path.with_suffix(".queue"))
        self._lock = open_lock_file(self._path)
        self._what = what or str(self._path)
        self._patience = patience or Patience()
        self._who = who or self._whoever
        self._tell = tell
        self._turn = threading.Condition()
        self._in_line = False
        """Whether our helper thread is waiting."""
        self._wanted = False
        self._granted = False
        self._closed = False

    def __enter__(self) -> "FairLock":
        if self._in_line or not self._take_free():
            self._take_turn()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the descriptors."""
        with self._turn:
            self._closed = True
            if not self._in_line:  # otherwise the thread does it: the descriptor numbers must not be reused meanwhile
                self._give_back()

    def _give_back(self) -> None:
        os.close(self._queue)
        os.close(self._lock)

    def _take_free(self) -> bool:
        """Take it if it is free and nobody waits."""
        try:
            fcntl.flock(self._queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)
        return True

    def _take_turn(self) -> None:
        with self._turn, Wait(self._what, self._patience, self._who, self._tell) as wait:
            tired = self._in_line  # we gave up on its holder, and it has not been released since
            self._wanted = True
            if not self._in_line:
                self._in_line = True
                threading.Thread(target=self._stand_in_line, name="lock", daemon=True).start()
            try:
                while not self._turn.wait_for(lambda: self._granted, _look(self._patience)):
                    wait.go_on(tired=tired)
            finally:
                self._wanted = self._granted = False

    def _stand_in_line(self) -> None:
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)
        with self._turn:
            self._in_line = False
            if self._closed:
                self._give_back()
            elif self._wanted:
                self._granted = True
                self._turn.notify_all()
            else:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _whoever(self) -> "Holder | None":
        from coilclaw.store.holder import file_holder

        return file_holder(self._path)


def _look(patience: Patience) -> float:
    return min(_LOOK_SECONDS, patience.say or _LOOK_SECONDS, patience.give_up)
