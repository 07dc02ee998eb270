"""One file, one writer, durable when done."""

import asyncio
import multiprocessing
import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from coilclaw.packets.errors import StorageError
from coilclaw.store.database import Database
from coilclaw.store.schema import LATEST, MIGRATIONS

SEED_TABLES = {
    "users", "devices", "auth_tokens", "oauth_tokens", "threads", "messages", "jobs", "job_events", "schedules",
    "wakeup_events", "proposed_actions", "idempotency", "artifacts", "audit_log", "notes", "receipts", "ledger_heads",
}  # fmt: skip


def test_the_code_speaks_the_newest_schema():
    assert max(int(file.name[:4]) for file in MIGRATIONS.glob("*.sql")) == LATEST


def test_the_first_migration_has_every_table(db):
    names = {row[0] for row in db.reader.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert names >= SEED_TABLES


def test_the_database_is_durable_wal(db):
    assert db.reader.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert db.reader.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert db.write_now(lambda tx: tx.execute("PRAGMA synchronous").fetchone()[0]) == 2


def put(key):
    return lambda tx: tx.execute("INSERT INTO meta (key, value) VALUES (?, 'x')", (key,)).rowcount


def test_a_write_is_seen_by_the_reader_when_it_is_done(db):
    db.write_now(put("a"))
    assert db.reader.execute("SELECT count(*) FROM meta WHERE key = 'a'").fetchone()[0] == 1


def test_a_read_in_another_thread_hides_no_commit_from_this_one(db):
    """On one connection every read sees the same moment until the last of them is done, whoever began it."""
    for key in "abc":
        db.write_now(put(key))
    begun, over = threading.Event(), threading.Event()

    def read_slowly():
        rows = db.reader.execute("SELECT key FROM meta")
        next(rows)
        begun.set()
        over.wait(60)
        rows.close()

    slow = threading.Thread(target=read_slowly)
    slow.start()
    assert begun.wait(60)
    try:
        db.write_now(put("d"))
        assert db.reader.execute("SELECT count(*) FROM meta WHERE key = 'd'").fetchone()[0] == 1
    finally:
        over.set()
        slow.join()


def test_connections_of_threads_that_ended_are_closed(tmp_path):
    db, readers = Database(tmp_path / "x.sqlite", tmp_path), []
    for _ in range(3):
        thread = threading.Thread(target=lambda: readers.append(db.reader))
        thread.start()
        thread.join()
    for each in readers[:2]:  # the next thread to come closes them
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            each.execute("SELECT 1")
    db.close()
    for late in (lambda: readers[2].execute("SELECT 1"), lambda: db.reader):
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            late()


def test_one_bad_write_of_a_batch_does_not_take_the_others_with_it(db):
    gate = threading.Event()
    slow = db.submit(lambda tx: gate.wait(60))
    good = [db.submit(put(f"k{n}")) for n in range(5)]
    bad = db.submit(put("k0"))
    gate.set()
    assert slow.result()
    assert [each.result() for each in good] == [1] * 5
    with pytest.raises(sqlite3.IntegrityError):
        bad.result()


def test_a_write_that_breaks_in_python_reaches_whoever_asked_and_the_writer_keeps_running(db):
    def broken(_):
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        db.write_now(broken)
    assert db.write_now(put("after")) == 1


async def test_writes_at_the_same_time_share_a_commit(db):
    commits = []
    db.after_commit(lambda _: commits.append(1))
    await asyncio.gather(*(db.write(put(f"n{n}")) for n in range(200)))
    assert len(commits) < 100
    assert db.reader.execute("SELECT count(*) FROM meta").fetchone()[0] == 200


async def test_cancelling_the_waiter_does_not_take_the_write_back(db):
    gate = threading.Event()
    task = asyncio.ensure_future(db.write(lambda tx: (gate.wait(60), put("late")(tx))))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    db.write_now(put("next"))
    assert db.reader.execute("SELECT count(*) FROM meta").fetchone()[0] == 2


def test_one_writer_starts_whoever_calls_first(tmp_path):
    """Each caller arrives while the others' threads are being made."""
    started = []

    class Slow(threading.Thread):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            time.sleep(0.05)

        def start(self):
            started.append(self)
            super().start()

    real, threading.Thread = threading.Thread, Slow
    db = Database(tmp_path / "m", tmp_path / "locks")
    try:
        callers = [real(target=lambda n=n: db.write_now(put(f"n{n}"))) for n in range(8)]
        for each in callers:
            each.start()
        for each in callers:
            each.join()
    finally:
        threading.Thread = real
        db.close()
    assert len(started) == 1


@pytest.mark.parametrize("error", [RuntimeError("boom"), OSError(28, "No space left on device"), sqlite3.Error("odd")])
async def test_what_goes_wrong_after_a_commit_is_told_and_costs_nobody_their_write(db, error):
    told = []

    def broken(_):
        raise error

    db.after_commit(broken, told.append)
    assert await db.write(put("a")) == 1
    assert db.write_now(put("b")) == 1
    assert told == [error, error]
    assert db.reader.execute("SELECT count(*) FROM meta").fetchone()[0] == 2


def test_what_goes_wrong_after_a_commit_is_never_lost(db):
    """With nobody to tell, it goes where uncaught errors of threads go."""
    told = []

    def broken(_):
        raise RuntimeError("boom")

    real, threading.excepthook = threading.excepthook, lambda args: told.append(args.exc_value)
    try:
        db.after_commit(broken)
        db.write_now(put("a"))
        db.write_now(put("b"))
    finally:
        threading.excepthook = real
    assert [str(each) for each in told] == ["boom", "boom"]


def test_a_file_that_is_not_a_database_is_reported(tmp_path):
    (tmp_path / "memory.sqlite").write_bytes(b"this is not a database, not at all" * 100)
    with pytest.raises(StorageError, match="not a valid SQLite database"):
        Database(tmp_path / "memory.sqlite", tmp_path / "locks")


def test_a_database_from_a_newer_version_is_refused(tmp_path):
    Database(tmp_path / "m", tmp_path / "locks").close()
    raw = sqlite3.connect(tmp_path / "m")
    raw.execute(f"PRAGMA user_version = {LATEST + 1}")
    raw.close()
    with pytest.raises(StorageError, match="newer CoilClaw"):
        Database(tmp_path / "m", tmp_path / "locks")


def test_a_home_that_cannot_be_made_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError):
        Database(tmp_path / "file" / "memory.sqlite", tmp_path / "locks")


def test_two_processes_may_open_a_new_database_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        assert pool.starmap(_open_and_write, [(tmp_path, n) for n in range(4)]) == [1] * 4


def _open_and_write(folder: Path, number: int) -> int:
    db = Database(folder / "m", folder / "locks")
    try:
        return db.write_now(put(f"p{number}"))
    finally:
        db.close()


def _hammer(folder: Path, stop: str) -> None:
    db = Database(folder / "m", folder / "locks")
    number = 0
    while not os.path.exists(stop):
        db.write_now(put(f"{os.getpid()}-{number}"))
        number += 1
    db.close()


def _overtaken(db: Database, name: str) -> int:
    """How often others wrote while we did so twenty times."""
    before = db.reader.execute("SELECT count(*) FROM meta").fetchone()[0]
    for number in range(20):
        db.write_now(put(f"{name}-{number}"))
    return db.reader.execute("SELECT count(*) FROM meta").fetchone()[0] - before - 20


@pytest.mark.slow
def test_a_busy_process_does_not_starve_another(tmp_path):
    """While two processes write without a pause, a third gets its turns too: one for each of theirs, about.

    A process that gets no core cannot queue for its turn either, so a busy machine has several tries.
    """
    stop = str(tmp_path / "stop")
    db = Database(tmp_path / "m", tmp_path / "locks")
    context = multiprocessing.get_context("spawn")
    busy = [context.Process(target=_hammer, args=(tmp_path, stop)) for _ in range(2)]
    for process in busy:
        process.start()
    deadline = time.monotonic() + 280
    while db.reader.execute("SELECT count(DISTINCT substr(key, 1, 4)) FROM meta").fetchone()[0] < 1:
        assert time.monotonic() < deadline
    theirs = min(_overtaken(db, f"mine-{attempt}") for attempt in range(8))
    Path(stop).touch()
    for process in busy:
        process.join()
    db.close()
    assert theirs <= 20 * 2 * 4  # with a fair queue about two of theirs stand between two of ours
