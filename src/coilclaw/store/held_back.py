"""Actions that a turn may not send because of what it read, and the owner's renewed proposals of them."""

from collections.abc import Iterable

import msgspec

from coilclaw.packets.action import Status
from coilclaw.packets.decision import HELD_BACK
from coilclaw.store.tx import Tx


class Reproposed(msgspec.Struct, frozen=True, kw_only=True):
    """A refused action that the owner proposed again, and its current replacement."""

    of: str
    action_id: str
    status: Status


def reproposed_actions(db: Tx, turns: Iterable[str]) -> dict[str, Reproposed]:
    """For each refused action of these turns, the owner's newest proposal of the same bytes."""
    rows = db.execute(
        "SELECT CASE WHEN json_valid(e.payload_json) THEN json_extract(e.payload_json, '$.of') END, a.action_id,"
        " a.status FROM proposed_actions a"
        " JOIN audit_log e ON e.entity_id = a.action_id AND e.event_type = 'tool_reproposed'"
        " WHERE a.turn_id IN (SELECT value FROM json_each(?)) ORDER BY a.rowid",
        (msgspec.json.encode(sorted(set(turns))).decode(),),
    ).fetchall()
    return {
        of: Reproposed(of=of, action_id=action_id, status=msgspec.convert(status, Status))
        for of, action_id, status in rows
        if isinstance(of, str)
    }


def held_back(db: Tx, turn_id: str) -> list[str]:
    """The sends of a turn that were denied because of what it read."""
    rows = db.execute(
        "SELECT action_id FROM proposed_actions WHERE turn_id = ? AND status = 'REJECTED'"
        " AND CASE WHEN json_valid(decision_json) THEN json_extract(decision_json, '$.code') END = ? ORDER BY rowid",
        (turn_id, HELD_BACK),
    ).fetchall()
    again = reproposed_actions(db, (turn_id,))
    return [row[0] for row in rows if row[0] not in again]
