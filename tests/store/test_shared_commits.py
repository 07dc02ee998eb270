"""Writes at the same time share a commit: each stands or falls by itself, in order, and survives what it can."""

import asyncio
import signal
import sqlite3
import subprocess
import sys

import pytest

from coilclaw.packets.errors import StorageError
from coilclaw.store.database import BATCH, Database


def put(key, value="x"):
    return lambda tx: tx.execute("INSERT INTO meta (key, value) VALUES (?, ?)", (key, value)).rowcount


def keys(db):
    return {row[0] for row in db.reader.execute("SELECT key FROM meta")}


async def test_all_that_are_ready_to_write_share_one_commit(db):
    commits = []
    db.after_commit(lambda _: commits.append(1))
    await asyncio.gather(*(db.write(put(f"n{n}")) for n in range(BATCH)))
    assert (len(commits), len(keys(db))) == (1, BATCH)


async def test_what_is_more_than_a_batch_is_written_in_several(db):
    commits = []
    db.after_commit(lambda _: commits.append(1))
    await asyncio.gather(*(db.write(put(f"n{n}")) for n in range(2 * BATCH + 1)))
    assert (len(commits), len(keys(db))) == (3, 2 * BATCH + 1)


async def test_one_that_breaks_takes_no_other_with_it(db):
    def half_way(tx):
        put("half")(tx)
        raise RuntimeError("boom")

    works = [put("a"), half_way, put("a"), put("b")]
    done = await asyncio.gather(*(db.write(work) for work in works), return_exceptions=True)
    assert [type(each) for each in done] == [int, RuntimeError, sqlite3.IntegrityError, int]
    assert keys(db) == {"a", "b"}


async def test_writes_keep_their_order_whether_they_are_awaited_or_not(db):
    order = []
    awaited = [asyncio.ensure_future(db.write(lambda _, n=n: order.append(n))) for n in range(0, 6, 2)]
    await asyncio.sleep(0)
    db.submit(lambda _: order.append("last")).result()
    await asyncio.gather(*awaited)
    assert order == [0, 2, 4, "last"]


def left_in_the_middle(db, key):
    """A loop that stops right after something was written in it, and is never run again."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(db.write(put(key)))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert not task.done()
    return loop, task


def test_a_loop_that_stopped_keeps_nobody_else_waiting(db):
    loop, task = left_in_the_middle(db, "left")
    assert asyncio.run(db.write(put("other"))) == 1
    assert keys(db) == {"left", "other"}
    assert loop.run_until_complete(task) == 1
    loop.close()


def test_what_a_loop_left_behind_is_written_on_close(tmp_path):
    db = Database(tmp_path / "m", tmp_path / "locks")
    loop, task = left_in_the_middle(db, "left")
    db.close()
    assert loop.run_until_complete(task) == 1
    loop.close()
    again = Database(tmp_path / "m", tmp_path / "locks")
    assert keys(again) == {"left"}
    again.close()


async def test_a_disk_that_is_full_is_reported_to_all_of_them_and_nothing_of_it_stays(db):
    def pages(limit):
        return lambda tx: tx.execute(f"PRAGMA max_page_count = {limit}").fetchone()[0]

    used = db.reader.execute("PRAGMA page_count").fetchone()[0]
    await db.write(pages(used + 8))
    works = [put("small"), put("large", "x" * 400_000), put("after")]
    done = await asyncio.gather(*(db.write(work) for work in works), return_exceptions=True)
    assert [type(each) for each in done] == [StorageError] * 3
    assert "is full; nothing was changed" in str(done[0])
    assert keys(db) == set()
    await db.write(pages(1 << 20))
    assert await asyncio.gather(*(db.write(work) for work in works)) == [1, 1, 1]


KILLED = """
import asyncio, sys
from pathlib import Path
from coilclaw.store.database import Database

def both(number):
    def work(tx):
        for side in "ab":
            tx.execute("INSERT INTO meta (key, value) VALUES (?, 'x')", (f"{number}{side}",))
    return work

async def main():
    db = Database(Path(sys.argv[1]) / "m", Path(sys.argv[1]) / "locks")
    for round in range(1_000_000):
        await asyncio.gather(*(db.write(both(round * 8 + n)) for n in range(8)))
        print(round, flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 7, 40])
def test_what_was_said_to_be_written_survives_kill_9_and_nothing_is_half_there(tmp_path, rounds):
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        said = [int(process.stdout.readline()) for _ in range(rounds)]
        process.send_signal(signal.SIGKILL)
    db = Database(tmp_path / "m", tmp_path / "locks")
    there = keys(db)
    db.close()
    assert there >= {f"{number}{side}" for number in range(8 * (said[-1] + 1)) for side in "ab"}
    assert {key[:-1] for key in there if key.endswith("a")} == {key[:-1] for key in there if key.endswith("b")}
