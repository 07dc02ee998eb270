"""Search over what was said: FTS5, ranked by relevance and recency, bounded however common the words are."""

import sqlite3
from datetime import datetime

from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, from_stamp
from coilclaw.packets.ports import MemoryHit

CANDIDATES = 1000
"""How many of the newest matches are ranked; rarer words are ranked in full."""

HALF_LIFE_DAYS = 30.0


def match_expression(query: str) -> str:
    """An FTS5 expression that means the words of the query and nothing else: no operators, no syntax errors.

    The last word also matches as a prefix, so a search works while it is being typed.
    """
    words = "".join(c if c.isalnum() or c == "_" else " " for c in query).split()
    if not words:
        raise UsageError("there is no word to search for.", remedy="Give at least one letter or digit.")
    quoted = [f'"{word}"' for word in words[:16]]
    return " ".join([*quoted[:-1], quoted[-1] + "*"])


def _recency(created_at: str, now: datetime) -> float:
    age_days = max(0.0, (now - from_stamp(created_at)).total_seconds() / 86400)
    return 0.5 ** (age_days / HALF_LIFE_DAYS)


class MemorySearch:
    """The Memory port over the database."""

    def __init__(self, reader: sqlite3.Connection, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock

    def search(self, query: str, *, limit: int) -> list[MemoryHit]:
        """Best first: bm25, with up to half as much again for what is recent."""
        matches = self._reader.execute(
            "SELECT f.rowid, bm25(messages_fts) FROM messages_fts f WHERE messages_fts MATCH ?"
            " ORDER BY f.rowid DESC LIMIT ?",
            (match_expression(query), CANDIDATES),
        ).fetchall()
        if not matches:
            return []
        now = self._clock()
        # Recency needs a date per candidate; only the best few hundred by relevance can win.
        best = sorted(matches, key=lambda row: row[1])[: max(limit * 8, 64)]
        found: list[MemoryHit] = []
        for seq, relevance in best:
            row = self._reader.execute(
                "SELECT thread_id, message_id, role, created_at, label, content FROM messages WHERE seq = ?", (seq,)
            ).fetchone()
            if row is None:
                continue
            score = -float(relevance) * (1 + 0.5 * _recency(row[3], now))
            found.append(
                MemoryHit(
                    thread_id=row[0],
                    message_id=row[1],
                    role=row[2],
                    created_at=row[3],
                    label=row[4],
                    snippet=_snippet(row[5], query),
                    score=score,
                )
            )
        found.sort(key=lambda hit: (-hit.score, hit.message_id))
        return found[:limit]


def _snippet(content: str, query: str, width: int = 160) -> str:
    """The part of the content around the first word that matches, on one line."""
    lowered = content.lower()
    places = [place for word in query.lower().split() if (place := lowered.find(word)) >= 0]
    start = max(0, (min(places) if places else 0) - width // 4)
    piece = " ".join(content[start : start + width].split())
    return ("…" if start else "") + piece + ("…" if start + width < len(content) else "")
