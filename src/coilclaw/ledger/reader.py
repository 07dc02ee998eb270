"""A reading connection of one's own: for work that takes long and is done in a thread."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from coilclaw.store.database import BUSY_SECONDS, storage_error


@contextmanager
def own_reader(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the database that nobody else uses and that cannot write."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as db:
            db.execute("PRAGMA query_only = ON")
            yield db
    except sqlite3.Error as error:
        raise storage_error(error, path) from error
