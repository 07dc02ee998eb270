"""The schema: numbered migrations that never change, and opening a file with the resulting shape."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import StorageError
from coilclaw.store.lock import FairLock
from coilclaw.store.meta import read_meta, write_meta

MIGRATIONS = Path(__file__).parent / "migrations"

LATEST = 24
SHAPE = "ab074512b2be436295570b691fdcf6c2db67e5bcd643b8bb1828be9821e4b1a2"
"""The schema of this code: its number, and the hash of its text. A test compares both with the migrations."""


def scripts(after: int, upto: int) -> list[tuple[int, str]]:
    """The migrations with these numbers, in order."""
    numbered = [(int(file.name.split("_")[0]), file) for file in sorted(MIGRATIONS.glob("*.sql"))]
    return [(number, file.read_text(encoding="utf-8")) for number, file in numbered if after < number <= upto]


def fit(connection: sqlite3.Connection, lock: FairLock, path: Path) -> tuple[str, ...]:
    """Bring the file to this code's schema; returns what had to be added."""
    if _fits(connection):
        return ()
    with lock:
        version = _version(connection)
        if version > LATEST:
            raise StorageError(
                f"{path} was written by a newer CoilClaw (schema {version}, this one knows {LATEST}).",
                remedy="Upgrade CoilClaw.",
            )
        connection.execute("PRAGMA journal_mode = WAL")
        repaired = _repair(connection, version, path) if version else ()
        for number, script in scripts(version, LATEST):
            connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")
        if not _fits(connection):
            write_meta(connection, "shape", _equivalent(shape_hash(connection)))
    return repaired


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def schema(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Type, name and text of everything the migrations created, in order, without SQLite's internal objects."""
    return db.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
        " AND name NOT GLOB 'sqlite_*' AND sql NOT GLOB 'CREATE TABLE ''*' ORDER BY rowid"
    ).fetchall()


def shape_hash(db: sqlite3.Connection) -> str:
    """A hash of the schema's text. Equal hashes mean equal shapes; unequal ones need a comparison."""
    return sha256_hex("\n".join(sorted(text for _, _, text in schema(db))).encode())


def made_by(scripts: Iterable[str]) -> sqlite3.Connection:
    """An empty in-memory database with these migrations."""
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    for script in scripts:
        fresh.executescript(script)
    return fresh


def added_to(db: sqlite3.Connection) -> tuple[str, ...]:
    """What no version of this code made and what changes what is written or read, in words."""
    version = _version(db)
    if version > LATEST or shape_hash(db) == SHAPE:
        return ()
    from coilclaw.store.shape import AS_IT_SHOULD_BE, compare

    with closing(made_by(script for _, script in scripts(0, version))) as fresh:
        wanted = schema(fresh)
    found, names = compare(schema(db), wanted), {name for _, name, _ in wanted}
    ours = (part for part in found.missing if part.startswith("trigger ") and part.endswith(AS_IT_SHOULD_BE))
    changed = (f"{part.removesuffix(AS_IT_SHOULD_BE)} was changed" for part in ours)
    views = (
        f"view {name} is in the place of a table" for kind, name, _ in schema(db) if kind == "view" and name in names
    )
    return (*found.faults, *changed, *views)


def _fits(connection: sqlite3.Connection) -> bool:
    """Whether the schema has the expected text, or one known to be equivalent."""
    if _version(connection) != LATEST:
        return False
    found = shape_hash(connection)
    return found == SHAPE or _word(connection) == _equivalent(found)


def _word(connection: sqlite3.Connection) -> str | None:
    if not any(name == "meta" for _, name, _ in schema(connection)):
        return None
    return read_meta(connection, "shape")


def _equivalent(found: str) -> str:
    return f"{found} is equivalent to {SHAPE}"


def _repair(connection: sqlite3.Connection, version: int, path: Path) -> tuple[str, ...]:
    """Add what a file with this number lacks: some were created by earlier texts of the same migrations."""
    from coilclaw.store.shape import compare  # rarely needed

    if not any(name == "messages" for _, name, _ in schema(connection)):
        raise StorageError(
            f"{path} contains the tables of another program. Nothing was changed.",
            remedy="Move it aside and run `coilclaw init`; receipts remain in the log.",
        )
    with closing(made_by(script for _, script in scripts(0, version))) as fresh:
        wanted = schema(fresh)
    found = compare(schema(connection), wanted)
    faults = found.faults or _add(connection, found.repairs)
    if not faults:
        left = compare(schema(connection), wanted)
        faults = left.faults + left.missing
    if faults:
        raise StorageError(
            f"{path} does not match schema {version}, and adding what is missing cannot repair it: "
            f"{'; '.join(faults)}. Nothing was changed.",
            remedy="Restore it from a backup, or move it aside and run `coilclaw init`; receipts remain in the log.",
        )
    return found.missing


def _add(connection: sqlite3.Connection, repairs: tuple[str, ...]) -> tuple[str, ...]:
    """Execute the statements, all or none; returns SQLite's error, if any."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        for statement in repairs:
            connection.execute(statement)
        connection.execute("COMMIT")
    except (sqlite3.IntegrityError, sqlite3.OperationalError) as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if any(word in str(error) for word in ("locked", "readonly", "full", "I/O")):
            raise
        return (str(error),)
    return ()
