"""The folders that jobs work in: copies of the workspace at a commit, one for each job that has any."""

import msgspec

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx


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


def note_changed(tx: Tx, action_id: str, paths: list[str]) -> None:
    """Note which action last changed these files of the workspace, until a commit names it."""
    tx.executemany(
        "INSERT INTO changed_files (path, action_id) VALUES (?, ?)"
        " ON CONFLICT (path) DO UPDATE SET action_id = excluded.action_id",
        [(path, action_id) for path in paths],
    )


def changed_by(db: Tx) -> dict[str, str]:
    """Files of the workspace that actions changed since the last commit, and the action that did it last."""
    return dict(db.execute("SELECT path, action_id FROM changed_files").fetchall())


def forget_changed(tx: Tx, known: dict[str, str]) -> None:
    """These changes stand in a commit now; what was changed again meanwhile stays noted."""
    tx.executemany("DELETE FROM changed_files WHERE path = ? AND action_id = ?", list(known.items()))
