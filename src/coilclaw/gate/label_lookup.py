"""Label lookup: which labels some paths carry, from the rows at the time of asking and the files as they are now.

What a file holds may have moved: to another name, by the owner, git or an editor. A path that is asked for by itself is
told by its content. For a folder the labelled paths below it are tried first; while any source is not accounted for,
everything below is looked through for contents of that source: by size first, and only what has a labelled size is
read. What is more than the limits allow counts as untrusted as a whole.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from coilclaw.packets.action import Label, untrusted
from coilclaw.packets.canonical import sha256_hex
from coilclaw.sandbox.files import read_existing
from coilclaw.store.labels import (
    HELD,
    LabelRow,
    all_labels,
    held_labels,
    labelled_contents,
    newest_labelled,
    path_rows,
    rows_of_size,
)
from coilclaw.store.tx import Tx

MOST_BYTES = 16 << 20
"""A larger file is identified by size and time alone."""
TRIFLE = 4
"""A file of fewer bytes says nothing about where others like it came from."""
UNREAD_SIZE = 4096
"""Files that could not be read are known again elsewhere by their size, from this size on."""

WORKSPACE: Label = untrusted("workspace")
"""The label of everything, when there is too much to look through."""

FOLDER, NAME, UNREAD, HOLD = "dir", "name", "unread", "held"
"""A folder with all in it, a name alone, a file there was no time to read, the workspace held by an action."""
CLOSED = "closed"
"""Content that exists but cannot be read."""
_SYSTEM = ("/usr/", "/bin/", "/lib/", "/lib64/", "/etc/", "/dev/null", "/dev/zero")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on how much one lookup may examine."""

    rows: int = 200_000
    """Labels looked through; those of one path are found whatever their number."""
    tries: int = 500
    """Labelled paths tried before everything is looked through."""
    entries: int = 100_000
    """Names looked through."""
    files: int = 20_000
    """Files read because one of their size is labelled."""
    bytes: int = 128 << 20
    """Read altogether."""


LIMITS = Limits()


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a path held when it was looked at."""

    path: str
    content_hash: str
    size: int
    mtime_ns: int


class TooMuch(Exception):
    """There is more to examine than one lookup may."""


def inside(workspace: Path, path: str) -> str | None:
    """The path below the workspace as it is spelled, empty for the workspace itself; None when it lies outside."""
    top = str(workspace)
    joined = os.path.normpath(os.path.join(top, path))  # noqa: PTH118 - text in, text out
    if joined == top:
        return ""
    return joined[len(top) + 1 :] if joined.startswith(top.rstrip("/") + "/") else None


def is_text(path: str) -> bool:
    """Whether a row can name it; a name that is no UTF-8 is labelled by its folder."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def sign_of(content_hash: str, size: int) -> str:
    """What others that hold the same are known by; empty when it says nothing about any others."""
    if len(content_hash) == 64 or content_hash.startswith("link:"):
        return content_hash if size >= TRIFLE else ""
    if content_hash == UNREAD or content_hash.startswith("stat:"):
        return f"size:{size}" if size >= UNREAD_SIZE else ""
    return ""


def signs_of(seen: Seen) -> set[str]:
    """Every sign that what was looked at is known by."""
    by_size = {f"size:{seen.size}"} if len(seen.content_hash) == 64 else set[str]()
    return ({sign_of(seen.content_hash, seen.size)} | by_size) - {""}


def _of_the_system(path: str) -> bool:
    """Whether an absolute path can only lead to the system's own files, and not through a process to any other."""
    return os.path.normpath(path).startswith(_SYSTEM)


class Reading:
    """Reads files within a budget of bytes; a result is cached while nothing about the file changes."""

    def __init__(self, workspace: Path, most: int = LIMITS.bytes) -> None:
        self.workspace = workspace
        self._left = most
        self._hashes: dict[tuple[int, int, int, int, int], str] = {}

    def see(self, path: str) -> Seen | None:
        """What a path below the workspace holds; None when nothing there can hold anything."""
        try:
            info = os.lstat(f"{self.workspace}/{path}")
            content = self._content(path, info)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):
            return Seen(path=path, content_hash=CLOSED, size=0, mtime_ns=0)
        if content is None:
            return None
        return Seen(path=path, content_hash=content, size=info.st_size, mtime_ns=info.st_mtime_ns)

    def _content(self, path: str, info: os.stat_result) -> str | None:
        if stat.S_ISDIR(info.st_mode):
            return FOLDER
        if stat.S_ISLNK(info.st_mode):
            target = os.readlink(f"{self.workspace}/{path}")  # noqa: PTH115 - as bytes of the system, not as a path
            return f"link:{sha256_hex(os.fsencode(target))}"
        if not stat.S_ISREG(info.st_mode):
            return None
        if info.st_size <= MOST_BYTES:
            key = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
            if key in self._hashes:
                return self._hashes[key]
            if self._left < info.st_size:
                return UNREAD
            self._left -= info.st_size
            data = self._read(path, info)
            if data is not None:
                content = self._hashes[key] = sha256_hex(data)
                return content
        return f"stat:{info.st_size}:{info.st_mtime_ns}"

    def _read(self, path: str, info: os.stat_result) -> bytes | None:
        """The file that was looked at; when another stands there now, whatever the careful way finds."""
        try:
            fd = os.open(f"{self.workspace}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with open(fd, "rb", buffering=0) as file:  # noqa: PTH123 - it is open already
            now = os.fstat(fd)
            if (now.st_dev, now.st_ino, now.st_size) == (info.st_dev, info.st_ino, info.st_size):
                data = file.read(info.st_size + 1)
                if len(data) == info.st_size:
                    return data
        return read_existing(self.workspace, path, MOST_BYTES)


class Question:
    """Which labels paths carry."""

    def __init__(self, workspace: Path, db: Tx, limits: Limits = LIMITS, *, root: str, besides: str = "") -> None:
        self._workspace = workspace
        self._db = db
        self._root = root
        """The root whose rows are used, and no others."""
        self._besides = besides
        """A folder whose name is asked for, and nothing in it."""
        self._limits = limits
        self._reading = Reading(workspace, limits.bytes)
        self._entries_left, self._files_left = limits.entries, limits.files
        self._found: set[Label] = set()
        self._all: set[Label] | None = None
        self._known: dict[tuple[str, bool], frozenset[Label]] = {}
        self._signs: dict[str, set[Label]] | None = None
        """Sign to labels, once everything is looked through."""
        self._sizes: set[int] = set()
        self._alone: set[str] = set()
        """Paths with labels that count nowhere else."""

    def of(self, paths: list[str]) -> tuple[Label, ...]:
        """The labels of all of these, sorted; a folder stands for everything below."""
        # Holds come first: what is held now may at any moment be marked and released.
        self._found = held_labels(self._db, self._root)
        try:
            for path in paths:
                self._named(path)
        except TooMuch:
            self._found.add(WORKSPACE)
        return tuple(sorted(self._found))

    def holds(self, row: LabelRow) -> bool:
        """Whether this label still counts for its own path."""
        if row.path.startswith(HELD):
            return True
        now = self._glance(row.path, [row])
        return now is not None and _counts(row, now, names=True)

    def bearing(self, folder: str) -> dict[str, str]:
        """Every labelled content found below a folder: its sign, and a path that bears it; as far as the limits go."""
        found: dict[str, str] = {}
        try:
            self._load()
            for path, _ in self._candidates(folder):
                now = self._reading.see(path)
                for sign in signs_of(now) if now is not None else ():
                    if sign in (self._signs or {}):
                        found.setdefault(sign, path)
        except TooMuch:
            pass
        return found

    def _missing(self) -> bool:
        """Whether there are sources yet that have not been found."""
        if self._all is None:
            self._all = all_labels(self._db, self._root)
        return not self._all <= self._found

    def _named(self, path: str) -> None:
        """The labels of a path as written: of its name, and of what it leads to."""
        try:
            real = os.path.realpath(os.path.join(self._workspace, path))  # noqa: PTH118 - text in, text out
            spelled, led = inside(self._workspace, path), inside(self._workspace, real)
            is_folder = os.path.isdir(real)  # noqa: PTH112 - text in, text out
        except (OSError, ValueError):
            return self._below("")
        if spelled is None and led is None:
            return None if _of_the_system(path) and _of_the_system(real) else self._below("")
        if spelled is None or led is None:  # what leads in or out may lead elsewhere inside a box
            return self._below("")
        for place in {spelled, led}:
            self._found |= self._around(place) | self._labels(place, names=False)
            if is_folder:
                self._below(place)
        return None

    def _around(self, path: str) -> set[Label]:
        """The labels of the folders it lies in, as far as a folder was labelled with all in it."""
        parts = path.split("/") if path else []
        folders = {"/".join(parts[:count]) for count in range(len(parts) + 1)}
        rows = [row for folder in folders for row in self._rows(folder) if row.content_hash == FOLDER]
        return {row.label for row in rows if self.holds(row)}

    def _below(self, folder: str) -> None:
        """The labels of everything below a folder, whatever it is called by now."""
        tried: set[str] = set()
        if self._missing():
            for path, label in newest_labelled(self._db, self._root, folder, 8 * self._limits.tries):
                if self._is_left_out(path):
                    continue
                if label not in self._found and path not in tried and len(tried) < self._limits.tries:
                    tried.add(path)
                    self._found |= self._own(path)
        if self._missing() and self._look_through(folder):
            self._below("")

    def _look_through(self, folder: str) -> bool:
        """Examine everything below; True when links lead out of the folder, so that this was not everything."""
        self._load()
        for path, is_link in self._candidates(folder):
            if is_link and folder:
                return True
            self._found |= self._labels(path, names=True)
            if not self._missing():
                return False
        return False

    def _load(self) -> None:
        """What to look for: the contents of every source that has not been found."""
        if self._signs is not None:
            return
        self._signs = {}
        rows = labelled_contents(self._db, self._root, self._limits.rows + 1)
        if len(rows) > self._limits.rows:
            raise TooMuch
        for path, label, content_hash, size in rows:
            if label in self._found:
                continue
            sign = sign_of(content_hash, size)
            if sign:
                self._signs.setdefault(sign, set()).add(label)
                self._sizes.add(size)
            if not sign or content_hash == UNREAD:
                self._alone.add(path)

    def _candidates(self, folder: str) -> Iterator[tuple[str, bool]]:
        """What below a folder could bear a label that is looked for, and with it any link, which is marked as one."""
        top = len(str(self._workspace)) + 1
        for entry in self._entries(folder):
            path, is_link = entry.path[top:], entry.is_symlink()
            likely = path in self._alone
            if not likely and (is_link or entry.is_file(follow_symlinks=False)):
                try:
                    likely = entry.stat(follow_symlinks=False).st_size in self._sizes
                except OSError:
                    continue  # it is gone
            if likely:
                self._files_left -= 1
                if self._files_left < 0:
                    raise TooMuch
            if likely or (is_link and folder):
                yield path, is_link

    def _entries(self, folder: str) -> "Iterator[os.DirEntry[str]]":
        top = len(str(self._workspace)) + 1
        folders = [os.path.join(self._workspace, folder) if folder else str(self._workspace)]  # noqa: PTH118
        while folders:
            here = folders.pop()
            try:
                entries = os.scandir(here)
            except OSError:
                if _could_be_opened(here):
                    raise TooMuch from None
                continue
            with entries:
                for entry in entries:
                    self._entries_left -= 1
                    if self._entries_left < 0:
                        raise TooMuch
                    if entry.is_dir(follow_symlinks=False) and not self._is_left_out(entry.path[top:] + "/"):
                        folders.append(entry.path)
                    yield entry

    def _is_left_out(self, path: str) -> bool:
        return bool(self._besides) and path.startswith(self._besides + "/")

    def _labels(self, path: str, *, names: bool) -> frozenset[Label]:
        """The labels of what a path holds now, by its own rows and by those of anything that held the same.

        With `names` also that of its name, which whoever lists its folder reads.
        """
        known = self._known.get((path, names))
        if known is None:
            rows = self._rows(path)
            now = self._glance(path, rows)
            known = frozenset[Label]()
            if now is not None:
                if now.content_hash == UNREAD or (self._signs is not None and self._is_shut(now)):
                    raise TooMuch
                known = frozenset({row.label for row in rows if _counts(row, now, names=names)} | self._alike(now))
            self._known[path, names] = known
        return known

    def _is_shut(self, now: Seen) -> bool:
        """Whether it is a small file that only we cannot read as it is: a command could open it for itself."""
        unread = now.content_hash.startswith("stat:") and now.size <= MOST_BYTES
        return unread and _could_be_opened(f"{self._workspace}/{now.path}")

    def _own(self, path: str) -> set[Label]:
        """The labels a path has by its own rows, its name included."""
        rows = self._rows(path)
        now = self._glance(path, rows)
        return set() if now is None else {row.label for row in rows if _counts(row, now, names=True)}

    def _rows(self, path: str) -> list[LabelRow]:
        return path_rows(self._db, self._root, path) if is_text(path) else []

    def _alike(self, now: Seen) -> set[Label]:
        """The labels of anything that held the same."""
        signs = signs_of(now)
        if self._signs is not None:
            return {label for sign in signs for label in self._signs.get(sign, ())}
        if not signs:
            return set()
        rows = rows_of_size(self._db, self._root, now.size)
        return {row.label for row in rows if sign_of(row.content_hash, row.size) in signs}

    def _glance(self, path: str, rows: list[LabelRow]) -> Seen | None:
        """What a path holds; its size and time are believed when a row knows them."""
        try:
            info = os.lstat(f"{self._workspace}/{path}")
        except (OSError, ValueError):
            return self._reading.see(path)
        alike = {row.content_hash for row in rows if (row.size, row.mtime_ns) == (info.st_size, info.st_mtime_ns)}
        content = next(iter(alike)) if len(alike) == 1 else ""
        if stat.S_ISREG(info.st_mode) and len(content) == 64:
            return Seen(path=path, content_hash=content, size=info.st_size, mtime_ns=info.st_mtime_ns)
        return self._reading.see(path)


def _counts(row: LabelRow, now: Seen, *, names: bool) -> bool:
    """Whether what a row labelled is what its path holds now, or may be. The name of a file is not what it holds."""
    if row.content_hash == NAME and now.content_hash != FOLDER:
        return names
    if row.content_hash in (now.content_hash, FOLDER, NAME, UNREAD) or now.content_hash in (UNREAD, CLOSED):
        return True
    return row.content_hash == f"stat:{now.size}:{now.mtime_ns}"  # it could not be read then


def _could_be_opened(path: str) -> bool:
    """Whether a command could open what is closed to us: what is ours it could."""
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return False
