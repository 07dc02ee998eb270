"""A committed migration never changes, and a file is opened by its shape, whatever number it carries."""

import hashlib
import sqlite3
from pathlib import Path

import pytest

from coilclaw.packets.errors import StorageError
from coilclaw.store.database import Database
from coilclaw.store.schema import LATEST, MIGRATIONS, SHAPE, fit, made_by, schema, scripts, shape_hash
from coilclaw.store.shape import compare

EARLIER = Path(__file__).parent.parent / "corpora" / "migrations"
"""Texts that four migrations had before they were edited, each with the commit it stood in."""

HASHES = {
    "0001_first.sql": "e6e90ada5742f4ebd282ecc4bf920467fbd6bdf5e6189099aad73d90cf067a1f",
    "0002_work.sql": "dc15e67368cea600abb053c435ce6dd5a89d43a806a6390798ac619ab42c078a",
    "0003_schedules.sql": "54d76de3b77e07a9b02dadd6227c949362ae450f67e4cadf260ac1d0b2a895a4",
    "0004_sops.sql": "f25be8303b7be49615339f8a646249d6f691a4880f6c3aef26369c6f393bc171",
    "0005_server.sql": "c7a88c442f731b1e74e8953e81f778b4ee5189f8da40fb5528440f7c9a5515c0",
    "0006_waiting.sql": "fff6461ed0cc6e09183dddb118847a78be595490cf65019c928b1bba0d11ca6b",
    "0007_vouched.sql": "020a3478c1803b08e83ade22e9119d255b3543af7db8aa2a602a810799f1837d",
    "0008_suspended.sql": "3e8f76437c6065ab7fbd8c69abc05908e083267d8e994244edd19f895ea2b6aa",
    "0009_expected.sql": "8ea9e25f21c8aec25cb2a4b31ce36ed816980d9543554f54131daa7fee485ac2",
    "0010_resumed.sql": "666e0082a68797936c4f34d112248ed5719570423bd24c4884e8eec0ad635dad",
    "0011_answers.sql": "996e1e22b5e8e4b751703ae4a5175292201aa3f64633ffcc0e4b3db672997602",
    "0012_projects.sql": "16525903a976029c8cb864f72d2839bbdb6755cdee80860e1e25f26005027c36",
    "0013_thread_model.sql": "803821039d79447b9d22d2451e08fde5d2deddd3dd02a06752ad080c16733906",
    "0014_push.sql": "5d5eb3164e92d69239e9b5d0c296a6aa99cb2790bbd25a9f6fbed39fd741766c",
    "0015_forge.sql": "220bcfd63e88469099ad3b730482b746c2c312836b4d8a32928009db2399d798",
    "0016_guests.sql": "9c4587e15adccbba9f52399999546d7b8ae7ccdd9b7fdebcc9eab8f2d417128e",
    "0017_cached_tokens.sql": "b9e3f4cf6fa07f257b97b1059291a58661332a1b4ee2de6655922abe5c049a65",
    "0018_device_scope.sql": "51571473a569b241e6c1f8e09003d8b579fd4c9343960be862ce687ba94cc0fa",
    "0019_runner.sql": "f6916cc782f12ac8d8599fc8b657c54bb59122ab13e6b5fc3344cf6291770c02",
    "0020_session_models.sql": "66a0997625e75ff508a9742e2eebf811a1fdc265a581403dac7124dd62e092f0",
    "0021_patrols.sql": "98c6d95f4fe627f177e1de7b12d6e7f1628d077d1c7d40eba151bbbc3f5f1a17",
    "0022_merges_and_notices.sql": "a5c60efab7aea9b79f8fbe5bf557a6f6ce0881ca5f14375d7c4c3b8812db3a4b",
    "0023_github.sql": "81c0ca37bfc6a178c7138b9c87a362a92ab7ff328f0f8b2f521ca7abab131133",
    "0024_changed_files.sql": "06a847723b794a14e45e7e501d1a36480ab61a22be958c2d2b5e0832f72572ef",
}
"""The migrations as they were committed. A line is added here with each new file and never changed afterwards."""

EDITED = {
    "0001": "0001_first.ba282c0.sql",
    "0002": "0002_work.73b3c41.sql",
    "0004": "0004_sops.73b3c41.sql",
    "0005": "0005_server.93ca665.sql",
}

HOMES = {
    # the commit that made the home: its number then, and the migrations that had their earlier text
    "ba282c0": (1, "0001"),
    "7398213": (1, ""),
    "73b3c41": (4, "0002 0004"),
    "18d036e": (4, "0004"),
    "0143059": (4, ""),
    "93ca665": (5, ""),
    "93ca665 with the first server tables": (5, "0005"),
    "bee2aae": (5, ""),
    "4975c74": (6, ""),
    **{f"number {number}": (number, "") for number in range(7, LATEST)},
    # made by an early commit and opened by later ones, which added what came later and nothing else
    "ba282c0, opened by 4975c74": (6, "0001"),
    "73b3c41, opened by 4975c74": (6, "0002 0004"),
    "93ca665, opened by 4975c74": (6, "0005"),
    "ba282c0, opened by every commit": (6, "0001 0002 0004 0005"),
}

ROWS = [
    "INSERT INTO users VALUES ('usr_1', 'o@example.org', '2026-11-15T20:00:00.000Z')",
    "INSERT INTO devices (device_id, user_id, name, created_at) VALUES ('dev_1', 'usr_1', 'Desk', '2026-11-15')",
    (
        "INSERT INTO auth_tokens (token_id, device_id, token_hash, expires_at, created_at)"
        " VALUES ('tok_1', 'dev_1', 'h', '2027-01-01', '2026-11-15')"
    ),
    (
        "INSERT INTO threads (thread_id, user_id, channel, created_at, updated_at)"
        " VALUES ('thr_1', 'usr_1', 'cli', '2026-11-15', '2026-11-15')"
    ),
    (
        "INSERT INTO messages (message_id, thread_id, turn_id, role, content, label, created_at)"
        " VALUES ('msg_1', 'thr_1', 'trn_1', 'user', 'walrus', 'owner', '2026-11-15')"
    ),
]


def earlier_home(folder: Path, number: int, edited: str) -> Path:
    """A database as an earlier commit left it."""
    path = folder / "memory.sqlite"
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    for file in sorted(MIGRATIONS.glob("*.sql")):
        if int(file.name[:4]) <= number:
            text = EARLIER / EDITED[file.name[:4]] if file.name[:4] in edited.split() else file
            raw.executescript(text.read_text())
    for row in ROWS:
        raw.execute(row)
    raw.execute(f"PRAGMA user_version = {number}")
    raw.close()
    return path


def changed(folder: Path, *statements: str) -> Path:
    """A database of today with something done to it by hand."""
    path = earlier_home(folder, LATEST, "")
    raw = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        raw.executescript(statement)
    raw.close()
    return path


def test_committed_migrations_never_change():
    files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in MIGRATIONS.glob("*.sql")}
    for name, found in sorted(files.items()):
        assert name in HASHES, f"{name} is new: add {name!r}: {found!r} to HASHES in {__file__}."
        assert found == HASHES[name], f"{name} was changed after it was committed. Take that back; add a new migration."
    assert sorted(files) == sorted(HASHES), "A committed migration was removed. Put it back."


def test_code_knows_the_shape_its_migrations_make():
    made = shape_hash(made_by(text for _, text in scripts(0, LATEST)))
    assert made == SHAPE, f'The shape changed: write SHAPE = "{made}" into src/coilclaw/store/schema.py.'
    assert max(int(file.name[:4]) for file in MIGRATIONS.glob("*.sql")) == LATEST


@pytest.mark.parametrize("made", HOMES)
def test_homes_of_earlier_commits_get_the_shape_of_today(tmp_path, made):
    path = earlier_home(tmp_path, *HOMES[made])
    db = Database(path, tmp_path / "locks")
    wanted = made_by(text for _, text in scripts(0, LATEST))
    left = compare(schema(db.reader), schema(wanted))
    assert (left.missing, left.faults) == ((), ())
    assert db.reader.execute("PRAGMA user_version").fetchone()[0] == LATEST
    assert db.reader.execute("SELECT name, paired_by FROM devices").fetchall() == [("Desk", "")]
    assert db.reader.execute("SELECT token_hash, way FROM auth_tokens").fetchall() == [("h", "bearer")]
    assert db.reader.execute("SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'walrus'").fetchall() == [(1,)]
    db.close()


@pytest.mark.parametrize("made", HOMES)
def test_a_repaired_home_says_what_was_added_and_is_compared_once(tmp_path, made):
    number, edited = HOMES[made]
    path = earlier_home(tmp_path, number, edited)
    first = Database(path, tmp_path / "locks")
    first.close()
    assert bool(first.repaired) == bool(edited)
    if "0005" in edited:
        assert "column auth_tokens.way" in first.repaired
    raw = sqlite3.connect(path, isolation_level=None)
    before = raw.execute("PRAGMA data_version").fetchone()
    again = Database(path, tmp_path / "locks")
    again.close()
    assert again.repaired == ()
    assert raw.execute("PRAGMA data_version").fetchone() == before  # nothing was written by opening it again
    raw.close()


@pytest.mark.parametrize(
    "lost",
    [
        "DROP INDEX actions_waiting",
        "DROP TABLE stored_secrets",
        "DROP TRIGGER messages_told",
        "DROP TRIGGER messages_told; CREATE TRIGGER messages_told AFTER INSERT ON messages BEGIN SELECT 1; END",
        "DROP INDEX audit_when; CREATE INDEX audit_when ON audit_log (entry_id)",
        "ALTER TABLE jobs DROP COLUMN paused_from",
        "DROP TABLE messages_fts",
        "DROP TABLE meta",
    ],
)
def test_what_is_missing_is_added(tmp_path, lost):
    db = Database(changed(tmp_path, lost), tmp_path / "locks")
    assert db.repaired
    wanted = made_by(text for _, text in scripts(0, LATEST))
    assert compare(schema(db.reader), schema(wanted)).missing == ()
    assert db.reader.execute("SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'walrus'").fetchall() == [(1,)]
    db.close()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("DROP TABLE notes; CREATE TABLE notes (note_id INTEGER PRIMARY KEY, thread_id TEXT)", "notes.note_id"),
        ("ALTER TABLE users DROP COLUMN email", "NOT NULL"),
        (
            (
                "DROP TABLE users; CREATE TABLE users"
                " (user_id TEXT PRIMARY KEY, email TEXT NOT NULL, created_at TEXT NOT NULL, more TEXT NOT NULL)"
            ),
            "users.more",
        ),
        ("CREATE TRIGGER mine AFTER INSERT ON users BEGIN SELECT 1; END", "trigger mine"),
        ("CREATE UNIQUE INDEX mine ON messages (role)", "index mine"),
        (
            (
                "DROP TABLE file_labels; CREATE TABLE file_labels (path TEXT NOT NULL, label TEXT NOT NULL, "
                "content_hash TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, created_at TEXT)"
            ),
            "table file_labels",
        ),
        (
            (
                "DROP INDEX notes_title; "
                "INSERT INTO notes VALUES ('n1', '', 'same', '', '', '', ''), ('n2', '', 'same', '', '', '', '')"
            ),
            "notes.title",
        ),
    ],
)
def test_what_adding_cannot_mend_is_named_and_nothing_is_changed(tmp_path, change, named):
    path = changed(tmp_path, change)
    before = sqlite3.connect(path).execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    with pytest.raises(StorageError) as caught:
        Database(path, tmp_path / "locks")
    assert named in str(caught.value)
    assert "Nothing was changed" in str(caught.value)
    assert "backup" in caught.value.remedy
    assert sqlite3.connect(path).execute("SELECT type, name, sql FROM sqlite_schema").fetchall() == before


def test_an_owners_own_table_index_and_column_are_left_alone(tmp_path):
    path = changed(
        tmp_path,
        "CREATE TABLE mine (a TEXT NOT NULL)",
        "CREATE INDEX my_view ON messages (role)",
        "ALTER TABLE users ADD COLUMN nickname TEXT",
        "ANALYZE",
    )
    db = Database(path, tmp_path / "locks")
    assert db.repaired == ()
    assert db.reader.execute("SELECT count(*) FROM mine").fetchone() == (0,)
    db.close()


def test_spelling_makes_no_difference():
    one = [("table", "a", 'CREATE TABLE "a" (b TEXT, -- why, and (how)\n c INT CHECK (c IN (1, 2)), UNIQUE (b))')]
    other = [("table", "a", "CREATE TABLE a(b text,c int check(c in(1,2)),unique(b))")]
    found = compare(one, other)
    assert (found.missing, found.faults) == ((), ())


def test_opening_an_ordinary_home_only_reads(tmp_path):
    Database(tmp_path / "m", tmp_path / "locks").close()
    statements: list[str] = []
    connection = sqlite3.connect(f"file:{tmp_path / 'm'}?mode=ro", uri=True, isolation_level=None)
    connection.set_trace_callback(statements.append)

    class NobodyMayLock:
        def __enter__(self):
            raise AssertionError

    assert fit(connection, NobodyMayLock(), tmp_path / "m") == ()  # pyright: ignore[reportArgumentType]
    assert [each.split()[0] for each in statements] == ["PRAGMA", "SELECT"]
    connection.close()


def test_deliveries_of_notifications_outlive_the_table_being_made_anew():
    db = made_by(script for _, script in scripts(0, 21))
    db.execute("PRAGMA foreign_keys = ON")
    told = "INSERT INTO notifications (notification_id, type, entity_id, created_at) VALUES (?, ?, 'x', 't')"
    for number in (1, 2):
        db.execute(
            told,
            (f"ntf_{number}", "job_failed"),
        )
        db.execute(
            "INSERT INTO notification_deliveries (notification_id, way, status, next_at, created_at, updated_at)"
            " VALUES (?, 'url', 'sent', 't', 't', 't')",
            (f"ntf_{number}",),
        )
    db.execute("DELETE FROM notifications WHERE notification_id = 'ntf_2'")
    db.executescript("".join(script for number, script in scripts(21, 22)))
    assert db.execute("SELECT notification_id FROM notification_deliveries").fetchall() == [("ntf_1",)]
    db.execute(told, ("ntf_3", "alert_raised"))
    assert db.execute("SELECT max(seq) FROM notifications").fetchone() == (3,), "no number is given twice"
    db.execute("DELETE FROM notifications")
    assert db.execute("SELECT count(*) FROM notification_deliveries").fetchone() == (0,)
