"""Trees: the folder a job works in, made from a commit on main, and what the job changed in it."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.workspace import COMMIT_BYTES, FILE_BYTES, MOST_FILES, BotWorkspace, read_file
from coilclaw.ledger.audit import add_event
from coilclaw.packets.errors import UsageError
from coilclaw.packets.job import ENDED
from coilclaw.packets.workspace import RUNTIME_ONLY
from coilclaw.sandbox.bot_repository import TreeEntry
from coilclaw.sandbox.fast_import import BESIDE, ForgeRefused, Written, name_fault
from coilclaw.sandbox.git import blob_id, file_blob_id
from coilclaw.store.job_trees import JobTree, drop_tree, load_tree, open_trees, put_tree
from coilclaw.store.jobs import load_job
from coilclaw.store.labels import copy_labels, drop_root
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


TOO_MUCH = (
    f"the job changed more than one pull request may hold: {MOST_FILES:,} files and {COMMIT_BYTES >> 20} MiB in all."
)


class TreeChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between a tree and the commit it was made from."""

    written: tuple[Written, ...]
    left_out: tuple[str, ...]
    """Paths that cannot be committed, with the reason."""


class Trees:
    """Makes, reads and removes the trees of jobs. Blocking: call it in a thread."""

    def __init__(self, app: "Runtime", bot: BotWorkspace) -> None:
        self._app = app
        self._bot = bot
        self._folder = app.config.trees_dir

    def make(self, job_id: str) -> JobTree:
        """The tree of a job, made from main when it has none yet."""
        tree = load_tree(self._app.db.reader, job_id)
        if tree is not None:
            if tree.removed_at is not None or not Path(tree.folder).is_dir():
                raise UsageError(f"the folder that {job_id} worked in is gone.", remedy="Create the job again.")
            return tree
        base = self._bot.settle(f"before {job_id} began")
        return self.put(job_id, base, base)

    def put(self, job_id: str, files: str, base: str) -> JobTree:
        """Give a job a tree with the files of a commit or tree, as made from `base`; what it had is replaced."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh, place = self._folder / f".new-{job_id}", self._folder / job_id
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._bot.repository.export(files, fresh)
        self._app.reached("tree_made")
        if place.exists():
            old = self._folder / f".old-{job_id}"
            shutil.rmtree(old, ignore_errors=True)
            place.rename(old)
            shutil.rmtree(old, ignore_errors=True)
        fresh.rename(place)
        inode = place.stat().st_ino

        def write(tx: Tx) -> JobTree | None:
            put_tree(tx, self._app.clock, job_id, folder=str(place), inode=inode, base_sha=base)
            copy_labels(tx, "", job_id)  # what it holds is what main held, and as untrusted
            add_event(tx, self._app.clock, "job_tree_made", job_id, {"base": base})
            return load_tree(tx, job_id)

        made = self._app.db.write_now(write)
        assert made is not None  # noqa: S101 - just written
        return made

    def changes(self, tree: JobTree) -> TreeChanges:
        """What the job changed, compared by content; the runtime's own folders are not looked into."""
        folder = Path(tree.folder)
        entries = self._bot.repository.entries(tree.base_sha)
        written: list[Written] = []
        left_out: list[str] = []
        weight = 0
        there: set[str] = set()
        for path in _files_below(folder):
            there.add(path)
            data, mode = read_file(folder, path) or (None, "it vanished")
            if (entry := entries.get(path)) is not None and _is_same(folder / path, entry, data, mode, tree.base_sha):
                continue
            if fault := name_fault(path):
                left_out.append(f"{path!r}: {fault}")
                continue
            if data is None:
                left_out.append(f"{path}: {mode}")
                continue
            weight += len(data)
            if weight > COMMIT_BYTES or len(written) >= MOST_FILES:
                raise ForgeRefused(TOO_MUCH, begun=False)
            written.append(Written(path, data, mode))
        gone = (path for path in entries if path not in there and path.split("/")[0] not in RUNTIME_ONLY)
        written += [Written(path, None) for path in sorted(gone)]
        if len(written) > MOST_FILES:
            raise ForgeRefused(TOO_MUCH, begun=False)
        return TreeChanges(written=tuple(written), left_out=tuple(left_out))

    def remove(self, job_id: str) -> None:
        """Remove the tree of a job that is over."""
        tree = load_tree(self._app.db.reader, job_id)
        if tree is None or tree.removed_at is not None:
            return
        shutil.rmtree(tree.folder, ignore_errors=True)
        shutil.rmtree(self._app.home.trees_dir / job_id, ignore_errors=True)

        def write(tx: Tx) -> None:
            drop_tree(tx, self._app.clock, job_id)
            drop_root(tx, job_id)

        self._app.db.write_now(write)

    def tidy(self) -> int:
        """Remove the trees of jobs that are over, and what killed processes left; how many there were."""
        over = [tree.job_id for tree in open_trees(self._app.db.reader) if self._is_over(tree.job_id)]
        for job_id in over:
            self.remove(job_id)
        left = list(self._left())
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)
        return len(over) + len(left)

    def _left(self) -> Iterator[Path]:
        """Half-made and replaced trees of jobs that are over: while a job is not, a process may be at them."""
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            job_id = folder.name.removeprefix(".new-").removeprefix(".old-")
            if job_id != folder.name and self._is_over(job_id.removesuffix(BESIDE)):
                yield folder

    def _is_over(self, job_id: str) -> bool:
        job = load_job(self._app.db.reader, job_id)
        return job is None or job.state in ENDED


def is_there(entry: TreeEntry | None, written: Written, like: str) -> bool:
    """Whether a commit holds a file already as it is to be written, or lacks one that is to go."""
    there = None if entry is None else (entry.mode, entry.blob)
    return there == (None if written.data is None else (written.mode, blob_id(written.data, like)))


def _is_same(file: Path, entry: TreeEntry, data: bytes | None, mode: str, base: str) -> bool:
    """Whether a file is as it came; one that is too large to be committed is read piece by piece."""
    if data is not None:
        return entry.mode == mode and entry.blob == blob_id(data, base)
    try:
        found = file.lstat()
        same_size = entry.size > FILE_BYTES and stat.S_ISREG(found.st_mode) and found.st_size == entry.size
        return same_size and file_blob_id(file, base) == entry.blob
    except OSError:
        return False


def _files_below(top: Path) -> Iterator[str]:
    """Everything in a tree that is not a folder, by path, in order; no link is followed."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(top / folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name, reverse=True)
        for entry in found:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not folder and entry.name in RUNTIME_ONLY:
                continue
            if entry.is_dir(follow_symlinks=False) and not entry.is_symlink():
                waiting.append(path)
            elif not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                yield path
