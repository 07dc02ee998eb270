"""One question about labelled files, answered from the rows there were when it was asked and the files as they are."""

import os
import stat
from pathlib import Path

import msgspec

from coilclaw.packets.action import Label, untrusted
from coilclaw.packets.canonical import sha256_hex
from coilclaw.sandbox.files import read_existing
from coilclaw.store.labels import HELD, LabelRow

MOST_BYTES = 16 << 20
"""A larger file is told by its size and time alone."""
READ_BYTES = 128 << 20
"""How much is read for one question; what is left then counts as unchanged."""
MOST_ROWS = 20_000
"""More labels than this are not looked through: everything counts as untrusted."""
MOST_PATHS = 4000
"""More labelled files than this are not looked at for one question."""
MOST_ENTRIES = 20_000
"""More names than this below a folder are not looked through for links."""
TRIFLE = 4
"""A file of fewer bytes says nothing about where others like it came from."""

WORKSPACE: Label = untrusted("workspace")
"""The label of everything, when there is too much to tell."""

FOLDER, HOLD = "dir", "held"
_UNREAD = ""
_SYSTEM = ("/usr/", "/bin/", "/lib/", "/lib64/", "/etc/", "/dev/null", "/dev/zero")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a path held when it was looked at."""

    path: str
    content_hash: str
    size: int
    mtime_ns: int


class _TooMuch(Exception):
    """There is more to look at than one question may."""


def inside(workspace: Path, path: str) -> str | None:
    """The path below the workspace as it is spelled, empty for the workspace itself; None when it lies outside."""
    top = str(workspace)
    joined = os.path.normpath(os.path.join(top, path))  # noqa: PTH118 - text in, text out
    if joined == top:
        return ""
    return joined[len(top) + 1 :] if joined.startswith(top.rstrip("/") + "/") else None


def is_content(content_hash: str) -> bool:
    """Whether it is the hash of a file's bytes."""
    return len(content_hash) == 64


def _of_the_system(path: str) -> bool:
    """Whether an absolute path can only lead to the system's own files, and not by way of a process to any other."""
    return os.path.normpath(path).startswith(_SYSTEM)


class Reading:
    """Looks at files, within a budget of bytes."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self._left = READ_BYTES

    def see(self, path: str) -> Seen | None:
        """What a path below the workspace holds; None when nothing there can hold anything."""
        try:
            info = os.lstat(self.workspace / path)
            content = self._content(path, info)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):  # it is there and cannot be looked at: it counts until the owner says otherwise
            return Seen(path=path, content_hash=FOLDER, size=0, mtime_ns=0)
        if content is None:
            return None
        return Seen(path=path, content_hash=content, size=info.st_size, mtime_ns=info.st_mtime_ns)

    def _content(self, path: str, info: os.stat_result) -> str | None:
        if stat.S_ISDIR(info.st_mode):
            return FOLDER
        if stat.S_ISLNK(info.st_mode):
            target = os.readlink(self.workspace / path)  # noqa: PTH115 - as bytes of the system, not as a path
            return f"link:{sha256_hex(os.fsencode(target))}"
        if not stat.S_ISREG(info.st_mode):
            return None
        if info.st_size <= MOST_BYTES:
            if self._left < info.st_size:
                return _UNREAD
            self._left -= info.st_size
            data = read_existing(self.workspace, path, MOST_BYTES)
            if data is not None:
                return sha256_hex(data)
        return f"stat:{info.st_size}:{info.st_mtime_ns}"


class Question:
    """Which labels paths bear."""

    def __init__(self, workspace: Path, rows: list[LabelRow], *, most_paths: int = MOST_PATHS) -> None:
        self._workspace = workspace
        self._reading = Reading(workspace)
        self._left = most_paths
        self._too_many = len(rows) > MOST_ROWS
        self._paths: dict[str, list[LabelRow]] = {}
        self._contents: dict[str, set[Label]] = {}
        self._known: dict[str, frozenset[Label]] = {}
        for row in rows:
            self._paths.setdefault(row.path, []).append(row)
            if is_content(row.content_hash) and row.size >= TRIFLE:
                self._contents.setdefault(row.content_hash, set()).add(row.label)

    def of(self, paths: list[str]) -> tuple[Label, ...]:
        """The labels of all of these, sorted; a folder stands for everything below."""
        if self._too_many:
            return (WORKSPACE,)
        found = {row.label for path, rows in self._paths.items() if path.startswith(HELD) for row in rows}
        try:
            for path in paths:
                found |= self._named(path)
        except _TooMuch:
            return tuple(sorted(found | {WORKSPACE}))
        return tuple(sorted(found))

    def holds(self, row: LabelRow) -> bool:
        """Whether this label still counts for its own path."""
        if row.path.startswith(HELD):
            return True
        now = self._glance(row.path, row)
        return now is not None and (now.content_hash in (row.content_hash, _UNREAD) or row.content_hash == FOLDER)

    def _named(self, path: str) -> set[Label]:
        """The labels of a path as somebody wrote it: what it is called, and what it leads to."""
        try:
            real = os.path.realpath(os.path.join(self._workspace, path))  # noqa: PTH118 - text in, text out
            spelled, led = inside(self._workspace, path), inside(self._workspace, real)
            is_folder = os.path.isdir(real)  # noqa: PTH112 - text in, text out
        except (OSError, ValueError):
            return self._below("")
        if spelled is None and led is None:
            return set() if _of_the_system(path) and _of_the_system(real) else self._below("")
        if spelled is None or led is None:  # what leads in or out may lead elsewhere inside a box
            return self._below("")
        found: set[Label] = set()
        for place in {spelled, led}:
            found |= self._around(place) | self._labels(place)
            if is_folder:
                found |= self._below("" if place and self._has_links(place) else place)
        return found

    def _around(self, path: str) -> set[Label]:
        """The labels of the folders it lies in, as far as a folder was labelled itself."""
        parts = path.split("/") if path else []
        folders = {"/".join(parts[:count]) for count in range(len(parts) + 1)}
        rows = [row for folder in folders for row in self._paths.get(folder, ()) if row.content_hash == FOLDER]
        return {row.label for row in rows if self.holds(row)}

    def _below(self, folder: str) -> set[Label]:
        """The labels of everything below a folder that still stands."""
        start = f"{folder}/" if folder else ""
        found: set[Label] = set()
        for path in self._paths:
            if path.startswith(start) and not path.startswith(HELD):
                found |= self._labels(path)
        return found

    def _labels(self, path: str) -> frozenset[Label]:
        """The labels of what a path holds now, by its own rows and by those of anything that held the same."""
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._look_up(path)
        return known

    def _look_up(self, path: str) -> frozenset[Label]:
        rows = self._paths.get(path, [])
        if rows:
            self._left -= 1
            if self._left < 0:
                raise _TooMuch
        now = self._glance(path, *rows)
        if now is None:
            return frozenset()
        if now.content_hash == _UNREAD:
            raise _TooMuch
        own = {row.label for row in rows if row.content_hash in (now.content_hash, FOLDER)}
        alike = self._contents.get(now.content_hash, set()) if now.size >= TRIFLE else set[Label]()
        return frozenset(own | alike)

    def _glance(self, path: str, *rows: LabelRow) -> Seen | None:
        """What a path holds; its size and time are believed when a row knows them."""
        try:
            info = os.lstat(self._workspace / path)
        except (OSError, ValueError):
            return self._reading.see(path)
        alike = {row.content_hash for row in rows if (row.size, row.mtime_ns) == (info.st_size, info.st_mtime_ns)}
        content = next(iter(alike)) if len(alike) == 1 else ""
        if stat.S_ISREG(info.st_mode) and is_content(content):
            return Seen(path=path, content_hash=content, size=info.st_size, mtime_ns=info.st_mtime_ns)
        return self._reading.see(path)

    def _has_links(self, folder: str) -> bool:
        """Whether links lead out of a folder's own files, or there is too much in it to say."""
        folders, count = [self._workspace / folder], 0
        while folders:
            try:
                entries = list(os.scandir(folders.pop()))
            except OSError:
                continue  # what we cannot open, a command cannot either
            count += len(entries)
            if count > MOST_ENTRIES or any(entry.is_symlink() for entry in entries):
                return True
            folders += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        return False
