"""Exports audit rows: appended to audit/YYYY/MM/DD.jsonl in the workspace, in order, each once.

No link is followed: every folder is opened from its parent, and a file must be regular with a single name. A row
that is already in its file is not written again, so an interrupted export can simply be repeated.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from heapq import merge
from pathlib import Path

import msgspec

from coilclaw.ledger.audit import audit_event
from coilclaw.packets.canonical import Json, NotCanonical, canonical_bytes
from coilclaw.packets.errors import StorageError
from coilclaw.store.durable import write_all

Row = tuple[int, str, str, str, str, str]
Reached = Callable[[str], None]
"""Called at every boundary; does nothing, except in crash tests."""

BUFFER = 1 << 18
CHUNK = 1 << 16
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class _Line(msgspec.Struct, frozen=True):
    """The part of an exported line that identifies its row."""

    seq: int
    entry_id: str


_LINE = msgspec.json.Decoder(_Line)


def export_line(row: Row, redact: Callable[[Json], Json]) -> bytes:
    """A row as one line of canonical JSON, without secrets."""
    event = audit_event(row)
    fields: dict[str, Json] = {
        "seq": event.seq,
        "entry_id": event.entry_id,
        "event_type": event.event_type,
        "entity_id": redact(event.entity_id),
        "payload": redact(event.payload),
        "created_at": event.created_at,
    }
    try:
        return canonical_bytes(fields) + b"\n"
    except NotCanonical:  # a payload without a canonical form is kept as text
        return canonical_bytes({**fields, "payload": redact(row[4])}) + b"\n"


class AuditExport:
    """Writes audit rows, given in order, to the files of their days. Durable once `close` has returned."""

    def __init__(self, workspace: Path, redact: Callable[[Json], Json], reached: Reached) -> None:
        self._workspace = workspace
        self._redact = redact
        self._reached = reached
        self._day: _DayFile | None = None
        self.files: dict[str, None] = {}
        """Every file that was opened, relative to the workspace."""

    def add(self, row: Row) -> None:
        """Write the next row."""
        day = row[5][:10]
        if not _DAY.fullmatch(day):
            raise StorageError(f"audit event {row[0]} has no date.", remedy="Nothing was deleted; please report this.")
        if self._day is None or self._day.day != day:
            self.close()
            self._day = _DayFile(self._workspace, day, self._reached)
            self.files[self._day.name] = None
        self._day.add(row[0], row[1], export_line(row, self._redact))

    def close(self) -> None:
        """Make the written rows durable."""
        if self._day is not None:
            day, self._day = self._day, None
            try:
                day.finish()
            finally:
                day.close()

    def give_up(self) -> None:
        """Close the file without finishing it."""
        if self._day is not None:
            self._day.close()
            self._day = None


class _DayFile:
    """One day's file, open for the rows of that day."""

    def __init__(self, workspace: Path, day: str, reached: Reached) -> None:
        self.day = day
        self.name = f"audit/{day.replace('-', '/')}.jsonl"
        self._reached = reached
        self._folder = -1
        self._fd = -1
        self._buffer = bytearray()
        self._late: list[tuple[int, bytes]] = []
        try:
            self._open(workspace)
            self._end = self._repair()
            self._last = self._last_number()
        except OSError as error:
            self.close()
            raise _explained(error, self.name) from error
        except BaseException:
            self.close()
            raise
        self._present = self._lines()
        self._next: _Line | None = next(self._present, None)

    def _open(self, workspace: Path) -> None:
        *folders, file = self.name.split("/")
        self._folder = os.open(workspace, _FOLDER)
        for name in folders:
            below = _open_folder(self._folder, name)
            os.close(self._folder)
            self._folder = below
        self._fd = os.open(file, _FILE, 0o600, dir_fd=self._folder)
        os.fsync(self._folder)
        info = os.fstat(self._fd)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
            raise StorageError(
                f"{self.name} in the workspace is not a regular file; nothing was deleted.",
                remedy="Move it aside, then prune again.",
            )

    def _repair(self) -> int:
        """Truncate the file to complete lines: an interrupted write is still in the database."""
        end = os.fstat(self._fd).st_size
        tail = self._tail(end)
        if not tail or tail.endswith(b"\n"):
            return end
        torn = tail.rpartition(b"\n")[2]
        if _line_or_none(torn) is not None:  # complete, only its line break is missing
            self._write(b"\n")
            return end + 1
        os.ftruncate(self._fd, end - len(torn))
        return end - len(torn)

    def _tail(self, end: int) -> bytes:
        """The end of the file, with at least one complete line."""
        tail, start = b"", end
        while start and tail.count(b"\n") < 2:
            size = min(CHUNK, start)
            start -= size
            tail = os.pread(self._fd, size, start) + tail
        return tail

    def _last_number(self) -> int:
        tail = self._tail(self._end)
        return self._parsed(tail[:-1].rpartition(b"\n")[2]).seq if tail else 0

    def _parsed(self, line: bytes) -> _Line:
        found = _line_or_none(line)
        if found is None:
            raise StorageError(
                f"{self.name} in the workspace contains a line that is not an audit event; nothing was deleted.",
                remedy="Move the file aside, then prune again.",
            )
        return found

    def _raw_lines(self) -> Iterator[bytes]:
        """The lines in the file when it was opened."""
        place, rest = 0, b""
        while place < self._end:
            data = os.pread(self._fd, min(CHUNK, self._end - place), place)
            if not data:
                return
            place += len(data)
            *whole, rest = (rest + data).split(b"\n")
            yield from whole

    def _lines(self) -> Iterator[_Line]:
        return (self._parsed(line) for line in self._raw_lines())

    def add(self, seq: int, entry_id: str, line: bytes) -> None:
        """Write a row unless it is already there; one that belongs before others is inserted when closing."""
        if seq > self._last:
            self._buffer += line
            if len(self._buffer) >= BUFFER:
                self._flush()
        elif not self._holds(seq, entry_id):
            self._late.append((seq, line))

    def _holds(self, seq: int, entry_id: str) -> bool:
        """Rows and lines are both in order, so one pass over the file is enough."""
        while self._next is not None and self._next.seq < seq:
            self._next = next(self._present, None)
        while self._next is not None and self._next.seq == seq:
            same = self._next.entry_id == entry_id
            self._next = next(self._present, None)
            if same:
                return True
        return False

    def _flush(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        try:
            self._write(data)
        except OSError as error:
            raise _explained(error, self.name) from error
        self._reached("appended")

    def _write(self, data: bytes) -> None:
        start = os.fstat(self._fd).st_size
        try:
            write_all(self._fd, data)
        except OSError:
            os.ftruncate(self._fd, start)  # never leave half a line
            raise

    def finish(self) -> None:
        """Make everything that was added durable."""
        self._flush()
        try:
            os.fsync(self._fd)
            if self._late:
                self._put_in_late_ones()
        except OSError as error:
            raise _explained(error, self.name) from error
        self._reached("exported")

    def _put_in_late_ones(self) -> None:
        """Rewrite the file with the late rows in order, and replace the old one."""
        file = self.name.rpartition("/")[2]
        aside = f".{file}.new"
        self._end = os.fstat(self._fd).st_size
        there = ((self._parsed(line).seq, line + b"\n") for line in self._raw_lines())
        with suppress(FileNotFoundError):  # left by an earlier attempt that died
            os.unlink(aside, dir_fd=self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(aside, flags, 0o600, dir_fd=self._folder)
        try:
            with os.fdopen(fd, "wb") as new:
                new.writelines(line for _, line in merge(there, self._late, key=lambda pair: pair[0]))
                new.flush()
                os.fsync(fd)
            self._reached("rewritten")
            os.rename(aside, file, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            os.unlink(aside, dir_fd=self._folder)
            raise
        os.fsync(self._folder)

    def close(self) -> None:
        """Close the descriptors."""
        for fd in (self._fd, self._folder):
            if fd >= 0:
                os.close(fd)
        self._fd = self._folder = -1


def _line_or_none(line: bytes) -> _Line | None:
    try:
        return _LINE.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _open_folder(parent: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        os.mkdir(name, 0o700, dir_fd=parent)
        os.fsync(parent)
        return os.open(name, _FOLDER, dir_fd=parent)


def _explained(error: OSError, name: str) -> StorageError:
    """One sentence for a system error. In any case nothing is deleted that is not safe in its file."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageError(
            f"the disk is full: audit events could not be exported to {name}, so nothing was deleted.",
            remedy="Free some space, then prune again.",
        )
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return StorageError(
            f"a part of {name} in the workspace is a link or not a folder; it is not followed, and nothing was"
            " deleted.",
            remedy="Move it aside, then prune again.",
        )
    return StorageError(
        f"audit events could not be exported to {name} ({error.strerror}), so nothing was deleted.",
        remedy="Check the workspace's audit folder, then prune again.",
    )
