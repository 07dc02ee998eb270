"""Queue sizes, in a few indexed counts."""

from typing import get_args

import msgspec

from coilclaw.packets.job import ENDED, JobState
from coilclaw.store.tx import Tx


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The open work."""

    waiting: int
    """Actions pending approval."""
    approved: int
    """Actions approved and not yet executed."""
    unknown: int
    """Actions with an unknown outcome; the owner resolves them."""
    open_jobs: int
    """Unfinished jobs."""


def sizes_of(db: Tx) -> Sizes:
    """How much of each is open now."""
    open_states = [state for state in get_args(JobState) if state not in ENDED]
    waiting, approved, unknown = db.execute(
        "SELECT (SELECT count(*) FROM proposed_actions WHERE status = 'PENDING' AND worker IS NULL),"
        " (SELECT count(*) FROM proposed_actions WHERE status = 'APPROVED'),"
        " (SELECT count(*) FROM proposed_actions WHERE status = 'UNKNOWN')"
    ).fetchone()
    marks = ", ".join("?" * len(open_states))
    jobs = db.execute(f"SELECT count(*) FROM jobs WHERE state IN ({marks})", open_states).fetchone()[0]  # noqa: S608
    return Sizes(waiting=waiting, approved=approved, unknown=unknown, open_jobs=jobs)
