"""Encrypted columns: which there are, their key, and re-encrypting all of them."""

from collections.abc import Callable
from typing import Protocol

from coilclaw.packets.errors import StorageError
from coilclaw.store.meta import read_meta, write_meta
from coilclaw.store.tx import Tx

_KEY = "vault_key"
"""The name in `meta` of the current key's id."""
COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("oauth_tokens", "token_id", "encrypted_refresh_token"),
    ("stored_secrets", "name", "sealed"),
)
"""Table, its id column, its encrypted column."""


class Sealer(Protocol):
    """The part of the vault that rows need."""

    def current(self) -> str:
        """The key for the first value."""
        ...

    def seal(self, key_id: str, table: str, row_id: str, plain: bytes) -> bytes:
        """Encrypt for one row."""
        ...

    def open(self, table: str, row_id: str, sealed: bytes) -> bytes:
        """Decrypt the value of one row."""
        ...


def key_in_force(db: Tx) -> str | None:
    """The id of the key that everything is encrypted with; None if nothing ever was."""
    return read_meta(db, _KEY)


def seal_row(tx: Tx, sealer: Sealer, table: str, row_id: str, plain: bytes) -> bytes:
    """Encrypt a value with the current key, inside the transaction that stores it, so that no rotation misses it."""
    key_id = key_in_force(tx)
    if key_id is None:
        key_id = sealer.current()
        _put_in_force(tx, key_id)
    return sealer.seal(key_id, table, row_id, plain)


def open_row(sealer: Sealer, table: str, row_id: str, read: Callable[[], bytes | None]) -> str | None:
    """Decrypt what `read` finds in a row; None if there is no such row."""
    sealed = read()
    if sealed is None:
        return None
    try:
        return sealer.open(table, row_id, sealed).decode("utf-8")
    except StorageError:
        again = read()
        if again is None or again == sealed:
            raise
        return sealer.open(table, row_id, again).decode("utf-8")  # it was re-encrypted between the two reads


def seal_all_anew(tx: Tx, sealer: Sealer, key_id: str) -> int:
    """Re-encrypt everything with another key, which becomes current; returns the number of values."""
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
