"""Actions that run in the background: claimed, recorded as running, without an outcome."""

from coilclaw.packets.action import RUNNING, Action
from coilclaw.store.actions import select_actions
from coilclaw.store.projects import project_of
from coilclaw.store.tx import Tx

IS_RUNNING = (
    "(begun_at IS NOT NULL AND status = 'APPROVED' AND coalesce("
    f"json_extract(CASE WHEN json_valid(result_json) THEN result_json END, '$.code'), '') = '{RUNNING}')"
)
"""The condition for such an action; never null."""
_MOST = 1000


def running_actions(db: Tx, turn_id: str) -> list[Action]:
    """The background actions of a turn or a job, in any process."""
    found = select_actions(db, f"{IS_RUNNING} AND turn_id = ?", (turn_id,), _MOST)
    return [action for action, _, _ in found if action is not None]


def count_running(db: Tx, action: Action) -> int:
    """How many actions run in the background of the same conversation or job."""
    row = db.execute(
        f"SELECT count(*) FROM proposed_actions WHERE {IS_RUNNING} AND thread_id = ? AND job_id IS ?",  # noqa: S608
        (action.thread_id, action.job_id),
    ).fetchone()
    return int(row[0])


def running_since(db: Tx, action_id: str) -> str | None:
    """When a background action was claimed; None if it is not running."""
    row = db.execute(
        f"SELECT begun_at FROM proposed_actions WHERE {IS_RUNNING} AND action_id = ?",  # noqa: S608
        (action_id,),
    ).fetchone()
    return None if row is None else str(row[0])


def running_commands(db: Tx, root: str) -> list[str]:
    """The ids of commands running in a root, in the background or not, in any process."""
    rows = db.execute(
        "SELECT a.action_id, a.thread_id, t.job_id FROM proposed_actions a LEFT JOIN job_trees t ON t.job_id = a.job_id"
        " WHERE a.status = 'APPROVED' AND a.begun_at IS NOT NULL AND a.tool = 'shell'"
    )
    return [action_id for action_id, thread_id, tree in rows.fetchall() if (tree or project_of(db, thread_id)) == root]
