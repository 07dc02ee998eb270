"""Words the database keeps about itself, by name."""

from coilclaw.store.tx import Tx


def read_meta(db: Tx, name: str) -> str | None:
    """The word of that name; None when there is none."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def write_meta(tx: Tx, name: str, word: str) -> None:
    """Keep the word, in place of the one before."""
    tx.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (name, word),
    )
