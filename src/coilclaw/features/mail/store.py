"""When accounts were last used, and what cards about mail were made from, as it was fetched."""

from typing import NamedTuple

from coilclaw.packets.action import Identity
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx

MOST_LOOKED_AT = 20_000
"""So many of the newest actions are looked at; what was used before all of them counts as not used."""


class LastUse(NamedTuple):
    """The newest calls of an account."""

    used_at: str
    """When one was last carried out; empty if none was."""
    failed_at: str
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
        return LastUse("", "", "")
    status, at, code = (str(each) for each in rows)
    return LastUse(at, "", "") if status == "EXECUTED" else LastUse(at, at, code)


_PREFIX = "mail_shown:"
MOST_KEPT = 500


def read_shown(db: Tx, name: str) -> str | None:
    """What was fetched under that name, or None."""
    kept = read_meta(db, _PREFIX + name)
    return None if kept is None else kept.partition(" ")[2]


def keep_shown(tx: Tx, clock: Clock, name: str, text: str) -> None:
    """Keep it, in place of what was fetched before; each begins with its time, by which the oldest are forgotten."""
    write_meta(tx, _PREFIX + name, f"{stamp(clock())} {text}")
    tx.execute(
        "DELETE FROM meta WHERE key LIKE 'mail_shown:%' AND key NOT IN"
        " (SELECT key FROM meta WHERE key LIKE 'mail_shown:%' ORDER BY substr(value, 1, 32) DESC LIMIT ?)",
        (MOST_KEPT,),
    )
