"""Sealed columns: which there are, the key they are sealed with, and sealing all of them anew."""

from collections.abc import Callable
from typing import Protocol

from coilclaw.packets.errors import StorageError
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx

_KEY = "vault_key"
"""Under this name `meta` holds the id of the key in force."""
COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("oauth_tokens", "token_id", "encrypted_refresh_token"),
    ("stored_secrets", "name", "sealed"),
)
"""Table, the column of its id, the column that is sealed."""


class Sealer(Protocol):
    """The vault, as far as rows need it."""

    def current(self) -> str:
        """The key for what is sealed first."""
        ...

    def seal(self, key_id: str, table: str, row_id: str, plain: bytes) -> bytes:
        """Encrypt for one row."""
        ...

    def open(self, table: str, row_id: str, sealed: bytes) -> bytes:
        """Decrypt what stands in one row."""
        ...


def key_in_force(db: Tx) -> str | None:
    """The id of the key that everything is sealed with; None while nothing ever was."""
    return read_meta(db, _KEY)


def seal_row(tx: Tx, sealer: Sealer, table: str, row_id: str, plain: bytes) -> bytes:
    """Seal a value with the key in force. Inside the transaction that stores it: so no rotation can miss it."""
    key_id = key_in_force(tx)
    if key_id is None:
        key_id = sealer.current()
        _put_in_force(tx, key_id)
    return sealer.seal(key_id, table, row_id, plain)


def open_row(sealer: Sealer, table: str, row_id: str, read: Callable[[], bytes | None]) -> str | None:
    """Open what `read` finds in a row; None when there is no such row."""
    sealed = read()
    if sealed is None:
        return None
    try:
        return sealer.open(table, row_id, sealed).decode("utf-8")
    except StorageError:
        again = read()
        if again is None or again == sealed:
            raise
        return sealer.open(table, row_id, again).decode("utf-8")  # it was sealed anew between the two looks


def seal_all_anew(tx: Tx, sealer: Sealer, key_id: str) -> int:
    """Seal everything with another key, which is in force from now on; how many values that were."""
    count = 0
    for table, name, column in COLUMNS:
        rows = tx.execute(f"SELECT {name}, {column} FROM {table}").fetchall()  # noqa: S608
        for row_id, sealed in rows:
            anew = sealer.seal(key_id, table, row_id, sealer.open(table, row_id, bytes(sealed)))
            tx.execute(f"UPDATE {table} SET {column} = ? WHERE {name} = ?", (anew, row_id))  # noqa: S608
            count += 1
    _put_in_force(tx, key_id)
    return count


def _put_in_force(tx: Tx, key_id: str) -> None:
    write_meta(tx, _KEY, key_id)
