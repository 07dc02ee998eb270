"""Reads the workspace's files into entries and stores their contents, without following any link."""

import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.blob_store import Adding
from coilclaw.sandbox.manifests import LINK, Entry
from coilclaw.sandbox.scan import MOST_FILES, Found, is_text, open_folder, scan, why_not_kept

_NOTED_SECONDS = 2.0
_RACY_NS = 50_000_000
"""A file changed this recently may change again without a new timestamp."""
_NAMED = 5


def never() -> bool:
    """Never stopped."""
    return False


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a snapshot."""

    files: int = MOST_FILES
    file_bytes: int = 256 << 20
    """Larger files are not stored."""
    workspace_bytes: int = 2 << 30
    """A larger workspace is not stored."""
    seconds: float = 60.0
    """A longer snapshot is not finished; the next one continues from there."""


LIMITS = Limits()


class Reading:
    """One pass over the whole workspace that stores whatever is new."""

    def __init__(
        self,
        workspace: Path,
        limits: Limits,
        adding: Adding,
        known: dict[str, Entry],
        stopped: Callable[[], bool],
        note: Callable[[dict[str, Entry]], None],
    ) -> None:
        self._workspace = workspace
        self._limits = limits
        self._adding = adding
        self._known = known
        self._stopped = stopped
        self._note = note
        """Called periodically with what is stored so far; it may raise if space runs out."""
        self._until = time.monotonic() + limits.seconds
        self._noted = time.monotonic() + _NOTED_SECONDS
        self.files: dict[str, Entry] = {}
        self.folders: list[str] = []
        self.not_kept: dict[str, str] = {}
        self._new: dict[str, Entry] = {}
        self._bytes = 0

    def read(self) -> None:
        """Walk everything."""
        for count, each in enumerate(scan(self._workspace, self._limits.files)):
            if count % 256 == 0:
                self._check()
            if each.is_folder:
                if is_text(each.path):
                    self.folders.append(each.path)
                continue
            why = why_not_kept(each.path, each.info, self._limits.file_bytes)
            if why:
                self.not_kept[each.path] = why
            if why != "":
                continue
            try:
                entry = self._entry(each)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
                    raise
                self.not_kept[each.path] = why_of(error)
                continue
            if entry is not None:
                self.files[each.path] = entry
                self._weigh(entry)
        self.folders.sort()

    def dirty(self, known: dict[str, Entry]) -> set[str]:
        """Names whose entry changed."""
        changed = {path for path, entry in self.files.items() if known.get(path) is not entry}
        return changed | (known.keys() - self.files.keys())

    def _entry(self, each: Found) -> Entry | None:
        known = self._known.get(each.path)
        same = known is not None and known.looks_like(each.info) and known.mode == stat.S_IMODE(each.info.st_mode)
        if known is not None and same and self._seems_kept(known):
            return known
        self._check()
        entry = kept_entry(each.folder, each.name, each.info, self._adding, self._limits.file_bytes)
        if entry is not None:
            self._new[each.path] = entry
        return entry

    def _seems_kept(self, entry: Entry) -> bool:
        return entry.content.startswith(LINK) or self._adding.contents.seems_there(entry.content)

    def _weigh(self, entry: Entry) -> None:
        self._bytes += entry.size
        most = self._limits.workspace_bytes
        if self._bytes > most:
            raise ToolError(f"the workspace is larger than {most >> 20:,} MB.", code="NOT_KEPT", begun=False)

    def _check(self) -> None:
        """Check limits; periodically record what is stored so far."""
        now = time.monotonic()
        late = now > self._until
        stopped = self._stopped()
        if late or stopped or now > self._noted:
            self._noted = now + _NOTED_SECONDS
            if self._new:
                self._adding.flush()
            self._note({**self._known, **self._new} if self._new else {})
        if stopped:
            raise ToolError("the snapshot was stopped.", code="STOPPED", begun=False)
        if late:
            raise ToolError(
                f"the snapshot is not complete yet: {len(self.files):,} files are stored, and the next attempt"
                " continues from there.",
                code="NOT_KEPT",
                begun=False,
            )


def kept_entry(folder: int, name: str, info: os.stat_result, adding: Adding, most: int) -> Entry | None:
    """The entry of a file or link in an open folder, with its content stored; None for anything else."""
    facts = (stat.S_IMODE(info.st_mode), info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
    if time.time_ns() - info.st_ctime_ns < _RACY_NS:
        facts = (*facts[:2], 0, *facts[3:])
    if stat.S_ISLNK(info.st_mode):
        target = os.readlink(name, dir_fd=folder)
        if not is_text(target):
            raise OSError("it points to a name that is not UTF-8")
        return Entry(f"{LINK}{target}", *facts)
    if not stat.S_ISREG(info.st_mode):
        return None
    if info.st_size > most:
        raise OSError(f"it is larger than {most >> 20} MB")
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        return Entry(adding.add_file(fd), *facts) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


def content_at(workspace: Path, path: str) -> str | None:
    """The entry of a file, without storing its content; None if it cannot be read, or only through a link."""
    folder, _, name = path.rpartition("/")
    try:
        top = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            here = open_folder(top, folder)
        finally:
            os.close(top)
        try:
            return content_of(here, name, os.stat(name, dir_fd=here, follow_symlinks=False))
        finally:
            os.close(here)
    except OSError:
        return None


def content_of(folder: int, name: str, info: os.stat_result) -> str | None:
    """The entry of the file, without storing its content; None if it cannot be read."""
    import hashlib

    try:
        if stat.S_ISLNK(info.st_mode):
            return f"{LINK}{os.readlink(name, dir_fd=folder)}"
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(fd, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def why_of(error: OSError | ValueError) -> str:
    known = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk is full", errno.EACCES: "it cannot be read"}
    number = error.errno if isinstance(error, OSError) else None
    return known.get(number or 0, getattr(error, "strerror", None) or str(error))


def told(failed: dict[str, str]) -> str:
    """Which files cannot be stored, and why; the first few by name."""
    named = [f"{path} ({why})" for path, why in list(failed.items())[:_NAMED]]
    more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    return f"{', '.join(named)}{more} cannot be kept."
