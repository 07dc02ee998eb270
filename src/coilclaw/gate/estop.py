"""ESTOP: a file that stops every effect. What cannot be read counts as stopped."""

import asyncio
import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.ids import Clock
from coilclaw.packets.text import one_line
from coilclaw.store.durable import sync_folder
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx
from coilclaw.store.yolo import set_yolo, yolo_until

POLL_SECONDS = 0.1
LONGEST_REASON = 400
_READ = 4096
_LARGEST = 1 << 16
_KNOWN = "estop"
"""The key of the last state that was recorded in the audit log."""


class EstopState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether everything is stopped, since when and why."""

    engaged: bool
    since: str | None = None
    """When it was engaged; null when it is not, or when the file does not say."""
    reason: str = ""
    """The reason given when it was engaged."""


class Estop:
    """The emergency stop."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._aside = file.with_name(f"{file.name}.cleared")
        """Where a stop lies while it is being cleared: it holds until that is done, and if that never is."""
        self.names = (str(file), str(self._aside), str(file))
        """Where a stop may lie, in the order it is looked for: it may be moved back meanwhile."""

    def engaged(self) -> bool:
        """Whether everything must stop. Only a clear 'no such file' means no."""
        for name in self.names:
            try:
                os.lstat(name)
            except FileNotFoundError:
                continue
            except OSError:
                return True
            return True
        return False

    def state(self) -> EstopState:
        """The state with what the file says about it; the file's first line is the one that stopped everything."""
        if not self.engaged():
            return EstopState(engaged=False)
        when, _, reason = self._first_line().partition(" ")
        if not _is_stamp(when):
            return EstopState(engaged=True)
        return EstopState(engaged=True, since=when, reason=one_line(reason)[:LONGEST_REASON])

    def _first_line(self) -> str:
        try:
            descriptor = os.open(self.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                data = os.read(descriptor, _READ)
            finally:
                os.close(descriptor)
        except OSError:
            return ""
        return data.decode("utf-8", "replace").partition("\n")[0]

    def engage(self, reason: str, when: str) -> None:
        """Stop everything; doing it twice is fine."""
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.file.touch(mode=0o600)  # that it exists is what stops everything
        with suppress(OSError), self.file.open("a", encoding="utf-8", errors="replace") as file:
            if file.tell() < _LARGEST:  # pressing it again and again must not fill the disk
                file.write(f"{when} {reason}\n")
                file.flush()
                os.fsync(file.fileno())
        with suppress(OSError):  # it holds from now on; that it holds after a power cut is more than a bad disk can do
            sync_folder(self.file.parent)

    def mark(self) -> str:
        """Identifies this stop; a later one has another id. Empty if nothing is stopped."""
        return _mark(self.file) or _mark(self._aside)

    def clear(self, mark: str = "") -> bool:
        """Let things go on; False when there was nothing to clear, or it is no longer the stop of that mark."""
        try:
            if stat.S_ISDIR(os.lstat(self.file).st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self.file.rename(self._aside)
        except FileNotFoundError:
            if not _is_there(self._aside):
                return False  # otherwise an earlier clearing was interrupted
        if mark and _mark(self._aside) != mark:
            with suppress(FileExistsError, FileNotFoundError):  # pressed again, or cleared by others, in this moment
                os.link(self._aside, self.file)
            self._aside.unlink(missing_ok=True)
            return False
        self._aside.unlink(missing_ok=True)
        return True

    async def wait(self) -> None:
        """Return when ESTOP is engaged."""
        while not self.engaged():
            await asyncio.sleep(POLL_SECONDS)


def _is_there(file: Path) -> bool:
    try:
        os.lstat(file)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _mark(file: Path) -> str:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError:
        return "unreadable"
    try:
        seen = os.fstat(descriptor)
        data = os.read(descriptor, _LARGEST * 2)
    finally:
        os.close(descriptor)
    return sha256_hex(b"%d %d %d " % (seen.st_ino, seen.st_mtime_ns, seen.st_size) + data)


def _is_stamp(text: str) -> bool:
    return len(text) <= 32 and text[:4].isdigit() and "T" in text and text.isascii() and text.isprintable()


def known_estop(db: Tx) -> bool:
    """The last state in the audit: whether ESTOP is engaged."""
    return read_meta(db, _KNOWN) == "engaged"


def note_estop(tx: Tx, clock: Clock, *, engaged: bool, by: str = "", reason: str = "") -> bool:
    """Tell the audit of a change, once, whichever process notices it first; False when it was told already.

    The file alone decides and is set without the database, so that it works in a broken home; this only tells of it.
    Whoever clears a stop tells of it first, so no stop is cleared without ending what merges pull requests unasked.
    """
    if engaged and yolo_until(tx) is not None:
        set_yolo(tx, None)
    if known_estop(tx) == engaged:
        return False
    write_meta(tx, _KNOWN, "engaged" if engaged else "cleared")
    told: dict[str, Json] = {name: word for name, word in (("by", by), ("reason", reason)) if word}
    add_event(tx, clock, "estop_engaged" if engaged else "estop_cleared", "estop", told)
    return True
