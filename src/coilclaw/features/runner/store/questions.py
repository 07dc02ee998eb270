"""Questions about sessions that viewers are told of."""

from coilclaw.store.threads import OWNER_ID
from coilclaw.store.tx import Tx


def told_of(db: Tx, session_id: str, action_id: str) -> list[str]:
    """What a session's viewers were told about a question, in order: that it was asked, and that it was answered."""
    rows = db.execute(
        "SELECT event_type FROM audit_log WHERE entity_id = ? AND json_extract(payload_json, '$.approval_id') = ?"
        " AND event_type IN ('session_approval_requested', 'session_approval_resolved') ORDER BY seq",
        (session_id, action_id),
    )
    return [str(row[0]) for row in rows]


def pushes_after(db: Tx, row: int) -> list[tuple[int, str]]:
    """The questions whether commits may leave a session that were stored after a row, each with its own."""
    found = db.execute(
        "SELECT rowid, action_id FROM proposed_actions"
        " WHERE user_id = ? AND tool = 'session_push' AND rowid > ? ORDER BY rowid",
        (OWNER_ID, row),
    )
    return [(int(place), str(action_id)) for place, action_id in found]
