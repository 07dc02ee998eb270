"""When accounts were last used, and what cards about mail were made from, as it was fetched."""

from datetime import timedelta
from typing import NamedTuple

import msgspec

from coilclaw.packets.action import Identity, Label
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx

MOST_LOOKED_AT = 20_000
"""So many of the newest actions are looked at; what was used before all of them counts as not used."""


class LastUse(NamedTuple):
    """The newest calls of an account."""

    used_at: str
    """When one was last carried out; empty if none was."""
    code: str
    """Why the last one that failed did; empty if none failed, or one succeeded since."""


def last_use(db: Tx, identity: Identity) -> LastUse:
    """What the newest actions say about an account."""
    rows = db.execute(
        "SELECT status, updated_at, coalesce(json_extract(result_json, '$.code'), '') FROM proposed_actions"
        " WHERE rowid > (SELECT coalesce(max(rowid), 0) - ? FROM proposed_actions)"
        " AND identity = ? AND begun_at IS NOT NULL AND status IN ('EXECUTED', 'FAILED', 'UNKNOWN')"
        " ORDER BY updated_at DESC LIMIT 1",
        (MOST_LOOKED_AT, identity),
    ).fetchone()
    if rows is None:
        return LastUse("", "")
    status, at, code = (str(each) for each in rows)
    return LastUse(at, "" if status == "EXECUTED" else code)


def drafts_made(db: Tx) -> list[tuple[str, tuple[Label, ...]]]:
    """The newest drafts' idempotency keys, each with what had a hand in it."""
    rows = db.execute(
        "SELECT idempotency_key, taint_json FROM proposed_actions"
        " WHERE rowid > (SELECT coalesce(max(rowid), 0) - ? FROM proposed_actions)"
        " AND tool = 'gmail_create_draft_reply' AND begun_at IS NOT NULL ORDER BY rowid DESC",
        (MOST_LOOKED_AT,),
    )
    return [(str(key), msgspec.json.decode(taint, type=tuple[str, ...])) for key, taint in rows]


def is_being_sent(db: Tx, draft_id: str) -> bool:
    """Whether a send of the draft began whose end nobody knows yet."""
    row = db.execute(
        "SELECT 1 FROM proposed_actions WHERE status = 'APPROVED' AND tool = 'gmail_send_draft'"
        " AND (begun_at IS NOT NULL OR uncertain) AND json_extract(args_json, '$.draft_id') = ?",
        (draft_id,),
    ).fetchone()
    return row is not None


_PREFIX = "mail_shown:"
KEPT_FOR = timedelta(days=1)
"""How long what was fetched is kept once no open action needs it."""


def read_shown(db: Tx, name: str) -> str | None:
    """What was fetched under that name, or None."""
    kept = read_meta(db, _PREFIX + name)
    return None if kept is None else kept.partition(" ")[2]


def keep_shown(tx: Tx, clock: Clock, name: str, text: str) -> None:
    """Keep it, in place of what was fetched before, and forget what is old and needed by nobody."""
    write_meta(tx, _PREFIX + name, f"{stamp(clock())} {text}")
    tx.execute(
        "DELETE FROM meta WHERE key LIKE 'mail_shown:%' AND substr(value, 1, 20) < ? AND key NOT IN"
        " (SELECT 'mail_shown:' || identity || CASE tool WHEN 'gmail_send_draft'"
        " THEN ':draft:' || json_extract(args_json, '$.draft_id')"
        " ELSE ':message:' || json_extract(args_json, '$.message_id') END"
        " FROM proposed_actions WHERE status IN ('PENDING', 'APPROVED', 'UNKNOWN')"
        " AND tool IN ('gmail_send_draft', 'gmail_create_draft_reply', 'gmail_get_full'))",
        (stamp(clock() - KEPT_FOR)[:20],),
    )


def forget_shown(tx: Tx, identity: Identity) -> None:
    """Forget everything that was fetched in an account's name."""
    tx.execute("DELETE FROM meta WHERE key LIKE ?", (f"{_PREFIX}{identity}:%",))
