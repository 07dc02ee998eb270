"""Memory search in a large store, beside the raw full-text query for the same words."""

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

from bench.rounds import Timing, percentile
from bench.row import Plan, Row, alone, beside
from coilclaw.packets.ids import stamp
from coilclaw.store.database import Database
from coilclaw.store.memory import MemorySearch

VOCABULARY = 50_000
WORDS = 12
LIMIT = 20
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PASSES = 3
RAW = (
    "SELECT m.thread_id, m.message_id, m.role, m.created_at, m.content, rank FROM messages_fts"
    " JOIN messages m ON m.seq = messages_fts.rowid WHERE messages_fts MATCH ? ORDER BY rank LIMIT 20"
)
"""The least that shows the twenty best messages: bm25 alone, the words as they are, no recency, no snippet."""


def _vocabulary(source: random.Random) -> list[str]:
    """Words of two to four syllables, some of them beginnings of others, as in a language."""
    syllables = [
        consonant + vowel for consonant in "bcdfghjklmnprstvwz" for vowel in ("a", "e", "i", "o", "u", "an", "er")
    ]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(source.choices(syllables, k=source.choice((2, 3, 3, 4))))] = None
    return list(words)


def _fill(folder: Path, size: int, words: list[str], source: random.Random) -> Database:
    """A store with that many messages over two years, the words spread as Zipf found them.

    The index is filled in one go afterwards, which gives the same index and takes a fraction of the time.
    """
    db = Database(folder / "memory.sqlite", folder / "locks")
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(words))))
    write = db.reader
    write.execute("PRAGMA synchronous = OFF")
    write.execute("BEGIN")
    trigger = str(write.execute("SELECT sql FROM sqlite_master WHERE name = 'messages_added'").fetchone()[0])
    write.execute("DROP TRIGGER messages_added")
    write.execute("INSERT INTO users VALUES ('owner', '', ?)", (stamp(NOW),))
    threads = size // 20 + 1
    write.executemany(
        "INSERT INTO threads VALUES (?, 'owner', 'cli', '', ?, ?, NULL)",
        ((f"conv_{number:08d}", stamp(NOW), stamp(NOW)) for number in range(threads)),
    )
    step = timedelta(days=730) / size
    write.executemany(
        "INSERT INTO messages (message_id, thread_id, turn_id, role, content, label, created_at)"
        " VALUES (?, ?, 'turn_bench', ?, ?, 'owner', ?)",
        (
            (
                f"msg_{number:010d}", f"conv_{number // 20:08d}", ("user", "assistant")[number % 2],
                " ".join(source.choices(words, cum_weights=weights, k=WORDS)), stamp(NOW - step * (size - number)),
            )
            for number in range(size)
        ),
    )  # fmt: skip
    write.execute("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')")
    write.execute(trigger)
    write.execute("COMMIT")
    write.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return db


def _queries(words: list[str], source: random.Random, times: int) -> dict[str, list[str]]:
    """Queries by how often their words occur; in a million messages one word of rank r stands in about 1.2M / r."""
    rare, mid, common = words[15_000:40_000], words[600:3_000], words[20:100]

    def some(*ranks: list[str]) -> list[str]:
        return [" ".join(source.choice(one) for one in ranks) for _ in range(times)]

    return {
        "one rare word": some(rare),
        "two mid words": some(mid, mid),
        "one mid word": some(mid),
        "common and mid": some(common, mid),
        "two common words": some(common, common),
        "one very common word": [source.choice(words[:5]) for _ in range(times)],
    }


def _seconds(work: Callable[[str], object], query: str) -> float:
    start = time.perf_counter()
    work(query)
    return time.perf_counter() - start


def measure(plan: Plan) -> Iterator[Row]:
    """Every query of every class, ours and raw in turn."""
    source = random.Random(7)
    words = _vocabulary(source)
    size = plan.size(1_000_000, 20_000)
    db = _fill(plan.folder, size, words, source)
    # A connection of its own: what one side reads must not sit in the other's page cache.
    bare = sqlite3.connect(f"file:{db.path}?mode=ro", uri=True)
    search = MemorySearch(db, lambda: NOW)

    def ours(query: str) -> object:
        return search.search(query, limit=LIMIT)

    def raw(query: str) -> object:
        return bare.execute(RAW, (" ".join(f'"{word}"' for word in query.split()),)).fetchall()

    try:
        yield from _rows(size, _queries(words, source, plan.size(15, 5)), ours, raw)
    finally:
        bare.close()
        db.close()


def _rows(
    size: int, queries: dict[str, list[str]], ours: Callable[[str], object], raw: Callable[[str], object]
) -> Iterator[Row]:
    took: dict[str, list[float]] = {}
    floor: dict[str, list[float]] = {}
    for name, asked in queries.items():
        for query in asked:
            for look in (ours, raw):  # this look does not count: afterwards both sides read from memory
                look(query)
            for _ in range(PASSES):
                took.setdefault(name, []).append(_seconds(ours, query))
                floor.setdefault(name, []).append(_seconds(raw, query))
    for name in queries:
        yield beside(
            "memory", f"memory search in {size:,} messages: {name}", "ms", Timing.of(took[name]).scaled(1e3),
            "raw FTS5, bm25 top 20", Timing.of(floor[name]).scaled(1e3), at_most=1.3,
        )  # fmt: skip
    every, raws = [one for each in took.values() for one in each], [one for each in floor.values() for one in each]
    p95, raw95 = percentile(every, 0.95) * 1e3, percentile(raws, 0.95) * 1e3
    yield alone(
        "memory", "memory search, p95 of all of them", "ms", Timing(min=p95, median=p95, samples=len(every)),
        at_most=20, note=f"raw {raw95:.1f} ms",
    )  # fmt: skip
