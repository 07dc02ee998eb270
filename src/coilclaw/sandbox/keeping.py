"""Snapshots of the workspace before each change, in a store in the home.

Before a command everything is stored, at the cost of what changed since the last time; before a file tool only what it
writes. Afterwards the resulting state is recorded, so that an undo can tell its changes from others'.
No program runs over the workspace: what a command left there (a nested repository, attributes, filters) is only
read as bytes. Links are stored as links.
"""

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import Clock
from coilclaw.sandbox.blob_store import Adding, make_folder
from coilclaw.sandbox.entries import LIMITS, Limits, Reading, content_of, kept_entry, never, told, why_of
from coilclaw.sandbox.manifests import Entry, Facts, Manifest, Manifests, Snapshot
from coilclaw.sandbox.scan import (
    MISSED,
    changed_since,
    is_text,
    nearest_text,
    open_folder,
    scan,
    why_not_kept,
)

FRESH_SECONDS = 300
"""If a snapshot succeeded this recently, the workspace is not scanned just to find out."""
RESERVE = 256 << 20
"""Free disk space to leave, or a twentieth of a small disk."""
_SEEN = msgspec.msgpack.Decoder(dict[str, Entry])


class Keeping:
    """Takes snapshots of one workspace, and compares them with its present state."""

    def __init__(
        self, workspace: Path, store: Path, clock: Clock, warn: Callable[[str], None], limits: Limits = LIMITS
    ) -> None:
        self.workspace = workspace
        self.limits = limits
        self.warn = warn
        self._store = store
        self.manifests = Manifests(store, clock, warn)
        self._contents = self.manifests.contents

    # Taking snapshots

    def take(self, note: str, stopped: Callable[[], bool] = never, turn: str = "") -> str:
        """Take a snapshot of the workspace; the same state within a turn is stored once. Returns its id.

        It gives up if it takes too long, needs too much space, or `stopped` says so; the next one continues with
        what this one stored. `fault` then says why there is none, or what it lacks.
        """
        with self._locked(stopped), self._noting_faults():
            return self._take(note, stopped, turn)

    def _take(self, note: str, stopped: Callable[[], bool], turn: str) -> str:
        last = next((each for each in self.manifests.readable() if each.whole), None)
        newest = next(self.manifests.readable(), None)
        before, known = self._known(last)
        with Adding(self._contents) as adding:
            reading = Reading(self.workspace, self.limits, adding, known, stopped, self._note_progress)
            reading.read()
            dirty = reading.dirty(before)
            if last is not None and newest is not None and (last.id, last.turn) == (newest.id, turn):
                alike = before.keys() == reading.files.keys() and last.folders == reading.folders
                if alike and all(before[path].holds_the_same(reading.files[path]) for path in dirty):
                    adding.settle()
                    self._write_seen({path: reading.files[path] for path in dirty})
                    self._note_fault(reading.not_kept)
                    return last.id
            made = self.manifests.split(reading.files, last, dirty, adding)
            adding.settle()
        snapshot_id, moment = self.manifests.new_id()
        self.manifests.write(
            msgspec.structs.replace(
                made,
                id=snapshot_id,
                time=moment,
                note=note[:200],
                turn=turn,
                folders=reading.folders,
                not_kept=tuple(path for path in reading.not_kept if is_text(path)),
            )
        )
        self._write_seen({})
        self.manifests.prune(adding.added)
        self._note_fault(reading.not_kept)
        return snapshot_id

    def prepare(self, stopped: Callable[[], bool] = never) -> None:
        """Find out whether a snapshot is possible, for `fault`; new content is stored, so that `take` is quick.

        A recent success is taken as the answer.
        """
        newest = next((each for each in self.manifests.readable() if each.whole), None)
        if newest is not None and not self.fault(None):
            with suppress(OSError):
                if time.time() - (self._store / f"{newest.id}.json").stat().st_ctime < FRESH_SECONDS:
                    return
        with suppress(ToolError), self._locked(stopped), self._noting_faults(), Adding(self._contents) as adding:
            before, known = self._known(newest)
            reading = Reading(self.workspace, self.limits, adding, known, stopped, self._note_progress)
            reading.read()
            adding.settle()
            self._write_seen({path: reading.files[path] for path in reading.dirty(before) if path in reading.files})
            self._note_fault(reading.not_kept)

    def keep_what_can_be(self, paths: Iterable[str], note: str) -> tuple[str, dict[str, str]]:
        """The same as a separate snapshot, even if some files cannot be stored: those are returned with the reason."""
        with self._locked(never):
            return self._keep(list(dict.fromkeys(paths)), note, "", strict=False)

    def keep(self, paths: Iterable[str], note: str, turn: str = "") -> str:
        """Store the content or absence of these files before they are written. Returns the snapshot's id.

        Within a turn they join its last snapshot, unless that already has them and somebody else changed them since.
        If one cannot be stored, it raises ToolError and stores nothing.
        """
        with self._locked(never):
            return self._keep(list(dict.fromkeys(paths)), note, turn, strict=True)[0]

    def _keep(self, paths: list[str], note: str, turn: str, *, strict: bool) -> tuple[str, dict[str, str]]:
        """The snapshot's id, and the reason for each file that could not be stored."""
        newest = next(self.manifests.readable(), None)
        joining = newest is not None and not newest.whole and bool(turn) and newest.turn == turn
        names = {*newest.files, *newest.absent} if newest is not None and joining else set[str]()
        left = (newest.left or {}) if newest is not None and joining else {}
        if newest is not None and joining:
            paths = [path for path in paths if path not in names or left.get(path, 0) != self._facts(path)]
            if not paths:
                return newest.id, {}
        files: dict[str, Entry] = {}
        absent: list[str] = []
        failed: dict[str, str] = {}
        with Adding(self._contents) as adding, self._opened() as top:
            for path in paths:
                try:
                    entry = self._kept_at(top, path, absent, adding)
                except OSError as error:
                    failed[path] = why_of(error)
                    continue
                if entry is not None:
                    files[path] = entry
            if failed and strict:
                raise ToolError(told(failed), code="NOT_KEPT", begun=False)
            adding.settle()
        if newest is not None and joining and not names & set(paths):
            made = msgspec.structs.replace(
                newest, files={**newest.files, **files}, absent=tuple(dict.fromkeys((*newest.absent, *absent)))
            )
        else:
            snapshot_id, moment = self.manifests.new_id()
            made = Manifest(
                id=snapshot_id,
                time=moment,
                note=note[:200],
                turn=turn,
                whole=False,
                files=files,
                absent=tuple(dict.fromkeys(absent)),
                not_kept=tuple(failed),
            )
        self.manifests.write(made)
        self.manifests.prune(adding.added)
        return made.id, failed

    def _kept_at(self, top: int, path: str, absent: list[str], adding: Adding) -> Entry | None:
        """The entry of one file; None if it is absent, which is recorded with its missing folders."""
        folder, _, name = path.rpartition("/")
        try:
            here = open_folder(top, folder)
        except (FileNotFoundError, NotADirectoryError):
            absent += [f"{around}/" for around in _around(path) if self._is_missing(around)]
            absent.append(path)
            return None
        try:
            return kept_entry(
                here, name, os.stat(name, dir_fd=here, follow_symlinks=False), adding, self.limits.file_bytes
            )
        except FileNotFoundError:
            absent.append(path)
            return None
        finally:
            os.close(here)

    def _is_missing(self, path: str) -> bool:
        return not os.path.lexists(self.workspace / path)

    def settle(self, snapshot_id: str, paths: Iterable[str] = ()) -> list[str]:
        """Record the state after the snapshot's call: everything it touched, according to `touched`.

        For a snapshot of single files, only these paths: the others belong to earlier calls.
        """
        with self._locked(never):
            manifest = self.manifests.find(snapshot_id)
            path = self._store / f"{manifest.id}.json"
            made = path.stat()
            names = self._touched(manifest) if manifest.whole else list(paths)
            left = {} if manifest.whole else dict(manifest.left or {})
            not_kept = set(manifest.not_kept)
            for name in names:
                facts = None if name.endswith("/") else self._facts(name)
                known = manifest.whole and facts is None and self.manifests.before(manifest, name) is None
                if name and name not in not_kept and not (known and not name.endswith("/")):
                    left[name] = facts
            missed = tuple(name for name in names if name.rpartition("/")[2] in MISSED)
            self.manifests.write(msgspec.structs.replace(manifest, left=left, missed=missed if manifest.whole else ()))
            with suppress(OSError):
                os.utime(path, ns=(made.st_atime_ns, made.st_mtime_ns))  # excluded files are compared by this time
            return names

    # Comparing

    def recent(self, limit: int = 20) -> list[Snapshot]:
        """Snapshots, newest first."""
        return [each.short() for each in islice(self.manifests.readable(), limit)]

    def named(self, snapshot_id: str) -> Snapshot:
        """The snapshot with that id, or the first of the last turn that changed something."""
        return self.first(snapshot_id).short()

    def first(self, snapshot_id: str) -> Manifest:
        """The manifest with that id; by default, the one before the first change of the last turn that made any."""
        if snapshot_id:
            return self.manifests.find(snapshot_id)
        changed = (each for each in self.manifests.readable() if not each.changed_nothing)
        found = next(changed, None) or self.manifests.find("")
        for older in self.manifests.readable():
            if older.id > found.id:
                continue
            if older.id != found.id and (not found.turn or older.turn != found.turn):
                break
            found = older
        return found

    def touched(self, snapshot_id: str) -> list[str]:
        """Everything below the workspace that is new, different or gone since the snapshot was taken, sorted.

        A new folder ends with a slash: its name is new, its content is listed separately. What a snapshot excludes is
        compared by the system's change time: a large file by its own name, an excluded folder (or the
        folder of a name that is not text) by the folder's. Never fewer than were touched: what cannot be compared in
        time counts. A workspace with too many files is a ToolError.
        """
        return self._touched(self.manifests.find(snapshot_id))

    def _touched(self, wanted: Manifest) -> list[str]:
        try:
            files = self.manifests.files_of(wanted)
        finally:
            self._contents.look_anew()
        known = None if wanted.folders is None else frozenset(wanted.folders)
        since = (self._store / f"{wanted.id}.json").stat().st_mtime_ns
        until = time.monotonic() + self.limits.seconds
        found: set[str] = set()
        gone = set(files)
        for each in scan(self.workspace, self.limits.files):
            path, info = each.path, each.info
            gone.discard(path)
            if each.is_folder:
                if not is_text(path) and info.st_ctime_ns >= since:
                    found.add(nearest_text(path))
                elif is_text(path) and (path not in known if known is not None else info.st_ctime_ns >= since):
                    found.add(f"{path}/")
                continue
            if why_not_kept(path, info, self.limits.file_bytes) != "":
                if changed_since(self.workspace, path, info, since, lambda: time.monotonic() > until):
                    found.add(nearest_text(path))
                continue
            entry = files.get(path)
            if entry is not None and entry.looks_like(info):
                continue
            if (
                entry is None
                or entry.mode != stat.S_IMODE(info.st_mode)
                or time.monotonic() > until
                or content_of(each.folder, each.name, info) != entry.content
            ):
                found.add(path)
        return sorted(found | gone)

    def fault(self, paths: Iterable[str] | None) -> str:
        """Why these files cannot be stored, or, for None, why the last snapshot of the workspace failed.

        Empty if they can. Cheap, because it is called before every decision.
        """
        if paths is None:
            try:
                return (self._store / "fault").read_text("utf-8")
            except (OSError, UnicodeDecodeError):
                return self.no_room(0)
        needed, failed = 0, dict[str, str]()
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError):
                try:
                    info = os.lstat(self.workspace / path)
                    why = why_not_kept(path, info, self.limits.file_bytes) if stat.S_ISREG(info.st_mode) else ""
                    if not why and stat.S_ISREG(info.st_mode) and not os.access(self.workspace / path, os.R_OK):
                        why = "it cannot be read"
                except (FileNotFoundError, NotADirectoryError):
                    raise
                except (OSError, ValueError) as error:
                    why, info = why_of(error), None
                if why:
                    failed[path] = why
                needed += info.st_size if info is not None else 0
        return told(failed) if failed else self.no_room(needed)

    def no_room(self, needed: int) -> str:
        """A message if the disk is too full, else empty."""
        folder = self._store
        while not folder.exists():
            folder = folder.parent
        with suppress(OSError):
            disk = os.statvfs(folder)
            reserve = min(RESERVE, disk.f_blocks * disk.f_frsize // 20)
            if disk.f_bavail * disk.f_frsize < needed + reserve:
                return "the disk is too full to store what would be changed."
        return ""

    def bytes(self) -> int:
        """The space that all snapshots take."""
        return self.manifests.bytes()

    # Internals

    @contextmanager
    def _locked(self, stopped: Callable[[], bool]) -> Iterator[None]:
        """One at a time across processes; the cache of packs is dropped at the end."""
        make_folder(self._store)
        fd = os.open(self._store / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + self.limits.seconds
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if stopped() or time.monotonic() > until:
                        raise ToolError(
                            "another process has been taking a snapshot of the workspace for too long.",
                            code="NOT_KEPT",
                            begun=False,
                        ) from None
                    time.sleep(0.01)
            yield
        finally:
            self._contents.look_anew()
            os.close(fd)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        top = os.open(self.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield top
        finally:
            os.close(top)

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        try:
            yield
        except ToolError as error:
            if error.code == "NOT_KEPT":
                self._write_fault(error.message)
            raise
        except OSError as error:
            self._write_fault(f"{why_of(error)}.")
            raise ToolError(f"{why_of(error)}.", code="NOT_KEPT", begun=False) from error

    def _note_fault(self, not_kept: dict[str, str]) -> None:
        self._write_fault(told(not_kept) if not_kept else "")

    def _write_fault(self, text: str) -> None:
        with suppress(OSError):
            if text:
                (self._store / "fault").write_text(text, "utf-8", "replace")
            else:
                (self._store / "fault").unlink(missing_ok=True)

    def _known(self, last: Manifest | None) -> tuple[dict[str, Entry], dict[str, Entry]]:
        """The last manifest's files and what was read since; one with damaged parts counts as empty."""
        try:
            before = self.manifests.files_of(last) if last is not None else {}
        except ToolError as error:
            self.warn(str(error))
            before = dict[str, Entry]()
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            return before, before | _SEEN.decode((self._store / "seen").read_bytes())
        return before, before

    def _note_progress(self, files: dict[str, Entry]) -> None:
        if full := self.no_room(0):
            raise ToolError(full, code="NOT_KEPT", begun=False)
        if files:
            self._write_seen(files)

    def _write_seen(self, files: dict[str, Entry]) -> None:
        """Record what is stored but in no manifest yet, so that it is not read again. It need not be durable."""
        place = self._store / "seen"
        if not files:
            place.unlink(missing_ok=True)
            return
        aside = self._store / "seen.new"
        aside.write_bytes(msgspec.msgpack.encode(files))
        aside.replace(place)

    def _facts(self, path: str) -> Facts | None:
        try:
            info = os.lstat(self.workspace / path)
        except (OSError, ValueError):
            return None
        return None if stat.S_ISDIR(info.st_mode) else Facts.of(info)


def _around(path: str) -> list[str]:
    """The folders around a path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
