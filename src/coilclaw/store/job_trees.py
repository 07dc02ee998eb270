"""The folders that jobs work in: copies of the workspace at a commit, one for each job that has any."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx

MOST_CHANGES = 20_000
"""The most changes of files to remember where no commit is ever made."""
Held: TypeAlias = tuple[str | None, str | None]
"""SHA-256 of what a file held before an action and after it: empty where there was none, None where nobody knows."""


class FileChanged(NamedTuple):
    """An action that changed a file of the workspace."""

    seq: int
    path: str
    action_id: str
    before: str | None
    after: str | None


class JobTree(msgspec.Struct, frozen=True, kw_only=True):
    """One job's own folder."""

    job_id: str
    folder: str
    inode: int
    """Of the folder that was made: another one at its path is not the job's."""
    base_sha: str
    """The commit on main that it was made from."""
    made_at: str
    removed_at: str | None


_SELECT = "SELECT job_id, folder, inode, base_sha, made_at, removed_at FROM job_trees"


def _tree(row: tuple[str, str, int, str, str, str | None]) -> JobTree:
    job_id, folder, inode, base_sha, made_at, removed_at = row
    return JobTree(job_id=job_id, folder=folder, inode=inode, base_sha=base_sha, made_at=made_at, removed_at=removed_at)


def load_tree(db: Tx, job_id: str) -> JobTree | None:
    """The folder of a job, also one that was removed; None when the job never had one."""
    row = db.execute(f"{_SELECT} WHERE job_id = ?", (job_id,)).fetchone()
    return None if row is None else _tree(row)


def open_trees(db: Tx) -> list[JobTree]:
    """Every folder that was not removed."""
    return [_tree(row) for row in db.execute(f"{_SELECT} WHERE removed_at IS NULL ORDER BY job_id")]


def put_tree(tx: Tx, clock: Clock, job_id: str, *, folder: str, inode: int, base_sha: str) -> None:
    """Note the folder a job works in from now on."""
    tx.execute(
        "INSERT INTO job_trees (job_id, folder, inode, base_sha, made_at, removed_at) VALUES (?, ?, ?, ?, ?, NULL)"
        " ON CONFLICT (job_id) DO UPDATE SET folder = excluded.folder, inode = excluded.inode,"
        " base_sha = excluded.base_sha, made_at = excluded.made_at, removed_at = NULL",
        (job_id, folder, inode, base_sha, stamp(clock())),
    )


def drop_tree(tx: Tx, clock: Clock, job_id: str) -> None:
    """Note that a job's folder is gone; the row stays, so that the job never comes to work elsewhere."""
    tx.execute("UPDATE job_trees SET removed_at = ? WHERE job_id = ?", (stamp(clock()), job_id))


# What changed the workspace


def note_changed(tx: Tx, action_id: str, held: Mapping[str, Held]) -> None:
    """Note which files of the workspace an action changed, until a commit names it; the oldest of very many go."""
    rows = [(path, action_id, before, after) for path, (before, after) in held.items()]
    tx.executemany("INSERT INTO changed_files (path, action_id, before, after) VALUES (?, ?, ?, ?)", rows)
    tx.execute("DELETE FROM changed_files WHERE seq <= (SELECT max(seq) FROM changed_files) - ?", (MOST_CHANGES,))


def changed_since_commit(db: Tx) -> list[FileChanged]:
    """What actions changed in the workspace since the last commit, in order."""
    rows = db.execute("SELECT seq, path, action_id, before, after FROM changed_files ORDER BY seq")
    return [FileChanged(*row) for row in rows]


def forget_changed(tx: Tx, known: Sequence[FileChanged]) -> None:
    """Forget these changes, which a commit now contains; files changed again meanwhile stay noted."""
    if known:
        tx.execute("DELETE FROM changed_files WHERE seq <= ?", (known[-1].seq,))
