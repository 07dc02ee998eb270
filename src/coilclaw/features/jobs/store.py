"""How many calls of a job the gate has seen: every action it proposed, whatever became of it."""

from coilclaw.store.tx import Tx


def calls_of_job(db: Tx, job_id: str) -> int:
    """Actions that belong to a job."""
    row = db.execute("SELECT count(*) FROM proposed_actions WHERE job_id = ?", (job_id,)).fetchone()
    return int(row[0])
