"""Events of the audit log that may be news for the owner."""

from datetime import timedelta
from typing import NamedTuple

from coilclaw.ledger.audit import last_number
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx

FIRST_LOOK = timedelta(days=1)
"""Where nobody ever looked, older events are no news."""
_FOLLOWED = (
    "event_type IN ('approval_needed', 'job_state', 'reach_out', 'oauth_reconnect_needed', 'alert_raised',"
    " 'session_alert_raised', 'guest_changed')"
)


class FollowedEvent(NamedTuple):
    """An event of the audit log that may be news."""

    seq: int
    event_type: str
    entity_id: str
    payload: str


def any_followed(db: Tx, start: int, until: int) -> bool:
    """Whether any event after `start` and up to `until` may be news."""
    found = db.execute(
        f"SELECT 1 FROM audit_log WHERE seq > ? AND seq <= ? AND {_FOLLOWED} LIMIT 1",  # noqa: S608
        (start, until),
    )
    return found.fetchone() is not None


def followed(tx: Tx, start: int, until: int) -> list[FollowedEvent]:
    """Those events, in order."""
    rows = tx.execute(
        "SELECT seq, event_type, entity_id, payload_json FROM audit_log"  # noqa: S608
        f" WHERE seq > ? AND seq <= ? AND {_FOLLOWED} ORDER BY seq",
        (start, until),
    ).fetchall()
    return [FollowedEvent._make(row) for row in rows]


def first_place(tx: Tx, clock: Clock) -> int:
    """The number before the first event that is still news."""
    row = tx.execute(
        "SELECT seq FROM audit_log WHERE created_at >= ? ORDER BY created_at, seq LIMIT 1",
        (stamp(clock() - FIRST_LOOK),),
    ).fetchone()
    return last_number(tx) if row is None else int(row[0]) - 1


def thread_of_job(db: Tx, job_id: str) -> str | None:
    """The conversation of a job, even if its row cannot be read; None if there is no such job."""
    row = db.execute("SELECT thread_id FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    return None if row is None else str(row[0])
