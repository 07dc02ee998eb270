"""Values that the database stores about itself, by name."""

from coilclaw.store.tx import Tx


def quick_check(db: Tx) -> str:
    """`ok`, or the first thing that SQLite finds wrong with the file."""
    return str(db.execute("PRAGMA quick_check(1)").fetchone()[0])


def try_writing(tx: Tx) -> None:
    """Write nothing of value, to see whether writing works."""
    tx.execute("DELETE FROM meta WHERE key = 'doctor'")


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
