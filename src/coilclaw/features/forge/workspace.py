"""The workspace and main: what changed outside pull requests is committed, and what was merged is put in place.

Both happen alone, under one lock for all processes. `settle` does both, in the order in which nothing is lost: first
the files of main that are not in the workspace yet, then a commit of whatever differs from main after that.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.store import deployed_commit, set_deployed
from coilclaw.gate.paths import classify
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import MAIN, FileChange
from coilclaw.sandbox.bot_repository import BotRepository
from coilclaw.sandbox.fast_import import FILE, OWNER, PROGRAM, ForgeRefused, Written, name_fault
from coilclaw.sandbox.files import FileGrant, NewFile, WorkspaceFiles, read_existing
from coilclaw.sandbox.git import blob_id
from coilclaw.sandbox.scan import open_folder
from coilclaw.store.job_trees import FileChanged, changed_since_commit, forget_changed
from coilclaw.store.lock import open_lock_file
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

FILE_BYTES = 50 << 20
"""A larger file is not committed."""
COMMIT_BYTES = 500 << 20
MOST_FILES = 100_000
AT_ONCE = 32
"""Files that are written before the disk is waited for; each holds two descriptors."""
NAMED = 1000
"""Actions that a commit names; the audit log has all of them."""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at the workspace found to commit."""

    written: tuple[Written, ...]
    left_out: tuple[str, ...]
    """Paths that are not committed, with the reason."""


class BotWorkspace:
    """The bot's repository and its workspace. Blocking: call it in a thread."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self.repository = BotRepository(app.workspace)
        self._kept = app.home.root / "forge"
        self._behind = self._kept / "index-behind"
        """There while the owner's own index could not be brought up to date."""

    def fault(self) -> str:
        """Why the forge cannot work here, with the remedy; empty when it can."""
        fault = self.repository.fault()
        if not fault and (there := self.repository.checked_out()) != MAIN:
            what = there.removeprefix("refs/heads/") or "no branch"
            fault = f"the workspace has {what} checked out, not main. Run: git -C {self._app.workspace} checkout main"
        return fault

    def main(self) -> str:
        """The commit that is in force."""
        return self.repository.resolve(MAIN)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the forge's lock: nobody else moves main or deploys meanwhile, in whatever process."""
        fd = open_lock_file(self._app.home.locks_dir / "forge")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def settle(self, why: str) -> str:
        """Bring workspace and main together; the commit on main that the workspace holds then."""
        with self.alone():
            return self.settle_alone(why)

    def settle_alone(self, why: str, main: str = "") -> str:
        """The same for one who holds the lock; `main` is the commit on it, if that was asked for already."""
        main = main or self._ready()
        self._deploy_alone(main)
        if self._behind.exists():
            self._refresh_index(main)
        return self._sweep(why, main)

    def _ready(self) -> str:
        """The commit on main, unless the forge cannot work here."""
        main = self.repository.main_in_force()
        if not main:
            raise ForgeRefused(self.fault() or "main has moved meanwhile; try again.", begun=False)
        return main

    # Main into the workspace

    def deploy(self, parent: str = "", merge: str = "") -> tuple[str, tuple[str, ...] | None]:
        """Put the files of main in place; what else changed in the workspace is committed before the next merge.

        It says which commit that was and, if the workspace goes from `parent` to its child `merge` now, which paths
        differ between them.
        """
        with self.alone():
            main = self._ready()
            step = bool(parent) and (deployed_commit(self._app.db.reader), main) == (parent, merge)
            changes = self._deploy_alone(main, follows=step)
            return main, tuple(each.path for each in changes) if step else None

    def _deploy_alone(self, main: str, *, follows: bool = False) -> list[FileChange]:
        """Put the files of main in place; those that somebody edited meanwhile keep the edit.

        `follows` says that main is known to descend from the commit whose files are in place.
        """
        db = self._app.db
        before = deployed_commit(db.reader)
        if before != main and not follows and not (before and self.repository.leads_to(before, main)):
            if before:
                self._app.warn("main was rewritten by hand; the files of the workspace stay as they are.")
            before = main
        changes = self.repository.changes(before, main) if before != main else []
        kept = self._put(changes, main)
        if deployed_commit(db.reader) != main:
            self._refresh_index(main)
            db.write_now(lambda tx: self._deployed(tx, main, kept))
        return changes

    def _refresh_index(self, commit: str) -> None:
        """Bring the owner's own index up to date. Where it is locked that is done later: the files are in place."""
        self._kept.mkdir(exist_ok=True, mode=0o700)
        try:
            self.repository.refresh_index(commit)
            self._behind.unlink(missing_ok=True)
        except ToolError as error:
            self._behind.touch()
            self._app.warn(f"`git status` in the workspace shows an older state for now: {error}")

    def _deployed(self, tx: Tx, main: str, kept: tuple[str, ...]) -> None:
        set_deployed(tx, main)
        if kept:
            add_event(tx, self._app.clock, "deploy_kept_edits", main, {"paths": list(kept[:100]), "count": len(kept)})

    def _put(self, changes: list[FileChange], main: str) -> tuple[str, ...]:
        """Bring these paths to what main holds; those that were edited meanwhile are kept, and named."""
        kept: list[str] = []
        wanted: list[FileChange] = []
        for change in sorted(changes, key=lambda each: bool(each.new_blob)):  # a file may come where a folder was
            if name_fault(change.path) or change.new_mode not in (FILE, PROGRAM, "000000"):
                continue  # the owner's own link or submodule: the owner put it there
            if change.new_blob and not change.old_blob:
                self._remove_empty(change.path)
            blob, mode = self._entry_at(change.path, main)
            if (blob, mode) == (change.new_blob, change.new_mode):
                continue
            if blob not in (change.old_blob, change.new_blob):
                kept.append(change.path)
            elif change.new_blob:
                wanted.append(change)
            else:
                self._app.reached("deploying")
                self._remove(change.path)
        for start in range(0, len(wanted), AT_ONCE):
            kept += self._write(wanted[start : start + AT_ONCE], main)
        return tuple(kept)

    def _entry_at(self, path: str, main: str) -> tuple[str, str]:
        """Blob id and mode of the file at a path; an empty id if there is none, `?` if it is not a regular file."""
        try:
            info = os.lstat(self._app.workspace / path)
        except (FileNotFoundError, NotADirectoryError):
            return "", "000000"
        except OSError:
            return "?", ""
        data = read_existing(self._app.workspace, path, FILE_BYTES) if stat.S_ISREG(info.st_mode) else None
        mode = PROGRAM if info.st_mode & 0o100 else FILE
        return ("?", "") if data is None else (blob_id(data, main), mode)

    def _write(self, changes: Sequence[FileChange], main: str) -> list[str]:
        """Put files in place; those that were edited just now are kept, and named."""
        blobs = self.repository.blobs(change.new_blob for change in changes)
        root = str(self._app.workspace)
        grants = [
            FileGrant(
                asked=each.path,
                root=root,
                relative=each.path,
                writable=True,
                alone=classify(each.path) in ("owner", "executed"),
            )
            for each in changes
        ]
        files = [NewFile(each.path, blobs[each.new_blob], each.new_mode == PROGRAM) for each in changes]
        before = {each.path: (each.old_blob, each.new_blob) for each in changes}
        kept: list[str] = []

        def ready(path: str) -> bool:
            if self._entry_at(path, main)[0] not in before[path]:
                kept.append(path)
                return False
            self._app.reached("deploying")
            return True

        WorkspaceFiles(tuple(grants), tag="deployed").write_all(files, ready)
        return kept

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError), self._folder_of(path) as (folder, name):
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)

    def _remove_empty(self, path: str) -> None:
        """Remove a folder in which there is nothing but folders; any other stays."""
        if not (self._app.workspace / path).is_dir():
            return
        with suppress(OSError), self._folder_of(path) as (folder, name):
            for _, inner, _, here in os.fwalk(name, topdown=False, dir_fd=folder):
                for each in inner:
                    os.rmdir(each, dir_fd=here)
            os.rmdir(name, dir_fd=folder)

    @contextmanager
    def _folder_of(self, path: str) -> Iterator[tuple[int, str]]:
        parent, _, name = path.rpartition("/")
        root = os.open(self._app.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            folder = open_folder(root, parent)
            try:
                yield folder, name
            finally:
                os.close(folder)
        finally:
            os.close(root)

    # The workspace into main

    def _sweep(self, why: str, main: str) -> str:
        known = changed_since_commit(self._app.db.reader)
        swept = self._look(main)
        if not swept.written:
            if known:  # what they changed is on main already, or was changed back
                self._app.db.write_now(lambda tx: forget_changed(tx, known))
            return main
        actions, outside = self._origins(swept.written, known, main)
        message = _message(why, swept, actions, outside)
        new = self.repository.commit(main, swept.written, message, OWNER, int(self._app.clock().timestamp()))
        self._app.reached("swept")
        self.repository.move(MAIN, new, main)
        self._app.reached("main_moved")
        self._refresh_index(new)

        def write(tx: Tx) -> None:
            set_deployed(tx, new)
            forget_changed(tx, known)
            add_event(
                tx,
                self._app.clock,
                "workspace_swept",
                new,
                {"files": len(swept.written), "outside": len(outside), "left_out": len(swept.left_out)},
            )

        self._app.db.write_now(write)
        return new

    def _origins(
        self, written: Sequence[Written], known: Sequence[FileChanged], main: str
    ) -> tuple[list[str], list[str]]:
        """The actions that had a part in these changes, and the paths that somebody else changed too, or alone."""
        steps: dict[str, list[FileChanged]] = {}
        for step in known:
            steps.setdefault(step.path, []).append(step)
        mine = [each for each in written if each.path in steps]
        outside = [each.path for each in written if each.path not in steps]
        entries = self.repository.entries(main) if mine else {}
        for start in range(0, len(mine), AT_ONCE):
            some = mine[start : start + AT_ONCE]
            blobs = self.repository.blobs(entries[each.path].blob for each in some if each.path in entries)
            for each in some:
                old = blobs[entries[each.path].blob] if each.path in entries else None
                if not _leads(steps[each.path], _hash(old), _hash(each.data)):
                    outside.append(each.path)
        return list(dict.fromkeys(step.action_id for each in mine for step in steps[each.path])), outside

    def _look(self, main: str) -> Swept:
        written: list[Written] = []
        left_out: list[str] = []
        weight = 0
        self._kept.mkdir(exist_ok=True, mode=0o700)
        (self._kept / "index.lock").unlink(missing_ok=True)  # left by a git that was killed: nobody else is here
        differing = self.repository.differing(main, self._kept)
        entries = self.repository.entries(main) if differing else {}
        for path in differing:
            entry = entries.get(path)
            if fault := name_fault(path):
                left_out.append(f"{path!r}: {fault}")
                continue
            found = read_file(self._app.workspace, path)
            if found is None:
                if entry is not None:
                    written.append(Written(path, None))
                continue
            data, mode = found
            if data is None:
                left_out.append(f"{path}: {mode}")
                continue
            if entry is not None and entry.mode == mode and entry.blob == blob_id(data, main):
                continue
            weight += len(data)
            if weight > COMMIT_BYTES or len(written) >= MOST_FILES:
                raise ForgeRefused(
                    "too much changed in the workspace for one commit.",
                    remedy="Add what does not belong to the bot to .gitignore, or commit a part of it yourself.",
                    begun=False,
                )
            written.append(Written(path, data, mode))
        if left_out:
            self._app.warn(f"not committed: {'; '.join(left_out[:5])}{' …' if len(left_out) > 5 else ''}")
        return Swept(written=tuple(written), left_out=tuple(left_out))


def read_file(root: Path, path: str) -> tuple[bytes, str] | tuple[None, str] | None:
    """What a file holds and its mode; None when it is gone; without data, why it cannot be committed."""
    try:
        info = os.lstat(root / path)
    except OSError as error:
        return None if error.errno in (errno.ENOENT, errno.ENOTDIR) else (None, error.strerror or "it cannot be read")
    if not stat.S_ISREG(info.st_mode):
        return None, "it is not a regular file"
    if info.st_size > FILE_BYTES:
        return None, f"it is larger than {FILE_BYTES >> 20} MiB"
    data = read_existing(root, path, FILE_BYTES)
    if data is None:
        return None, "it cannot be read"
    return data, PROGRAM if info.st_mode & 0o100 else FILE


def _hash(data: bytes | None) -> str:
    return "" if data is None else sha256_hex(data)


def _leads(steps: Sequence[FileChanged], before: str, after: str) -> bool:
    """Whether actions alone lead from one content of a file to another; what nobody knows is not held against them."""
    at: str | None = before
    for step in steps:
        if at is not None and step.before not in (None, at):
            return False
        at = step.after
    return at in (None, after)


def _message(why: str, swept: Swept, actions: list[str], outside: list[str]) -> str:
    count = len(swept.written)
    lines = [f"Changes in the workspace ({count} file{'' if count == 1 else 's'})", "", f"Committed {why}."]
    if swept.left_out:
        lines.append(f"Left out: {len(swept.left_out)} that cannot be committed.")
    lines += ["", *(f"Action: {action}" for action in actions[:NAMED])]
    if outside:
        lines.append("Origin: outside")
    return "\n".join(lines)
