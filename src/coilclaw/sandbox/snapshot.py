"""Snapshots of the workspace: its files by content, in a store of their own in the home.

No program runs over the workspace: what a command left there (a nested repository, attributes, filters) is only ever
read as bytes. Links are kept as links. Repositories' own data (.git) and what can be fetched again is left out.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path

import msgspec

from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.sandbox.contents import Adding, Contents, make_folder
from coilclaw.sandbox.files import put_durably, read_existing

LEFT_OUT = frozenset({".git", "node_modules", ".venv", "__pycache__"})
MOST_FILES = 50_000
MOST_BYTES = 16 << 20
"""A larger file is left out."""
NEW_BYTES = 256 << 20
"""A snapshot that would add more than this is not made."""
SECONDS = 10.0
STORE_BYTES = 1 << 30
KEPT = 50
YOUNG_SECONDS = 3600
"""Contents younger than this are left alone: another process may be about to need them."""
_LINK = "link:"
_NAMED = 20
"""Of so many files an error names what could not be brought back."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of the workspace."""

    id: str
    time: str
    note: str


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One file or link as it was; the last four tell cheaply whether it changed."""

    content: str
    """SHA-256 of a file, or `link:` and where it leads."""
    mode: int
    size: int
    inode: int
    modified: int
    changed: int

    def looks_like(self, info: os.stat_result) -> bool:
        """Whether nothing the system tells about the file has changed."""
        now = (info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
        return now == (self.size, self.inode, self.modified, self.changed)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot with all its files."""

    id: str
    time: str
    note: str
    files: dict[str, Entry]
    folders: list[str] | None = None
    """Their names are told apart from new ones; None in a snapshot made before they were kept."""


_MANIFEST = msgspec.json.Decoder(Manifest)


class Snapshots:
    """The moments of one workspace."""

    def __init__(self, workspace: Path, store: Path, clock: Clock, warn: Callable[[str], None]) -> None:
        self._workspace = workspace
        self._store = store
        self._contents = Contents(store / "objects", MOST_BYTES)
        self._clock = clock
        self._warn = warn
        self._told: set[str] = set()
        """Snapshots that cannot be read, of which the owner was told."""

    def take(self, note: str, stopped: Callable[[], bool] = lambda: False) -> str:
        """Keep the workspace as it is now; the same state is kept once. Returns the snapshot's id.

        It gives up when it takes too long, would add too much, or `stopped` says so.
        """
        last = self._newest()
        known = last.files if last is not None else {}
        files: dict[str, Entry] = {}
        folders: list[str] = []
        until = time.monotonic() + SECONDS
        with Adding(self._contents) as adding:
            for path, info, is_folder in self._scan():
                if adding.added > NEW_BYTES or time.monotonic() > until or stopped():
                    raise ToolError("keeping it would take too long or too much room.", begun=False)
                if is_folder:
                    folders += [path] if _is_text(path) else []
                    continue
                entry = self._keep(path, info, known.get(path), adding) if _is_kept(path, info) else None
                if entry is not None:
                    files[path] = entry
            adding.settle()
        folders.sort()
        if (
            last is not None
            and last.folders == folders
            and {p: (e.content, e.mode) for p, e in known.items()} == {p: (e.content, e.mode) for p, e in files.items()}
        ):
            return last.id
        now = self._clock()
        if last is not None and stamp(now) == last.time:
            now += timedelta(milliseconds=1)  # two within a millisecond: their ids must sort as they were taken
        made = Manifest(id=new_id("snap", now), time=stamp(now), note=note[:200], files=files, folders=folders)
        self._write(made)
        self._prune()
        return made.id

    def recent(self, limit: int = 20) -> list[Snapshot]:
        """Snapshots, newest first."""
        found = islice(self._readable(), limit)
        return [Snapshot(id=each.id, time=each.time, note=each.note) for each in found]

    def named(self, snapshot_id: str) -> Snapshot:
        """The snapshot of that id, or the last one."""
        found = self._find(snapshot_id)
        return Snapshot(id=found.id, time=found.time, note=found.note)

    def changes(self, snapshot_id: str, may_restore: Callable[[str], bool]) -> list[str]:
        """The paths that are gone or different now and would be brought back."""
        return self._changes(self._find(snapshot_id), may_restore)

    def touched(self, snapshot_id: str) -> list[str]:
        """Everything below the workspace that is new, different or gone since the snapshot was taken, sorted.

        A new folder ends with a slash: its name is new, what is in it is told by itself. What a snapshot leaves out is
        told by the time the system itself keeps of its last change: a large file by its own name, a left-out folder (or
        the folder of a name that is no text) by the folder's. Never fewer than were touched: what cannot be compared in
        time counts. A workspace with too many files is a ToolError.
        """
        wanted = self._find(snapshot_id)
        known = None if wanted.folders is None else frozenset(wanted.folders)
        since = (self._store / f"{wanted.id}.json").stat().st_mtime_ns
        until = time.monotonic() + SECONDS
        found: set[str] = set()
        gone = set(wanted.files)
        for path, info, is_folder in self._scan():
            gone.discard(path)
            if is_folder:
                if not _is_text(path) and info.st_ctime_ns >= since:
                    found.add(_nearest_text(path))
                elif _is_text(path) and (path not in known if known is not None else info.st_ctime_ns >= since):
                    found.add(f"{path}/")
                continue
            if not _is_kept(path, info):
                if self._changed_since(path, info, since, until):
                    found.add(_nearest_text(path))
                continue
            entry = wanted.files.get(path)
            if entry is not None and entry.looks_like(info):
                continue
            if entry is None or time.monotonic() > until or self._content(path, info) != entry.content:
                found.add(path)
        return sorted(found | gone)

    def restore(
        self, snapshot_id: str, may_restore: Callable[[str], bool], stopped: Callable[[], bool] = lambda: False
    ) -> list[str]:
        """Bring back what is gone or different since; what was made since stays. Returns the paths brought back.

        What cannot be brought back stops no other; when the rest is back, a ToolError names it. It gives up between
        two files when `stopped` says so.
        """
        wanted = self._find(snapshot_id)
        try:
            self.take("before an undo", stopped)
        except (ToolError, OSError) as error:  # whoever fills the workspace must not be able to switch undo off
            self._warn(f"how it was before this undo could not be kept, so it cannot be undone itself: {error}")
        back: list[str] = []
        failed: dict[str, list[str]] = {}
        changes = self._changes(wanted, may_restore)
        for path in changes:
            if stopped():
                raise ToolError(f"it was stopped: {len(back)} of {len(changes)} files are back.", code="STOPPED")
            why = self._put_back(path, wanted.files[path])
            back.append(path) if why is None else failed.setdefault(why, []).append(path)
        if failed:
            raise _not_back(failed, len(back))
        return back

    # Reading the workspace

    def _scan(self) -> Iterator[tuple[str, os.stat_result, bool]]:
        """Everything there is, and whether it is an ordinary folder.

        A folder that is left out or cannot be read is none: it stands for all in it.
        """
        folders = [""]
        count = 0
        while folders:
            folder = folders.pop()
            try:
                entries = sorted(os.scandir(self._workspace / folder), key=lambda entry: entry.name)
            except OSError:
                with suppress(OSError):  # it is gone
                    yield folder, os.lstat(self._workspace / folder), False
                continue
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                is_folder = entry.name not in LEFT_OUT and entry.is_dir(follow_symlinks=False)
                if is_folder:
                    folders.append(path)
                try:
                    info = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                count += 1
                if count > MOST_FILES:
                    raise ToolError(f"the workspace has more than {MOST_FILES} files and folders.", begun=False)
                yield path, info, is_folder

    def _changed_since(self, path: str, info: os.stat_result, since: int, until: float) -> bool:
        """Whether the system changed it, or anything in it, since then; true when there is too much to look at."""
        if info.st_ctime_ns >= since:
            return stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)
        folders = [self._workspace / path] if stat.S_ISDIR(info.st_mode) else []
        count = 0
        while folders:
            try:
                entries = list(os.scandir(folders.pop()))
            except OSError:
                continue  # had it been closed to us since, its own time would say so
            for entry in entries:
                count += 1
                if count > MOST_FILES or time.monotonic() > until:
                    return True
                with suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_ctime_ns >= since:
                        return True
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
        return False

    def _content(self, path: str, info: os.stat_result) -> str | None:
        """What an entry of the file would hold, without keeping it; None when it cannot be read."""
        if stat.S_ISLNK(info.st_mode):
            with suppress(OSError):
                return f"{_LINK}{(self._workspace / path).readlink()}"
            return None
        data = read_existing(self._workspace, path, MOST_BYTES)
        return None if data is None else sha256_hex(data)

    def _keep(self, path: str, info: os.stat_result, known: Entry | None, adding: Adding) -> Entry | None:
        """The entry of a file, its content kept; None when it is not there any more or only behind a link."""
        facts = (stat.S_IMODE(info.st_mode), info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
        if known is not None and known.looks_like(info) and self._seems_kept(known):
            return Entry(known.content, *facts)
        if stat.S_ISLNK(info.st_mode):
            target = str((self._workspace / path).readlink())
            return Entry(f"{_LINK}{target}", *facts) if _is_text(target) else None
        data = read_existing(self._workspace, path, MOST_BYTES)
        if data is None:
            return None
        return Entry(adding.add(data), *facts)

    def _seems_kept(self, entry: Entry) -> bool:
        return entry.content.startswith(_LINK) or self._contents.seems_there(entry.content)

    def _changes(self, wanted: Manifest, may_restore: Callable[[str], bool]) -> list[str]:
        changed: list[str] = []
        for path, entry in wanted.files.items():
            try:
                info = os.lstat(self._workspace / path)
                same = entry.looks_like(info) or self._content(path, info) == entry.content
            except OSError:
                same = False
            if not same and may_restore(path):
                changed.append(path)
        return sorted(changed)

    # Writing it back

    def _put_back(self, path: str, entry: Entry) -> str | None:
        """Put one file where it was, through real folders only; a link in the way is replaced, never followed.

        None when it is back, durably; otherwise why not.
        """
        is_link = entry.content.startswith(_LINK)
        data = b"" if is_link else self._contents.read(entry.content)
        if data is None:
            return "what was kept of it is damaged"
        *parents, name = path.split("/")
        try:
            here = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for part in parents:
                    below = _open_folder(part, here)
                    os.close(here)
                    here = below
                if is_link:
                    _put_link(here, name, entry.content.removeprefix(_LINK))
                else:
                    put_durably(here, name, data, entry.mode)
            finally:
                os.close(here)
        except OSError as error:
            return error.strerror or type(error).__name__
        return None

    # The store

    def _write(self, made: Manifest) -> None:
        make_folder(self._store)
        folder = os.open(self._store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            put_durably(folder, f"{made.id}.json", msgspec.json.encode(made), 0o600)
        finally:
            os.close(folder)

    def _manifests(self) -> list[Path]:
        """Newest first: ids sort by the time they were made."""
        return sorted(self._store.glob("snap_*.json"), reverse=True)

    def _newest(self) -> Manifest | None:
        return next(self._readable(), None)

    def _readable(self) -> Iterator[Manifest]:
        """Newest first. One that cannot be read is passed over and named: it must not cost the others."""
        for path in self._manifests():
            try:
                yield self._read(path)
            except ToolError as error:
                if path.stem not in self._told and path.exists():  # otherwise another process let it go just now
                    self._told.add(path.stem)
                    self._warn(str(error))

    def _read(self, path: Path) -> Manifest:
        try:
            manifest = _MANIFEST.decode(path.read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(path) from error
        if not all(map(_is_inside, manifest.files)):
            raise _unreadable(path)
        return manifest

    def _find(self, snapshot_id: str) -> Manifest:
        found = self._manifests()
        if not found:
            raise UsageError("there is no snapshot yet.", remedy="One is made before a turn's first writing command.")
        if not snapshot_id:
            return self._newest() or self._read(found[0])  # none can be read: say so of the last one
        chosen = next((path for path in found if path.stem == snapshot_id), None)
        if chosen is None:
            raise UsageError(f"there is no snapshot {snapshot_id!r}.", remedy="See `coilclaw undo --list`.")
        return self._read(chosen)

    def _prune(self) -> None:
        """Let the oldest go, by number and by room, every content that no kept one needs, and what was left aside."""
        found = self._manifests()
        objects = list(_with_facts(self._contents.folder.glob("*/*")))
        old = self._clock().timestamp() - YOUNG_SECONDS
        for path, info in (*objects, *_with_facts(self._store.glob("*.new"))):
            if path.name.endswith(".new") and info.st_mtime < old:
                path.unlink(missing_ok=True)
        room = sum(info.st_size for _, info in objects)
        keep = KEPT if room <= STORE_BYTES else max(1, len(found) // 2)
        if len(found) <= keep:
            return
        for path in found[keep:]:
            path.unlink(missing_ok=True)
        try:
            needed = {entry.content for path in found[:keep] for entry in self._read(path).files.values()}
        except ToolError:
            return  # nobody knows what that one needs; contents go when it has gone
        for path, info in objects:
            if path.parent.name + path.name not in needed and info.st_mtime < old:
                path.unlink(missing_ok=True)


def _with_facts(paths: Iterable[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    for path in paths:
        with suppress(FileNotFoundError):
            yield path, path.stat()


def _not_back(failed: dict[str, list[str]], others: int) -> ToolError:
    """Names every file that is not back, with why, and says what became of the rest."""
    parts: list[str] = []
    for why, paths in failed.items():
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        of = why if len(paths) == 1 else why.replace(" of it ", " of them ")
        parts.append(f"{', '.join(paths[:_NAMED])}{more} cannot be brought back: {of}.")
    rest = {0: "Nothing else was to be brought back.", 1: "The other file was brought back."}
    parts.append(rest.get(others, f"The other {others} files were brought back."))
    remedy = "An older snapshot may have what is missing: `coilclaw undo --list`."
    return ToolError(" ".join(parts), remedy=remedy, code="FILE_ERROR")


def _is_text(path: str) -> bool:
    """Whether the name can stand in a manifest; one that is no UTF-8 is left out."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _unreadable(path: Path) -> ToolError:
    return ToolError(
        f"the snapshot {path.stem} cannot be read, so nothing can be brought back from it.",
        remedy=f"Remove {path}; others are not touched by it.",
        begun=False,
    )


def _is_inside(path: str) -> bool:
    """Whether a path of a manifest can only lead below the workspace."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def _is_kept(path: str, info: os.stat_result) -> bool:
    """Whether it belongs in a snapshot: a link, or a plain file that is not too large."""
    fits = stat.S_ISLNK(info.st_mode) or (stat.S_ISREG(info.st_mode) and info.st_size <= MOST_BYTES)
    return fits and path.rpartition("/")[2] not in LEFT_OUT and _is_text(path)


def _nearest_text(path: str) -> str:
    """The path, or the nearest folder around it whose name is text; empty for the workspace itself."""
    while not _is_text(path):
        path = path.rpartition("/")[0]
    return path


def _open_folder(name: str, parent: int) -> int:
    """A real folder of that name, made if need be; whatever else stands there is taken away."""
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError:
        os.unlink(name, dir_fd=parent)  # a link or a file in the way
    os.mkdir(name, dir_fd=parent)
    os.fsync(parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _put_link(parent: int, name: str, target: str) -> None:
    aside = f".{name[:80]}.{os.urandom(6).hex()}.new"
    os.symlink(target, aside, dir_fd=parent)
    try:
        os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        os.unlink(aside, dir_fd=parent)
        raise
    os.fsync(parent)
