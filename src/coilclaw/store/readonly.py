"""Reads a database without writing anything: on read-only media, from a copy, while others write."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from coilclaw.packets.errors import StorageError, UsageError
from coilclaw.store.database import BUSY_SECONDS


@contextmanager
def reading_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection. SQLite's errors about damage are raised unchanged."""
    if not path.is_file():
        raise StorageError(f"the database {path} does not exist.", remedy="Put it back, or run `coilclaw init`.")
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        with _connected(path, "mode=rw") as connection:  # like a writer, so that it sees others' writes
            yield connection
        return
    wal = path.with_name(f"{path.name}-wal")
    if not wal.exists() or not wal.stat().st_size:
        with _connected(path, "immutable=1") as connection:
            yield connection
        return
    with _room() as folder:  # reading the WAL needs a writable place
        copy = Path(folder) / path.name
        shutil.copyfile(path, copy)
        shutil.copyfile(wal, copy.with_name(wal.name))
        with _connected(copy, "mode=rw") as connection:
            yield connection


def _room() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="coilclaw-")
    except OSError as error:
        raise UsageError(
            "the database is read-only and has a WAL, which must be copied to be read, but there is nowhere to"
            " put the copy.",
            remedy="Set TMPDIR to a folder that can be written.",
        ) from error


@contextmanager
def _connected(path: Path, how: str) -> Iterator[sqlite3.Connection]:
    address = f"file:{quote(str(path))}?{how}"
    with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        yield connection
