"""A reader of events: what it wants to hear, how far it has come, and what waits to be sent to it. Never unbounded."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Literal, TypeAlias

from coilclaw.server.events.event import Event
from coilclaw.server.events.topics import Topic

MOST_EVENTS = 1000
MOST_BYTES = 1 << 20
AT_ONCE = 64 << 10
"""Bytes that are sent in one piece."""

Ending: TypeAlias = Literal["", "gone", "overflow", "revoked", "over"]


class Reader:
    """One who follows the events; `seq` is the number up to which everything was told or is not wanted."""

    def __init__(
        self,
        *,
        topics: Iterable[Topic] | None = None,
        thread_id: str | None = None,
        text_of: str | None = None,
        seq: int = 0,
    ) -> None:
        self.topics = None if topics is None else frozenset(topics)
        self.thread_id = thread_id
        self.text_of = text_of
        self.seq = seq
        self.ending: Ending = ""
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._woken = asyncio.Event()

    def wants_topics(self, topics: tuple[Topic, ...]) -> bool:
        """Whether an event of these topics is asked for."""
        return self.topics is None or not self.topics.isdisjoint(topics)

    def wants_thread(self, thread_id: str) -> bool:
        """Whether an event of this conversation is asked for."""
        return self.thread_id is None or self.thread_id == thread_id

    def wants_text(self, thread_id: str) -> bool:
        """Whether text of this conversation is asked for while it is being written."""
        named = self.text_of is None or self.text_of == thread_id
        return named and self.wants_topics(("thread",)) and self.wants_thread(thread_id)

    def tell(self, event: Event) -> None:
        """Put an event behind what waits, unless it was told or is not wanted."""
        if event.seq <= self.seq:
            return
        self.seq = event.seq
        if self.wants_topics(event.topics) and self.wants_thread(event.thread_id):
            self.put(event.sse)

    def put(self, piece: bytes) -> None:
        """Put something to send behind what waits; one who lets too much pile up is cut off."""
        if self.ending:
            return
        if len(self._waiting) >= MOST_EVENTS or self._bytes + len(piece) > MOST_BYTES:
            self.end("overflow")
            return
        self._waiting.append(piece)
        self._bytes += len(piece)
        self._woken.set()

    def end(self, why: Ending) -> None:
        """Send nothing more. The first reason counts."""
        self.ending = self.ending or why
        self._waiting.clear()
        self._bytes = 0
        self._woken.set()

    def take(self) -> bytes:
        """What is to be sent next; nothing when nothing waits."""
        pieces: list[bytes] = []
        size = 0
        while self._waiting and size < AT_ONCE:
            pieces.append(self._waiting.popleft())
            size += len(pieces[-1])
        self._bytes -= size
        return b"".join(pieces)

    async def wait(self, seconds: float) -> bool:
        """Until there is something to do; False when the time is over first."""
        if not self._waiting and not self.ending:
            self._woken.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                return False
        return True
