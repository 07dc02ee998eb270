"""Search in messages: FTS5, ranked by relevance and recency, bounded however common the words are."""

from datetime import datetime

from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, from_stamp
from coilclaw.packets.ports import MemoryHit
from coilclaw.store.database import Database

CANDIDATES = 1000
"""How many of the newest matches are ranked; rarer words are ranked in full."""

HALF_LIFE_DAYS = 30.0


def match_expression(query: str) -> str:
    """An FTS5 expression for just the words of the query: no operators, no syntax errors.

    The last word also matches as a prefix, so a search works while it is being typed.
    """
    words = "".join(c if c.isalnum() or c == "_" else " " for c in query).split()
    if not words:
        raise UsageError("the search has no words.", remedy="Give at least one letter or digit.")
    quoted = [f'"{word}"' for word in words[:16]]
    return " ".join([*quoted[:-1], quoted[-1] + "*"])


def _recency(created_at: str, now: datetime) -> float:
    age_days = max(0.0, (now - from_stamp(created_at)).total_seconds() / 86400)
    return 0.5 ** (age_days / HALF_LIFE_DAYS)


_BEST = """
SELECT c.seq, c.relevance, m.created_at
FROM (
    SELECT seq, relevance
    FROM (
        SELECT rowid AS seq, rank AS relevance FROM messages_fts WHERE messages_fts MATCH ? ORDER BY rowid DESC LIMIT ?
    )
    ORDER BY relevance LIMIT ?
) c JOIN messages m ON m.seq = c.seq
"""


class MemorySearch:
    """The Memory port over the database."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def search(self, query: str, *, limit: int) -> list[MemoryHit]:
        """Best first: bm25, with a bonus of up to half for recent messages."""
        now = self._clock()
        wide = max(limit * 8, 64)
        exact = match_expression(query)[:-1]
        rows = self._db.reader.execute(_BEST, (exact, CANDIDATES, wide)).fetchall()
        if not rows:  # it may still be being typed
            rows = self._db.reader.execute(_BEST, (exact + "*", CANDIDATES, wide)).fetchall()
        scored = sorted(((-float(row[1]) * (1 + 0.5 * _recency(row[2], now)), row[0]) for row in rows), reverse=True)
        best = {seq: score for score, seq in scored[:limit]}
        found = self._db.reader.execute(
            "SELECT seq, thread_id, message_id, role, created_at, label, content FROM messages"
            " WHERE seq IN (SELECT value FROM json_each(?))",
            (str(list(best)),),
        )
        hits = {row[0]: _hit(row, best[row[0]], query) for row in found}
        return [hits[seq] for seq in best if seq in hits]


def _hit(row: tuple[int, str, str, str, str, str, str], score: float, query: str) -> MemoryHit:
    return MemoryHit(
        thread_id=row[1],
        message_id=row[2],
        role=row[3],
        created_at=row[4],
        label=row[5],
        snippet=_snippet(row[6], query),
        score=score,
    )


def _snippet(content: str, query: str, width: int = 160) -> str:
    """The part of the content around the first word that matches, on one line."""
    lowered = content.lower()
    places = [place for word in query.lower().split() if (place := lowered.find(word)) >= 0]
    start = max(0, (min(places) if places else 0) - width // 4)
    piece = " ".join(content[start : start + width].split())
    return ("…" if start else "") + piece + ("…" if start + width < len(content) else "")
