"""Where skills were used: read from the audit events of the turns."""

from typing import NamedTuple

import msgspec

from coilclaw.packets.skill import USED, SkillUse
from coilclaw.store.tx import Tx

LOOKED_AT = 100_000
"""Events, from the newest one on: the trail is long, and nobody needs its beginning here."""

_USES = """
SELECT a.payload_json, a.created_at, a.entity_id, j.job_id, coalesce(j.thread_id, t.thread_id, '')
FROM audit_log a
LEFT JOIN jobs j ON j.job_id = 'job_' || substr(a.entity_id, 6)
LEFT JOIN turns t ON t.turn_id = a.entity_id
WHERE a.seq > (SELECT coalesce(max(seq), 0) FROM audit_log) - ? AND a.event_type = ?
ORDER BY a.seq DESC
"""
_USE = msgspec.json.Decoder(SkillUse)


class Used(NamedTuple):
    """One turn or job that worked under a skill."""

    use: SkillUse
    at: str
    turn_id: str
    job_id: str | None
    thread_id: str


def latest_uses(db: Tx, name: str, most: int) -> list[Used]:
    """The turns and jobs that worked under a skill, the newest first."""
    found: list[Used] = []
    for payload, at, turn_id, job_id, thread_id in db.execute(_USES, (LOOKED_AT, USED)):
        try:
            use = _USE.decode(payload)
        except msgspec.DecodeError:
            continue
        if use.skill == name:
            found.append(Used(use, at, turn_id, job_id, thread_id))
        if len(found) == most:
            break
    return found
