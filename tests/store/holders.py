"""Processes that keep a database from being written: real ones, stopped in the middle of a write."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STOPS_INSIDE = """
import pathlib, signal, sys, threading
from coilclaw.store.database import Database
db = Database(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
db.write_now(lambda tx: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP))  # not one step further
db.close()
"""

KNOWS_NO_LOCK = """
import sqlite3, sys
raw = sqlite3.connect(sys.argv[1], isolation_level=None)
raw.execute("BEGIN IMMEDIATE")
print("begun", flush=True)
sys.stdin.read()
"""


@contextmanager
def stopped_writer(database: Path, locks: Path, *more: str) -> Iterator["subprocess.Popen[bytes]"]:
    """One of ours, stopped while it holds the write lock; it goes on or ends when told to, and is gone at the end."""
    with subprocess.Popen([sys.executable, "-c", STOPS_INSIDE, str(database), str(locks), *more]) as child:
        try:
            _, status = os.waitpid(child.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            yield child
        finally:
            child.send_signal(signal.SIGKILL)


@contextmanager
def raw_writer(database: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A program that knows nothing of our lock, in the middle of a transaction."""
    command = [sys.executable, "-c", KNOWS_NO_LOCK, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"begun\n"
            yield child
        finally:
            child.send_signal(signal.SIGKILL)
