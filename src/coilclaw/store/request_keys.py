"""Keys of requests that created something: a repeat after a crash finds what it created."""

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.threads import OWNER_ID
from coilclaw.store.tx import Tx


def made_by(db: Tx, what: str, key: str) -> str | None:
    """The id of what the request with that key created; None if nothing yet."""
    row = db.execute(
        "SELECT result_hash FROM idempotency WHERE owner_id = ? AND tool_name = ? AND key = ?",
        (OWNER_ID, f"request:{what}", key),
    ).fetchone()
    return None if row is None else str(row[0])


def asked_by(db: Tx, what: str, key: str) -> str:
    """The hash of what the request with that key asked for; empty if none was recorded."""
    row = db.execute(
        "SELECT args_hash FROM idempotency WHERE owner_id = ? AND tool_name = ? AND key = ?",
        (OWNER_ID, f"request:{what}", key),
    ).fetchone()
    return "" if row is None else str(row[0])


def keep_made(tx: Tx, clock: Clock, what: str, key: str, made: str, asked: str = "") -> None:
    """Record what a request created, in the same transaction; `asked` is a hash of what it asked for."""
    tx.execute(
        "INSERT INTO idempotency (owner_id, tool_name, key, args_hash, result_hash, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (owner_id, tool_name, key)"
        " DO UPDATE SET args_hash = excluded.args_hash, result_hash = excluded.result_hash",
        (OWNER_ID, f"request:{what}", key, asked, made, stamp(clock())),
    )
