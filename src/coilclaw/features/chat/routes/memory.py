"""Memory: search over what was said in all conversations."""

from typing import Annotated

import msgspec
from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from coilclaw.features.chat.routes.lookups import shown_text
from coilclaw.packets.action import Label
from coilclaw.packets.labels import is_untrusted
from coilclaw.packets.ports import MemoryHit
from coilclaw.server.core import Core
from coilclaw.store.memory import MemorySearch

Query = Annotated[str, QueryParameter(min_length=1, max_length=400, description="Words to look for.")]
Most = Annotated[int, QueryParameter(ge=1, le=50, description="Maximum number of items.")]


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A message that matches."""

    conversation_id: str
    thread_id: str
    """The same, by the name that other routes use."""
    message_id: str
    role: str
    created_at: str
    snippet: str
    """The part around the words."""
    score: float
    label: Label
    untrusted: bool
    """Somebody else's words may be in it."""


class Hits(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, best first."""

    items: list[Hit]


class MemoryRoutes(Controller):
    """What was said before."""

    path = "/v1/memory"
    tags = ("memory",)

    @get("/search", operation_id="searchMemory", summary="Search messages", sync_to_thread=False)
    def search(self, core: NamedDependency[Core], q: Query, limit: Most = 10) -> Hits:
        """Messages that hold the words, best first: by relevance, with something added for what is recent."""
        return found(core, q, limit)


def found(core: Core, words: str, limit: int) -> Hits:
    """What a search finds, as it leaves."""
    hits = MemorySearch(core.db, core.clock).search(words, limit=limit)
    return Hits(items=[_shown(core, hit) for hit in hits])


def _shown(core: Core, hit: MemoryHit) -> Hit:
    return Hit(
        conversation_id=hit.thread_id,
        thread_id=hit.thread_id,
        message_id=hit.message_id,
        role=hit.role,
        created_at=hit.created_at,
        snippet=shown_text(core, hit.snippet),
        score=hit.score,
        label=hit.label,
        untrusted=is_untrusted(hit.label),
    )
