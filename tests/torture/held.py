"""Processes that are stopped in the middle of a write, again and again: what was given up is not done, the rest is."""

import random
import signal
from pathlib import Path

from coilclaw.packets.errors import StorageError
from coilclaw.store.database import Database
from coilclaw.store.lock import Patience
from tests.store.holders import raw_writer, stopped_writer


def stop_writers(folder: Path, times: int, seed: int) -> list[str]:
    """Write while others are stopped with the lock; what is wrong."""
    chance = random.Random(seed)
    told: list[str] = []
    path, locks = folder / "memory.sqlite", folder / "locks"
    db = Database(path, locks, patience=Patience(say=0.02, give_up=0.2), waiting=told.append)
    done: set[str] = set()
    wrong: list[str] = []
    for number in range(times):
        ours = chance.random() < 0.5
        with stopped_writer(path, locks) if ours else raw_writer(path) as child:
            told.clear()
            try:
                db.write_now(_put(f"{number}.given-up"))
                wrong.append(f"{number}: written although another process held the lock")
            except StorageError as error:
                if f"process {child.pid} " not in str(error):
                    wrong.append(f"{number}: {error} does not name {child.pid}")
            child.send_signal(signal.SIGCONT if ours else signal.SIGKILL)
            child.wait()
        done.add(_written_in_the_end(db, f"{number}.next"))
    kept = {row[0] for row in db.reader.execute("SELECT key FROM meta WHERE key LIKE '%.%'")}
    if kept != done:
        wrong.append(f"kept without being acknowledged, or lost: {sorted(kept ^ done)}")
    if db.reader.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
        wrong.append("the database is damaged")
    db.close()
    return wrong


def _written_in_the_end(db: Database, key: str) -> str:
    for _ in range(200):
        try:
            db.write_now(_put(key))
        except StorageError:
            continue
        return key
    raise RuntimeError(f"{key} could never be written although nobody holds the lock")


def _put(key: str):
    return lambda tx: tx.execute("INSERT INTO meta (key, value) VALUES (?, '')", (key,)).rowcount
