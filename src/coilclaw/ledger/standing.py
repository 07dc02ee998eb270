"""Standing answers checked against the key: each row must be exactly what this home last wrote."""

from collections.abc import Iterator

import msgspec

from coilclaw.ledger.audit import add_event
from coilclaw.ledger.audit_chain import Fault
from coilclaw.ledger.vouch import mac_of, row_mac
from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.text import one_line
from coilclaw.store.database import Connection
from coilclaw.store.standing_answers import StandingAnswer, add_answer, change_answer, load_answer
from coilclaw.store.tx import Tx

_REVOKED = "SELECT 1 FROM audit_log WHERE entity_id = ? AND event_type = 'answer_revoked' LIMIT 1"
_ANSWERS = "SELECT answer_id, revoked_at FROM standing_answers"


def keep_answer(tx: Tx, clock: Clock, answer: StandingAnswer) -> None:
    """Write a new answer and its audit event."""
    add_answer(tx, _vouched(tx, answer))
    told: dict[str, Json] = {"what": answer.what, "digest": answer.digest, "by": answer.created_by}
    told |= {"action_id": answer.action_id, "thread_id": answer.thread_id, "expires_at": answer.expires_at}
    add_event(tx, clock, "answer_created", answer.answer_id, told)


def use_answer(tx: Tx, clock: Clock, answer_id: str, thread_id: str, action_id: str) -> bool:
    """Count a use of an answer; False if it is no longer valid, or its row has no valid MAC."""
    answer, now = load_answer(tx, answer_id), stamp(clock())
    if answer is None or not answer.is_open(now) or answer.thread_id not in (None, thread_id):
        return False
    if not _is_vouched(tx, answer) or tx.execute(_REVOKED, (answer_id,)).fetchone() is not None:
        return False
    used = msgspec.structs.replace(answer, uses=answer.uses + 1, last_used_at=now)
    change_answer(tx, _vouched(tx, used))
    add_event(tx, clock, "answer_used", answer_id, {"action_id": action_id, "uses": used.uses})
    return True


def revoke_answer(tx: Tx, clock: Clock, answer_id: str, by: str) -> bool:
    """Revoke an answer; False if it had already ended. A row without a valid MAC does not get one."""
    answer, now = load_answer(tx, answer_id), stamp(clock())
    if answer is None or not answer.is_open(now):
        return False
    ended = msgspec.structs.replace(answer, revoked_at=now, revoked_by=by)
    change_answer(tx, _vouched(tx, ended) if _is_vouched(tx, answer) else ended)
    add_event(tx, clock, "answer_revoked", answer_id, {"by": by})
    return True


def answer_faults(db: Tx, key: bytes | None) -> Iterator[Fault]:
    """What is wrong with the standing answers."""
    for answer_id, revoked_at in db.execute(_ANSWERS).fetchall():
        name = f"standing answer {one_line(str(answer_id))[:60]}"
        answer = load_answer(db, answer_id)
        if answer is None or (key is not None and answer.mac != mac_of(key, b"answer", answer.stated)):
            yield Fault(0, "forged", f"{name} differs from what this home wrote")
        elif revoked_at is None and db.execute(_REVOKED, (answer_id,)).fetchone() is not None:
            yield Fault(0, "edited", f"{name} is active, but was revoked")


def _vouched(tx: Tx, answer: StandingAnswer) -> StandingAnswer:
    return msgspec.structs.replace(answer, mac=row_mac(tx, b"answer", answer.stated))


def _is_vouched(tx: Tx, answer: StandingAnswer) -> bool:
    key = tx.row_key if isinstance(tx, Connection) else None
    return key is None or answer.mac == mac_of(key, b"answer", answer.stated)
