"""A process that is stopped while it holds the write lock silences nobody: it is named, and then given up."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from coilclaw.packets.errors import StorageError
from coilclaw.store.database import Database, storage_error
from coilclaw.store.lock import FairLock, Patience
from tests.store.holders import STOPS_INSIDE, raw_writer, stopped_writer

SOON = Patience(say=0.05, give_up=0.6)
LONG = Patience(say=0.05, give_up=600.0)


def put(key):
    return lambda tx: tx.execute("INSERT INTO meta (key, value) VALUES (?, 'x')", (key,)).rowcount


def written_in_the_end(db, key):
    """A busy machine may take its time to hand the lock on."""
    for _ in range(100):
        with contextlib.suppress(StorageError):
            return db.write_now(put(key))
    raise AssertionError


@contextlib.contextmanager
def opened(folder, patience, told):
    db = Database(folder / "m", folder / "locks", patience=patience, waiting=told.append)
    try:
        yield db
    finally:
        db.close()


def test_a_stopped_holder_is_named_and_then_given_up(tmp_path):
    told: list[str] = []
    with opened(tmp_path, SOON, told) as db, stopped_writer(tmp_path / "m", tmp_path / "locks") as child:
        with pytest.raises(StorageError) as caught:
            db.write_now(put("mine"))
        assert f"process {child.pid} (`{sys.executable} -c" in caught.value.message
        assert "which is stopped" in caught.value.message
        assert f"kill -CONT {child.pid}" in caught.value.remedy
        assert [f"process {child.pid} " in each for each in told] == [True]
        assert str(child.pid) in db.held_by
        with pytest.raises(StorageError):
            db.write_now(put("mine"))


def test_what_was_given_up_is_not_done_later_and_the_next_write_is(tmp_path):
    with opened(tmp_path, SOON, []) as db, stopped_writer(tmp_path / "m", tmp_path / "locks") as child:
        with pytest.raises(StorageError):
            db.write_now(put("given up"))
        child.send_signal(signal.SIGCONT)
        child.wait()
        assert written_in_the_end(db, "next") == 1
        assert db.held_by == ""
        assert db.reader.execute("SELECT key FROM meta").fetchall() == [("next",)]


def test_whoever_waits_gets_the_lock_when_the_holder_continues(tmp_path):
    told: list[str] = []
    with stopped_writer(tmp_path / "m", tmp_path / "locks") as child, opened(tmp_path, LONG, told) as db:
        db._waiting = lambda words: (told.append(words), child.send_signal(signal.SIGCONT))
        assert db.write_now(put("mine")) == 1
        assert db.held_by == ""
    assert len(told) == 1


def test_a_program_that_knows_no_lock_is_named_in_the_same_words(tmp_path):
    told: list[str] = []
    with opened(tmp_path, SOON, told) as db, raw_writer(tmp_path / "m") as child:
        with pytest.raises(StorageError, match=f"is held by process {child.pid} ") as caught:
            db.write_now(put("mine"))
        assert f"kill {child.pid}" in caught.value.remedy
        assert [f"process {child.pid} " in each for each in told] == [True]
        with pytest.raises(sqlite3.OperationalError) as raw:
            sqlite3.connect(tmp_path / "m", timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
        assert f"process {child.pid} " in str(storage_error(raw.value, tmp_path / "m"))


def test_whoever_keeps_the_one_before_us_waiting_is_named(tmp_path):
    told: list[str] = []
    code = STOPS_INSIDE.replace("db.write_now", "print('there', flush=True); db.write_now")
    with opened(tmp_path, SOON, told) as db, raw_writer(tmp_path / "m") as raw:
        command = [sys.executable, "-c", code, str(tmp_path / "m"), str(tmp_path / "locks")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as before:
            assert before.stdout is not None
            before.stdout.readline()
            with pytest.raises(StorageError, match=f"process {raw.pid} "):
                db.write_now(put("mine"))
            before.kill()


def test_a_command_cannot_draw_on_the_terminal(tmp_path):
    odd = "\x1b[2J\u202e`x`" + "y" * 500
    with opened(tmp_path, SOON, []) as db, stopped_writer(tmp_path / "m", tmp_path / "locks", odd) as child:
        with pytest.raises(StorageError) as caught:
            db.write_now(put("mine"))
        assert f"process {child.pid} " in caught.value.message
        assert caught.value.message.isprintable()
        assert len(caught.value.message) < 400 + len(str(tmp_path))


def test_a_lock_that_comes_after_all_is_let_go(tmp_path):
    ours, theirs = FairLock(tmp_path / "x", patience=SOON), FairLock(tmp_path / "x", patience=LONG)
    with theirs, pytest.raises(StorageError, match=f"process {os.getpid()} "):
        ours.__enter__()
    for lock in (theirs, ours, theirs):
        with lock:
            pass
    ours.close()
    theirs.close()


def test_a_lock_that_is_closed_while_somebody_is_in_line_keeps_nobody_out(tmp_path):
    ours, theirs = FairLock(tmp_path / "x", patience=SOON), FairLock(tmp_path / "x", patience=LONG)
    with theirs:
        with pytest.raises(StorageError):
            ours.__enter__()
        ours.close()
    with theirs:
        pass
    theirs.close()
