"""Runs of SOPs: in pages, the newest first, and those that waited for something that has its end by now."""

from collections.abc import Sequence

from coilclaw.store.sops import RunState
from coilclaw.store.tx import Tx

MOST_RUNS = 50
WORKER_NAME = "behind"
"""The name under which the background worker claims runs, so that it recognises the claims of a killed one."""

_OPEN = """
SELECT 1 FROM sop_steps s LEFT JOIN proposed_actions a ON a.action_id = s.action_id
WHERE s.run_id = r.run_id AND s.state = 'WAITING' AND coalesce(a.status, '') IN ('PENDING', 'APPROVED', 'UNKNOWN')
"""


def run_ids_before(
    db: Tx,
    before: str | None,
    limit: int,
    *,
    states: Sequence[RunState] | None = None,
    alone: bool = False,
) -> list[str]:
    """Ids of runs, the newest first, from below an id on; `alone` are those that are no job's work. Ids sort by birth,
    so that their own index gives the order."""
    terms, values = ["run_id < ?"], ["sop_~" if before is None else before]
    if alone:
        terms.append("job_id IS NULL")
    if states is not None:
        terms.append(f"state IN ({', '.join('?' * len(states))})")
        values += states
    rows = db.execute(
        f"SELECT run_id FROM sop_runs WHERE {' AND '.join(terms)} ORDER BY run_id DESC LIMIT ?",  # noqa: S608
        (*values, limit),
    )
    return [row[0] for row in rows]


def is_answered(db: Tx, run_id: str) -> bool:
    """Whether the owner has answered what a run waits for, by whatever door, and the run has not heard it yet."""
    row = db.execute(
        "SELECT 1 FROM sop_runs r JOIN sop_steps s USING (run_id) JOIN proposed_actions a ON a.action_id = s.action_id"
        " WHERE r.run_id = ? AND r.state = 'WAITING' AND s.state = 'WAITING' AND s.code = 'APPROVAL_NEEDED'"
        " AND a.status <> 'PENDING'",
        (run_id,),
    ).fetchone()
    return row is not None


def to_go_on_with(db: Tx) -> list[tuple[str, str | None]]:
    """Runs, no job's, that a worker goes on with, and who holds each: what waited and was answered, and what a worker
    held that may be gone. What was cut off at a terminal stays with the owner."""
    query = (
        "SELECT r.run_id, r.worker FROM sop_runs r WHERE r.job_id IS NULL AND ("  # noqa: S608
        f"(r.state = 'WAITING' AND NOT EXISTS ({_OPEN})) OR (r.state = 'RUNNING' AND r.worker LIKE '{WORKER_NAME}\\_%'"
        f" ESCAPE '\\')) ORDER BY r.updated_at, r.run_id LIMIT {MOST_RUNS}"
    )
    return [(str(run_id), worker) for run_id, worker in db.execute(query)]
