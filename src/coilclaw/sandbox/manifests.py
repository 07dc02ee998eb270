"""Manifests: the files of each snapshot, stored next to the contents.

A full one names every file of the workspace; those of a large workspace are split into parts, by a hash of the name,
so that a snapshot costs what changed since the last one. A partial one names only the files that one call would write.
Each manifest can be read without any other: a damaged one affects no other snapshot.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import msgspec

from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.ids import Clock, from_stamp, new_id, stamp
from coilclaw.sandbox.blob_store import Adding, BlobStore, make_folder, table_of, write_pack
from coilclaw.sandbox.files import put_durably

LINK = "link:"
INLINE = 1000
"""Up to this many names are in the manifest itself."""
PART_FILES, MOST_PARTS = 64, 256
KEPT = 50
"""The number of turns with snapshots."""
KEPT_OF_TURN = 20
"""Separate snapshots per turn; those between the first and the last ones are merged into the first."""
SLACK = 8
"""How many more there may be temporarily."""
STORE_BYTES = 2 << 30
YOUNG_SECONDS = 3600
"""Younger contents are not deleted: another process may be about to need them."""


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """A cheap fingerprint of a file."""

    size: int
    inode: int
    modified: int
    changed: int

    @classmethod
    def of(cls, info: os.stat_result) -> "Facts":
        """From stat."""
        return cls(info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One file or link; the last four fields are a cheap fingerprint."""

    content: str
    """SHA-256 of a file, or `link:` and its target."""
    mode: int
    size: int
    inode: int
    modified: int
    changed: int

    def looks_like(self, info: os.stat_result) -> bool:
        """Whether the file's fingerprint is unchanged."""
        now = (info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
        return now == (self.size, self.inode, self.modified, self.changed)

    def holds_the_same(self, other: "Entry | None") -> bool:
        """Whether the other has the same content and permissions."""
        return other is not None and (self.content, self.mode) == (other.content, other.mode)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot of the workspace."""

    id: str
    time: str
    note: str
    turn: str = ""
    """The turn whose changes it precedes."""
    whole: bool = True
    files: int | None = None
    """How many files were changed; None if unknown."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A snapshot with its files."""

    id: str
    time: str
    note: str
    turn: str = ""
    whole: bool = True
    """Whether it has every file of the workspace, not only what one call would write."""
    files: dict[str, Entry] = {}
    parts: tuple[str, ...] = ()
    """Contents with further files, by a hash of their names."""
    folders: list[str] | None = None
    """Folders, to tell them from new ones; None in a snapshot of an earlier version, and in a partial one."""
    absent: tuple[str, ...] = ()
    """Absent names, in a partial one; a folder's ends with a slash."""
    not_kept: tuple[str, ...] = ()
    """Names whose content could not be stored."""
    left: dict[str, Facts | None] | None = None
    """The state of each touched name after the call, None if it is gone; None altogether if unknown."""
    missed: tuple[str, ...] = ()
    """Folders that were touched and of which nothing is stored."""

    @property
    def changed(self) -> tuple[str, ...] | None:
        """The files that were changed then; None when nobody could tell."""
        if self.whole and self.left is None:
            return None
        names = (self.left or {}) if self.whole else {**self.files, **dict.fromkeys(self.absent)}
        return tuple(path for path in names if not path.endswith("/"))

    @property
    def changed_nothing(self) -> bool:
        """Whether it is known that nothing was changed then."""
        return self.whole and self.left is not None and not self.left

    def short(self) -> Snapshot:
        """The snapshot without its files."""
        count = None if self.left is None else sum(not path.endswith("/") for path in self.left)
        if not self.whole and count is None:
            count = len(self.files) + sum(not path.endswith("/") for path in self.absent)
        return Snapshot(id=self.id, time=self.time, note=self.note, turn=self.turn, whole=self.whole, files=count)


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    turn: str = ""


_MANIFEST = msgspec.json.Decoder(Manifest)
_HEADER = msgspec.json.Decoder(_Header)
_PART = msgspec.msgpack.Decoder(dict[str, Entry])


class Manifests:
    """The manifests of one workspace, and their contents."""

    def __init__(self, store: Path, clock: Clock, warn: Callable[[str], None]) -> None:
        self.store = store
        self.contents = BlobStore(store / "objects")
        self._clock = clock
        self._warn = warn
        self._told: set[str] = set()
        """Unreadable manifests that were reported to the owner."""

    # Reading

    def paths(self) -> list[Path]:
        """Newest first: ids sort by creation."""
        return sorted(self.store.glob("snap_*.json"), reverse=True)

    def readable(self) -> Iterator[Manifest]:
        """Newest first, without their parts. An unreadable one is skipped and reported."""
        for path in self.paths():
            try:
                yield self.read(path)
            except ToolError as error:
                if path.stem not in self._told and path.exists():  # otherwise another process has just deleted it
                    self._told.add(path.stem)
                    self._warn(str(error))

    def read(self, path: Path) -> Manifest:
        """One manifest, without its parts."""
        try:
            manifest = _MANIFEST.decode(path.read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(path) from error
        names = (*manifest.files, *(name.removesuffix("/") for name in (*manifest.absent, *(manifest.left or ()))))
        if not all(map(_is_inside, names)):
            raise _unreadable(path)
        return manifest

    def find(self, snapshot_id: str) -> Manifest:
        """The manifest with that id, or the last one, without its parts."""
        found = self.paths()
        if not found:
            raise UsageError(
                "there are no snapshots yet.", remedy="One is taken before anything in the workspace is written."
            )
        if not snapshot_id:
            return next(self.readable(), None) or self.read(found[0])  # none can be read: report the last one
        chosen = next((path for path in found if path.stem == snapshot_id), None)
        if chosen is None:
            raise UsageError(f"there is no snapshot {snapshot_id!r}.", remedy="See `coilclaw undo --list`.")
        return self.read(chosen)

    def files_of(self, manifest: Manifest) -> dict[str, Entry]:
        """All its files; a ToolError if a part cannot be read."""
        files: dict[str, Entry] = {}
        for content in manifest.parts:
            files |= self._part(manifest, content)
        return files | manifest.files

    def before(self, manifest: Manifest, path: str) -> Entry | None:
        """One of its files; None if it did not exist then."""
        if path in manifest.absent or path in manifest.files or not manifest.parts:
            return manifest.files.get(path)
        return self._part(manifest, manifest.parts[_part_of(path, len(manifest.parts))]).get(path)

    def _part(self, manifest: Manifest, content: str) -> dict[str, Entry]:
        path = self.store / f"{manifest.id}.json"
        data = self.contents.read(content)
        try:
            files = _PART.decode(data or b"")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(path) from error
        if not all(map(_is_inside, files)):
            raise _unreadable(path)
        return files

    # Writing

    def new_id(self) -> tuple[str, str]:
        """An id and a time for a manifest that sorts after every other."""
        now = self._clock()
        last = next(self.readable(), None)
        if last is not None and stamp(now) <= last.time < stamp(now + timedelta(hours=1)):
            now = from_stamp(last.time) + timedelta(milliseconds=1)  # ids sort by creation
        return new_id("snap", now), stamp(now)

    def split(self, files: dict[str, Entry], last: Manifest | None, dirty: set[str], adding: Adding) -> Manifest:
        """An unnamed manifest of these files; reuses every unchanged part of the last one."""
        if len(files) <= INLINE:
            return Manifest(id="", time="", note="", files=files)
        count = PART_FILES
        while count < MOST_PARTS and len(files) > count * PART_FILES:
            count *= 2
        known = last.parts if last is not None and len(last.parts) == count else ()
        wanted = {_part_of(path, count) for path in dirty} if known else set(range(count))
        written: dict[int, dict[str, Entry]] = {number: {} for number in wanted}
        for path, entry in files.items():
            number = _part_of(path, count)
            if number in wanted:
                written[number][path] = entry
        parts = list(known) or [""] * count
        for number, part in written.items():
            parts[number] = adding.add(msgspec.msgpack.encode(part))
        return Manifest(id="", time="", note="", parts=tuple(parts))

    def write(self, made: Manifest) -> None:
        """Store it, durably."""
        make_folder(self.store)
        folder = os.open(self.store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            put_durably(folder, f"{made.id}.json", msgspec.json.encode(made), 0o600)
        finally:
            os.close(folder)

    # Deleting

    def bytes(self) -> int:
        """The space that everything takes."""
        return sum(info.st_size for _, info in _with_facts(self.store.rglob("*")))

    def prune(self, added: int) -> None:
        """Delete the oldest, by number and space, unneeded contents, and temporary files.

        Finding unneeded contents is expensive: while there are packs it is done for several snapshots at a time.
        """
        room, gone = self._room(added)
        turns = self._turns()
        for turn in turns:
            if len(turn) > KEPT_OF_TURN + SLACK:
                self._close_up(turn)
        keep = KEPT if room <= STORE_BYTES else max(1, len(turns) // 2)
        for path in (path for turn in turns[keep:] for path in turn):
            path.unlink(missing_ok=True)
            gone += 1
        self._remove_strays()
        if gone and (gone >= SLACK or room > STORE_BYTES or not self.contents.packs()):
            self._sweep()
            room, gone = self.bytes(), 0
        with suppress(OSError):
            (self.store / "room").write_text(f"{room} {gone}")

    def _room(self, added: int) -> tuple[int, int]:
        """An estimate of the bytes, and how many snapshots were deleted since contents were last checked."""
        try:
            room, gone = map(int, (self.store / "room").read_text().split())
        except (OSError, ValueError):
            return self.bytes(), 0
        return room + added, gone

    def _turns(self) -> list[list[Path]]:
        """The manifests, newest first, grouped by turn; an unreadable one is its own group."""
        turns: list[list[Path]] = []
        last = ""
        for path in self.paths():
            try:
                turn = _HEADER.decode(path.read_bytes()).turn
            except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                turn = ""
            if turn and turn == last:
                turns[-1].append(path)
            else:
                turns.append([path])
            last = turn
        return turns

    def _close_up(self, turn: list[Path]) -> None:
        """Merge a turn's first snapshots, up to its last ones, so that frequent writes displace no other turn."""
        with suppress(ToolError, OSError):  # otherwise there are more of them temporarily
            first = self.read(turn[-1])
            for path in reversed(turn[KEPT_OF_TURN - 1 : -1]):
                later = self.read(path)
                if first.left is None or later.left is None:
                    return  # what was touched is unknown
                first = self._joined(first, first.left, later, later.left)
                self.write(first)
                path.unlink(missing_ok=True)

    def _joined(
        self, first: Manifest, left: dict[str, Facts | None], later: Manifest, later_left: dict[str, Facts | None]
    ) -> Manifest:
        files, absent = dict(first.files), list(first.absent)
        for path in later_left.keys() - left.keys():
            entry = self.before(later, path)
            if entry is None:
                absent.append(path)
            else:
                files[path] = entry
        not_kept = (*first.not_kept, *later.not_kept)
        return msgspec.structs.replace(
            first, files=files, absent=tuple(absent), not_kept=not_kept, left={**left, **later_left}
        )

    def _remove_strays(self) -> None:
        old = self._clock().timestamp() - YOUNG_SECONDS
        for folder in (self.store, self.contents.folder):
            for path, info in (*_with_facts(folder.glob("*.new")), *_with_facts(folder.glob("*/*.new"))):
                if info.st_mtime < old:
                    path.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Delete contents that nothing needs or is about to need."""
        old = self._clock().timestamp() - YOUNG_SECONDS
        try:
            needed = self._needed()
        except ToolError:
            return  # its needs are unknown; contents are deleted once it is gone
        for path, info in _with_facts(self.contents.folder.glob("*/*")):
            if path.parent.name + path.name not in needed and info.st_mtime < old:
                path.unlink(missing_ok=True)
        for pack, info in _with_facts(self.contents.packs()):
            if info.st_mtime < old:
                self._sweep_pack(pack, needed)
        self.contents.look_anew()

    def _needed(self) -> set[str]:
        """Every content that a manifest needs; shared parts are read once."""
        needed: set[str] = set()
        for path in self.paths():
            manifest = self.read(path)
            needed |= {entry.content for entry in manifest.files.values()}
            for content in manifest.parts:
                if content not in needed:
                    needed |= {entry.content for entry in self._part(manifest, content).values()}
                    needed.add(content)
        return needed

    def _sweep_pack(self, pack: Path, needed: set[str]) -> None:
        """Delete an unneeded pack; rewrite a pack if less than half of it is needed."""
        table = table_of(pack)
        wanted = {content: where for content, where in table.items() if content in needed}
        if not wanted:
            pack.unlink(missing_ok=True)
        if not wanted or sum(length for _, length in wanted.values()) * 2 > sum(length for _, length in table.values()):
            return
        with pack.open("rb") as file:
            blobs = {content: os.pread(file.fileno(), length, start) for content, (start, length) in wanted.items()}
        aside = self.contents.folder / f"{os.urandom(10).hex()}.pack.new"
        try:
            write_pack(aside, blobs)
            fd = os.open(aside, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            aside.replace(aside.with_suffix(""))
        finally:
            aside.unlink(missing_ok=True)
        pack.unlink(missing_ok=True)


def _with_facts(paths: "Iterator[Path] | list[Path]") -> Iterator[tuple[Path, os.stat_result]]:
    for path in paths:
        with suppress(OSError):
            yield path, path.lstat()


def _part_of(path: str, count: int) -> int:
    return zlib.crc32(path.encode("utf-8")) & (count - 1)


def _unreadable(path: Path) -> ToolError:
    return ToolError(
        f"the snapshot {path.stem} cannot be read, so nothing can be restored from it.",
        remedy=f"Remove {path}; other snapshots are not affected.",
        begun=False,
    )


def _is_inside(path: str) -> bool:
    """Whether a manifest's path stays below the workspace."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))
