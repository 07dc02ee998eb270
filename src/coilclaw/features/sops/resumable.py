"""Runs that waited and need not any more: what they waited for has its end, and nobody has gone on with them yet."""

from coilclaw.store.tx import Tx

MOST_RUNS = 50
WORKER_NAME = "behind"
"""How whoever goes on with runs in the background is named, so that what a killed one held is known as its own."""

_OPEN = """
SELECT 1 FROM sop_steps s LEFT JOIN proposed_actions a ON a.action_id = s.action_id
WHERE s.run_id = r.run_id AND s.state = 'WAITING' AND coalesce(a.status, '') IN ('PENDING', 'APPROVED', 'UNKNOWN')
"""


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
