"""Values that the database stores about itself, by name."""

from coilclaw.store.tx import Tx


def read_meta(db: Tx, name: str) -> str | None:
    """The value with that name, or None."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def write_meta(tx: Tx, name: str, word: str) -> None:
    """Store the value, replacing the previous one."""
    tx.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (name, word),
    )
