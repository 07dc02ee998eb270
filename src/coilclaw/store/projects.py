"""Projects: the owner's own folders that the agent may work in, and which one a conversation works in."""

import msgspec

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx

KIND = "prj"
"""The prefix of project ids."""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """One of the owner's folders."""

    project_id: str
    name: str
    path: str
    inode: int
    vouched: bool
    """Its files count as the owner's, except those with their own label."""
    added_at: str
    removed_at: str | None


_SELECT = "SELECT project_id, name, path, inode, vouched, added_at, removed_at FROM projects"


def _project(row: tuple[str, str, str, int, int, str, str | None]) -> Project:
    return Project(
        project_id=row[0],
        name=row[1],
        path=row[2],
        inode=row[3],
        vouched=bool(row[4]),
        added_at=row[5],
        removed_at=row[6],
    )


def open_projects(db: Tx) -> list[Project]:
    """Every active project, by name."""
    return [_project(row) for row in db.execute(f"{_SELECT} WHERE removed_at IS NULL ORDER BY name")]


def load_project(db: Tx, project_id: str) -> Project | None:
    """A project, removed or not."""
    row = db.execute(f"{_SELECT} WHERE project_id = ?", (project_id,)).fetchone()
    return None if row is None else _project(row)


def project_named(db: Tx, name: str) -> Project | None:
    """The active project with that name."""
    row = db.execute(f"{_SELECT} WHERE name = ? AND removed_at IS NULL", (name,)).fetchone()
    return None if row is None else _project(row)


def last_named(db: Tx, name: str) -> Project | None:
    """The project of that name; when it was removed, the one that had it last."""
    row = db.execute(
        f"{_SELECT} WHERE name = ? ORDER BY removed_at IS NOT NULL, removed_at DESC, added_at DESC", (name,)
    ).fetchone()
    return None if row is None else _project(row)


def earlier_project(db: Tx, path: str, inode: int) -> Project | None:
    """The last removed project with exactly this folder."""
    row = db.execute(
        f"{_SELECT} WHERE path = ? AND inode = ? AND removed_at IS NOT NULL ORDER BY removed_at DESC", (path, inode)
    ).fetchone()
    return None if row is None else _project(row)


def put_project(tx: Tx, clock: Clock, *, project_id: str, name: str, path: str, inode: int, vouched: bool) -> None:
    """Add a project, or restore a removed one under its id with its conversations and labels."""
    tx.execute(
        "INSERT INTO projects (project_id, name, path, inode, vouched, added_at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (project_id) DO UPDATE SET name = excluded.name, path = excluded.path, inode = excluded.inode,"
        " vouched = excluded.vouched, added_at = excluded.added_at, removed_at = NULL",
        (project_id, name, path, inode, vouched, stamp(clock())),
    )


def drop_project(tx: Tx, clock: Clock, project_id: str) -> bool:
    """Remove a project; nothing works in its folder any more. False if it was already removed."""
    gone = tx.execute(
        "UPDATE projects SET removed_at = ? WHERE project_id = ? AND removed_at IS NULL", (stamp(clock()), project_id)
    )
    return gone.rowcount == 1


def conversations_in(db: Tx, project_id: str) -> int:
    """How many conversations have worked in a project."""
    (found,) = db.execute("SELECT count(*) FROM thread_projects WHERE project_id = ?", (project_id,)).fetchone()
    return found


def vouch_for(tx: Tx, project_id: str, *, vouched: bool) -> bool:
    """Set whether a project's files count as the owner's; False if there is no such project."""
    done = tx.execute(
        "UPDATE projects SET vouched = ? WHERE project_id = ? AND removed_at IS NULL", (vouched, project_id)
    )
    return done.rowcount == 1


def project_of(db: Tx, thread_id: str) -> str:
    """The id of the project a conversation works in, empty for the workspace.

    A call that the owner makes by hand in a project has the project's id as its conversation. A deleted conversation
    keeps its project: one of its follow-ups or actions may still run.
    """
    if thread_id.startswith(f"{KIND}_"):
        return thread_id
    row = db.execute("SELECT project_id FROM thread_projects WHERE thread_id = ?", (thread_id,)).fetchone()
    return "" if row is None else row[0]
