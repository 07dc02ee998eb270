"""A reader of events: its filter, its position, and its bounded send queue."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Literal, TypeAlias

from coilclaw.server.events.event import Event
from coilclaw.server.events.topics import Topic

MOST_EVENTS = 1000
MOST_BYTES = 1 << 20
MOST_MISSABLE = MOST_BYTES // 2
"""Queue size up to which optional messages are added: events always have room."""
AT_ONCE = 64 << 10
"""Bytes per send."""

Ending: TypeAlias = Literal["", "gone", "overflow", "revoked", "over"]


class Reader:
    """A follower of events; up to `seq` everything was sent or filtered out."""

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
        """Whether it wants an event with these topics."""
        return self.topics is None or not self.topics.isdisjoint(topics)

    def wants_thread(self, thread_id: str) -> bool:
        """Whether it wants an event of this conversation."""
        return self.thread_id is None or self.thread_id == thread_id

    def wants_text(self, thread_id: str) -> bool:
        """Whether it wants text of this conversation while it is being written."""
        named = self.text_of is None or self.text_of == thread_id
        return named and self.wants_topics(("thread",)) and self.wants_thread(thread_id)

    def tell(self, event: Event) -> None:
        """Queue an event, unless it was sent or is filtered out."""
        if event.seq <= self.seq:
            return
        self.seq = event.seq
        if self.wants_topics(event.topics) and self.wants_thread(event.thread_id):
            self.put(event.sse)

    def put(self, piece: bytes) -> None:
        """Queue a message; a reader with too large a queue is disconnected."""
        if self.ending:
            return
        if len(self._waiting) >= MOST_EVENTS or self._bytes + len(piece) > MOST_BYTES:
            self.end("overflow")
            return
        self._waiting.append(piece)
        self._bytes += len(piece)
        self._woken.set()

    def put_if_quick(self, piece: bytes) -> None:
        """Queue an optional message; dropped while the queue is too large."""
        if self._bytes + len(piece) <= MOST_MISSABLE and len(self._waiting) < MOST_EVENTS // 2:
            self.put(piece)

    def end(self, why: Ending) -> None:
        """Stop sending. The first reason counts."""
        self.ending = self.ending or why
        self._waiting.clear()
        self._bytes = 0
        self._woken.set()

    def take(self) -> bytes:
        """The next bytes to send; empty if the queue is."""
        pieces: list[bytes] = []
        size = 0
        while self._waiting and size < AT_ONCE:
            pieces.append(self._waiting.popleft())
            size += len(pieces[-1])
        self._bytes -= size
        return b"".join(pieces)

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something to do; False on timeout."""
        if not self._waiting and not self.ending:
            self._woken.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                return False
        return True
