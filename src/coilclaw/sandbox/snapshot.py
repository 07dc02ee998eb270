"""Undo: what it would change in the workspace, and restoring it."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.blob_store import Damaged
from coilclaw.sandbox.entries import content_at, never
from coilclaw.sandbox.files import lock_alone, put_durably
from coilclaw.sandbox.guard import clear_stand_in
from coilclaw.sandbox.keeping import Keeping
from coilclaw.sandbox.manifests import LINK, Entry, Facts, Manifest, Snapshot
from coilclaw.sandbox.scan import open_folder

_NAMED = 20
"""How many files an error names."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def never_held(_: str) -> bool:
    """No box has a mount on anything."""
    return False


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One file that an undo would restore or remove."""

    path: str
    entry: Entry | None
    """Its earlier state; None if it did not exist, so that it is removed."""
    since: bool
    """It was changed after the call."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo would do now."""

    snapshot: Snapshot
    changes: tuple[Change, ...]
    stays: tuple[str, ...]
    """New files that were changed after the call: they are left alone."""
    folders: tuple[str, ...]
    """New folders; removed if they are empty."""
    left_out: tuple[str, ...] = ()
    """What changed too, but is not restored."""
    governing: tuple[str, ...] = ()
    """What changed too, and is restored only if it is named."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file it would change."""
        return tuple(change.path for change in self.changes)


class Snapshots(Keeping):
    """The snapshots of one workspace, and restoring them."""

    def of_turn(self, turn: str) -> list[Manifest]:
        """The moments of a turn, the oldest first."""
        return [each for each in self.manifests.readable() if turn and each.turn == turn][::-1]

    def plan(self, snapshot_id: str, may_restore: Callable[[str], bool]) -> Plan:
        """Plan an undo to that snapshot, or to before the last turn."""
        try:
            return self._plan(self.first(snapshot_id), may_restore)
        finally:
            self.manifests.contents.look_anew()

    def _plan(self, first: Manifest, may_restore: Callable[[str], bool]) -> Plan:
        wanted: dict[str, Entry | None] = {}
        left: dict[str, Facts | None] = {}
        folders: dict[str, None] = {}
        missed: set[str] = set()
        for moment in self._from(first):
            missed |= {path for path in moment.missed if may_restore(path)}
            for path, entry in self._before(moment):
                if path.endswith("/"):
                    if may_restore(path):
                        folders[path] = None
                    continue
                wanted.setdefault(path, entry)
                left.pop(path, None)
            left |= moment.left or {}
        changes: list[Change] = []
        stays: list[str] = []
        for path, entry in wanted.items():
            if not may_restore(path):
                continue
            now = _facts(self.workspace / path)
            since = path in left and now != left[path]
            if entry is None:
                if now is not None and since:
                    stays.append(path)
                elif now is not None:
                    changes.append(Change(path=path, entry=None, since=False))
            elif not self._is_as(path, entry):
                changes.append(Change(path=path, entry=entry, since=since))
        return Plan(
            snapshot=first.short(),
            changes=tuple(sorted(changes, key=lambda change: change.path)),
            stays=tuple(sorted(stays)),
            folders=tuple(sorted(folders, reverse=True)),
            left_out=tuple(sorted(missed)),
        )

    def _from(self, first: Manifest) -> list[Manifest]:
        later = [each for each in self.manifests.readable() if each.id > first.id]
        return [first, *reversed(later)]

    def _before(self, moment: Manifest) -> Iterable[tuple[str, Entry | None]]:
        """The earlier state of each name touched after a snapshot; of every name if unknown."""
        if moment.whole and moment.left is None:
            return self.manifests.files_of(moment).items()
        if not moment.whole:
            names = dict[str, Entry | None].fromkeys(moment.absent) | moment.files
            return [(path, entry) for path, entry in names.items() if path not in moment.not_kept]
        touched = moment.left or {}
        if moment.parts and len(touched) > 8:
            files = self.manifests.files_of(moment)
            return [(path, files.get(path) if path not in moment.absent else None) for path in touched]
        return [(path, self.manifests.before(moment, path)) for path in touched]

    def held_before(self, snapshot_id: str) -> dict[str, str | None]:
        """What each file held that was touched after a snapshot of everything; empty where there was none."""
        if not snapshot_id:
            return {}
        moment = self.manifests.find(snapshot_id)
        if not moment.whole or moment.left is None:
            return {}
        found = {path: "" if entry is None else entry.content for path, entry in self._before(moment)}
        return {path: content for path, content in found.items() if path not in moment.not_kept}

    def held(self, paths: Iterable[str]) -> dict[str, str | None]:
        """What each of these files holds now; empty where there is none, None where it cannot be read, or where
        more than the largest file that is kept would have to be read in all."""
        left, found = self.limits.file_bytes, dict[str, str | None]()
        for path in paths:
            try:
                size = os.lstat(self.workspace / path).st_size
            except (FileNotFoundError, NotADirectoryError):
                found[path] = ""
                continue
            except (OSError, ValueError):
                size = left + 1
            found[path] = content_at(self.workspace, path) if size <= left else None
            left -= size if size <= left else 0
        return found

    def _is_as(self, path: str, entry: Entry) -> bool:
        """Whether a file is unchanged: the same content, and the same permissions where relevant."""
        try:
            info = os.lstat(self.workspace / path)
        except (OSError, ValueError):
            return False
        if entry.looks_like(info):
            return True
        same_mode = stat.S_ISLNK(info.st_mode) or (stat.S_IMODE(info.st_mode) ^ entry.mode) & 0o777 == 0
        return same_mode and content_at(self.workspace, path) == entry.content

    def changes(self, snapshot_id: str, may_restore: Callable[[str], bool]) -> list[str]:
        """The paths an undo would restore or remove."""
        return list(self.plan(snapshot_id, may_restore).paths)

    def restore(
        self,
        snapshot_id: str,
        may_restore: Callable[[str], bool],
        stopped: Callable[[], bool] = never,
        *,
        unkept: bool = False,
        held_by_boxes: Callable[[str], bool] = never_held,
    ) -> list[Change]:
        """Restore missing or changed files, and remove new ones. Returns what was done.

        The current content is stored first; with `unkept` files are changed even if that fails. A file that
        cannot be restored stops no other; a ToolError names it at the end. It gives up between two
        files if `stopped` says so. What boxes may hold a mount on is replaced only while none runs.
        """
        plan = self.plan(snapshot_id, may_restore)
        if not plan.changes:
            return []
        with self._without_boxes([path for path in plan.paths if held_by_boxes(path)]):
            return self._restore(plan, stopped, unkept=unkept)

    def _restore(self, plan: Plan, stopped: Callable[[], bool], *, unkept: bool) -> list[Change]:
        kept, failed = self._keep_first(plan, unkept=unkept)
        try:
            done = self._go_back(plan, {} if unkept else dict(failed), stopped)
        finally:
            self.manifests.contents.look_anew()
            if kept:
                self.settle(kept, plan.paths)
        return done

    @contextmanager
    def _without_boxes(self, paths: list[str]) -> Iterator[None]:
        """Refused while a command runs, if there are such paths."""
        if not paths:
            yield
            return
        with self._opened() as top:
            lock_alone(top)
            for path in paths:
                clear_stand_in(top, tuple(path.split("/")))
            yield

    def _go_back(self, plan: Plan, failed: dict[str, str], stopped: Callable[[], bool]) -> list[Change]:
        done: list[Change] = []
        made = [change for change in plan.changes if change.entry is None]
        others = [change for change in plan.changes if change.entry is not None]
        for change in (*made, None, *others):  # new files first: one may be in the way
            if change is None:
                self._remove_folders(plan.folders)
                continue
            if stopped():
                raise ToolError(
                    f"it was stopped: {len(done)} of {len(plan.changes)} files are restored.", code="STOPPED"
                )
            if change.path in failed:
                continue
            why = self._put_back(change.path, change.entry) if change.entry is not None else self._remove(change.path)
            if why is None:
                done.append(change)
            else:
                failed[change.path] = why
        if failed:
            raise _not_back(failed, len(done))
        return done

    def _keep_first(self, plan: Plan, *, unkept: bool) -> tuple[str, dict[str, str]]:
        """Store what would be changed as a separate snapshot, so that the undo can be undone."""
        around = {path.rsplit("/", count)[0] for path in plan.paths for count in range(1, path.count("/") + 1)}
        in_the_way = [path for path in sorted(around) if _facts(self.workspace / path) is not None]
        note = f"undo of {plan.snapshot.id} ({plan.snapshot.note})"
        try:
            kept, failed = self.keep_what_can_be((*in_the_way, *plan.paths), note)
        except (ToolError, OSError) as error:
            if not unkept:
                raise
            self.warn(f"the state before this undo could not be kept, so this undo cannot be undone: {error}")
            return "", {}
        whys = {path: f"its current content cannot be kept ({why})" for path, why in failed.items()}
        return kept, whys

    def _put_back(self, path: str, entry: Entry) -> str | None:
        """Restore one file, through real folders only; a link in the way is replaced, never followed.

        None once it is durable; otherwise the reason.
        """
        *parents, name = path.split("/")
        try:
            here = os.open(self.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for part in parents:
                    below = _open_folder(part, here)
                    os.close(here)
                    here = below
                if entry.content.startswith(LINK):
                    _put_link(here, name, entry.content.removeprefix(LINK))
                else:
                    put_durably(here, name, self.manifests.contents.pieces(entry.content), entry.mode)
            finally:
                os.close(here)
        except Damaged:
            return "its stored copy is damaged"
        except OSError as error:
            return error.strerror or type(error).__name__
        return None

    def _remove(self, path: str) -> str | None:
        folder, _, name = path.rpartition("/")
        try:
            top = os.open(self.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                here = open_folder(top, folder)
            finally:
                os.close(top)
            try:
                os.unlink(name, dir_fd=here)
                os.fsync(here)
            finally:
                os.close(here)
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.strerror or type(error).__name__
        return None

    def _remove_folders(self, folders: Iterable[str]) -> None:
        """Remove those that are empty, innermost first."""
        top = os.open(self.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                parent, _, name = folder.removesuffix("/").rpartition("/")
                try:
                    here = open_folder(top, parent)
                except OSError:
                    continue
                try:
                    os.rmdir(name, dir_fd=here)
                except OSError:
                    pass  # something is in it, or it is gone
                finally:
                    os.close(here)
        finally:
            os.close(top)


def _facts(path: "os.PathLike[str]") -> Facts | None:
    try:
        info = os.lstat(path)
    except (OSError, ValueError):
        return None
    return None if stat.S_ISDIR(info.st_mode) else Facts.of(info)


def _not_back(failed: dict[str, str], others: int) -> ToolError:
    """Names every file that was not restored, with the reason, and what happened to the rest."""
    reasons: dict[str, list[str]] = {}
    for path, why in failed.items():
        reasons.setdefault(why, []).append(path)
    parts: list[str] = []
    for why, paths in reasons.items():
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        of = why if len(paths) == 1 else why.replace(" of it ", " of them ")
        parts.append(f"{', '.join(paths[:_NAMED])}{more} cannot be restored: {of}.")
    rest = {0: "Nothing else needed restoring.", 1: "The other file was restored."}
    parts.append(rest.get(others, f"The other {others} files were restored."))
    remedy = "An older snapshot may have what is missing: `coilclaw undo --list`."
    return ToolError(" ".join(parts), remedy=remedy, code="FILE_ERROR")


def _open_folder(name: str, parent: int) -> int:
    """A real folder with that name, created if needed, replacing anything else."""
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
