"""Reading apart: long reads get a connection of their own, so that nothing else waits for them."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY_SECONDS = 30.0


@contextmanager
def reading_apart(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for one thread that can only read."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        yield connection
    finally:
        connection.close()
