"""Runs of SOPs in pages: which ones come next, the newest first."""

from collections.abc import Sequence

from coilclaw.store.sops import RunState
from coilclaw.store.tx import Tx


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
