"""Separate connections for long reads, so that nothing else waits for them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from coilclaw.store.database import BUSY_SECONDS, storage_error


@contextmanager
def reading_apart(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection for one thread; its failures are StorageErrors."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            yield connection
    except sqlite3.Error as error:
        raise storage_error(error, path) from error
