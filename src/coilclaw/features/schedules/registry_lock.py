"""The lock of cron/jobs.json: from reading the file to having written it, one edit of ours at a time, on this home.

An edit over HTTP drafts the file, has the gate write it and then takes it over, which is no single transaction. Every
edit of ours, the terminal's too, holds this lock meanwhile, and so is made to what the one before it left.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from coilclaw.packets.errors import StorageError
from coilclaw.store.lock import open_lock_file

PATIENCE_SECONDS = 30.0
LOOK_SECONDS = 0.01


@asynccontextmanager
async def registry_lock(locks: Path) -> AsyncIterator[None]:
    """Be the one who edits the registry; StorageError when others do not come to an end. A dead holder's is free.

    Taken by looking again and again: a waiter that is cancelled leaves nothing behind. Whoever waits holds the queue,
    so that a busy server cannot overtake a terminal.
    """
    queue, lock = open_lock_file(locks / "registry.queue"), -1
    try:
        lock = open_lock_file(locks / "registry.lock")
        await _taken(queue)
        await _taken(lock)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield
    finally:  # closing a descriptor gives its lock back
        os.close(queue)
        if lock >= 0:
            os.close(lock)


async def _taken(descriptor: int) -> None:
    for _ in range(int(PATIENCE_SECONDS / LOOK_SECONDS)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(LOOK_SECONDS)
        else:
            return
    raise StorageError("somebody else is editing cron/jobs.json.", remedy="Try again when they have finished.")
