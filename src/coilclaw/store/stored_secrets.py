"""Encrypted secrets by name, which the owner stores here instead of in the environment."""

import msgspec

from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.sealed import Sealer, open_row, seal_row
from coilclaw.store.tx import Tx

TABLE = "stored_secrets"


class StoredSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret's listing, without its value."""

    name: str
    created_at: str
    updated_at: str


def put_secret(tx: Tx, clock: Clock, sealer: Sealer, name: str, value: str) -> None:
    """Store a secret under a name, replacing the previous one."""
    sealed = seal_row(tx, sealer, TABLE, name, value.encode("utf-8"))
    now = stamp(clock())
    tx.execute(
        "INSERT INTO stored_secrets (name, sealed, created_at, updated_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at",
        (name, sealed, now, now),
    )


def sealed_secret(db: Tx, name: str) -> bytes | None:
    """The encrypted secret, or None."""
    row = db.execute("SELECT sealed FROM stored_secrets WHERE name = ?", (name,)).fetchone()
    return None if row is None else bytes(row[0])


def get_secret(db: Tx, sealer: Sealer, name: str) -> str | None:
    """The secret itself, or None."""
    return open_row(sealer, TABLE, name, lambda: sealed_secret(db, name))


def list_secrets(db: Tx) -> list[StoredSecret]:
    """Names and dates."""
    rows = db.execute("SELECT name, created_at, updated_at FROM stored_secrets ORDER BY name").fetchall()
    return [StoredSecret(name=row[0], created_at=row[1], updated_at=row[2]) for row in rows]


def remove_secret(tx: Tx, name: str) -> bool:
    """Delete a secret; False if there was none."""
    return tx.execute("DELETE FROM stored_secrets WHERE name = ?", (name,)).rowcount == 1
