"""The feed: new events of any process, read once, encoded once, sent to all followers.

The audit log is the sequence. Any commit to the database changes a mark that is cheap to read; only then are rows
read. The newest events are cached, so that a quick reconnect needs no query. It runs while somebody
follows, entirely in the event loop: between two steps nothing is half done, so nobody misses an event or
gets one twice.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import TypeAlias

import msgspec

from coilclaw import __version__
from coilclaw.gate.running import CommandOutput
from coilclaw.ledger.audit import Told, change_mark, last_number, told_after
from coilclaw.packets.ids import Clock, stamp
from coilclaw.secrets.redactor import Redactor
from coilclaw.server.events.event import Event, event_of, frame, payload_of, thread_of
from coilclaw.server.events.reader import Reader
from coilclaw.server.events.stream_messages import StreamGap, StreamHello, TextDelta
from coilclaw.server.events.topics import topics_of
from coilclaw.store.database import Database

POLL_SECONDS = 0.05
LOOK_ANYWAY = 20
"""After this many polls the numbers are compared even if the mark has not changed."""
PAGE = 100
"""Rows read per turn of the event loop."""
KEPT_EVENTS = 512
KEPT_BYTES = 512 << 10
"""How many of the newest events are cached; fewer than a reader's queue holds."""


Partials: TypeAlias = Callable[[], Iterable[tuple[str, str, str]]]
"""Returns the conversation, the turn and the text so far of every running turn."""


def _none() -> Iterable[tuple[str, str, str]]:
    return ()


class Feed:
    """One per process. `partials` may be set: it is called when a reader connects in the middle of a turn."""

    def __init__(self, db: Database, clock: Clock, redactor: Redactor, *, poll_seconds: float = POLL_SECONDS) -> None:
        self.partials: Partials = _none
        self.outputs: Callable[[], Iterable[CommandOutput]] = tuple
        """Returns the last output of every running command; may be set as well."""
        self.catching_up = asyncio.Lock()
        """Held while a page of old events is read: one page per turn of the loop, however many readers lag."""
        self._db = db
        self._clock = clock
        self._redactor = redactor
        self._poll_seconds = poll_seconds
        self._readers: set[Reader] = set()
        self._kept: deque[Event] = deque()
        self._kept_bytes = 0
        self._mark = -1
        self._last = 0  # delivered up to here
        self._floor = 0  # everything after it, up to the last, is cached
        self._polling: asyncio.Task[None] | None = None

    # Followers

    def hello(self, seq: int) -> bytes:
        """The first message of a stream; `seq` is its reader's position."""
        said = StreamHello(seq=self.newest(), version=__version__, now=stamp(self._clock()))
        return b"retry: 2000\n" + frame("hello", msgspec.json.encode(said), seq=seq)

    def newest(self) -> int:
        """The number of the newest event, delivered or not."""
        return last_number(self._db.reader)

    def position(self, reader: Reader) -> int:
        """The position of a reader that has received everything."""
        return max(reader.seq, self._last) if reader in self._readers else reader.seq

    def join(self, reader: Reader) -> bool:
        """Follow from the reader's position; False while it has to read older events first."""
        self._begin()
        if reader.seq < self._floor:
            return False
        for event in self._kept:
            reader.tell(event)
        for thread_id, turn_id, text in self.partials():
            if text and reader.wants_text(thread_id):
                reader.put(_text(thread_id, turn_id, 0, text))
        for output in self.outputs():
            if reader.wants_text(output.thread_id):
                reader.put_if_quick(_output(output))
        self._readers.add(reader)
        return True

    def leave(self, reader: Reader) -> None:
        """Stop following. Without followers nothing is polled."""
        self._readers.discard(reader)
        if not self._readers and self._polling is not None:
            self._polling.cancel()
            self._polling = None

    def close(self) -> None:
        """End every stream."""
        for reader in list(self._readers):
            reader.end("over")

    def older(self, reader: Reader) -> bytes:
        """The next page of events older than the cache, filtered for this reader; advances the reader."""
        until = max(self._floor, reader.seq)
        rows = told_after(self._db.reader, reader.seq, PAGE, until=until)
        pieces: list[bytes] = []
        for told in rows:
            pieces.append(_gap(reader.seq + 1, told.seq - 1))
            reader.seq = told.seq
            if reader.wants_topics(topics_of(told.event_type)):
                pieces.append(self._wanted(told, reader))
        if len(rows) < PAGE:
            pieces.append(_gap(reader.seq + 1, until))
            reader.seq = until
        return b"".join(pieces) or b":\nid: %d\n\n" % reader.seq

    def _wanted(self, told: Told, reader: Reader) -> bytes:
        payload = payload_of(told)
        thread_id = thread_of(told, payload)
        return event_of(told, payload, thread_id, self._redactor).sse if reader.wants_thread(thread_id) else b""

    # Text

    def say_text(self, thread_id: str, turn_id: str, offset: int, piece: str) -> None:
        """Send a piece of text, already redacted, to all followers of a conversation. It is not stored."""
        sent = b""
        for reader in self._readers:
            if reader.wants_text(thread_id):
                sent = sent or _text(thread_id, turn_id, offset, piece)
                reader.put(sent)

    def say_output(self, output: CommandOutput) -> None:
        """Send a command's output, already redacted. Slow readers miss pieces."""
        sent = b""
        for reader in self._readers:
            if reader.wants_text(output.thread_id):
                sent = sent or _output(output)
                reader.put_if_quick(sent)

    # New events

    def look(self) -> bool:
        """Read and deliver the next page of new events; returns whether there may be more."""
        self._mark = change_mark(self._db.reader)  # read first: later commits change it again
        newest = self.newest()
        if newest < self._last:  # the database was replaced: the cache is useless
            self._restart(newest)
        rows = told_after(self._db.reader, self._last, PAGE, until=newest)
        for told in rows:
            payload = payload_of(told)
            self._hand_out(event_of(told, payload, thread_of(told, payload), self._redactor))
        if len(rows) == PAGE:
            return True
        self._last = newest
        return False

    def _hand_out(self, event: Event) -> None:
        self._kept.append(event)
        self._kept_bytes += len(event.sse)
        while len(self._kept) > KEPT_EVENTS or self._kept_bytes > KEPT_BYTES:
            gone = self._kept.popleft()
            self._kept_bytes -= len(gone.sse)
            self._floor = gone.seq
        self._last = event.seq
        for reader in self._readers:
            reader.tell(event)

    def _restart(self, newest: int) -> None:
        self._kept.clear()
        self._kept_bytes = 0
        self._last = self._floor = newest

    def _begin(self) -> None:
        if self._polling is None or self._polling.done():
            self._restart(self.newest())
            self._mark = -1
            self._polling = asyncio.create_task(self._poll(), name="feed")

    async def _poll(self) -> None:
        try:
            for number in count(1):
                await asyncio.sleep(self._poll_seconds)
                await self._look_if_changed(anyway=number % LOOK_ANYWAY == 0)
        finally:  # followers of a broken feed reconnect to a new one
            if self._polling is asyncio.current_task():
                self.close()

    async def _look_if_changed(self, *, anyway: bool) -> None:
        try:
            if not anyway and change_mark(self._db.reader) == self._mark:
                return
            while self.look():
                await asyncio.sleep(0)
        except sqlite3.Error:  # a full disk or a long-held lock may be temporary
            self._mark = -1


def _text(thread_id: str, turn_id: str, offset: int, text: str) -> bytes:
    return frame("text", msgspec.json.encode(TextDelta(thread_id=thread_id, turn_id=turn_id, offset=offset, text=text)))


def _output(output: CommandOutput) -> bytes:
    return frame("command_output", msgspec.json.encode(output))


def _gap(first: int, last: int) -> bytes:
    """A gap message if numbers are missing, else nothing."""
    return frame("gap", msgspec.json.encode(StreamGap(first=first, last=last)), seq=last) if first <= last else b""


def gap_ahead(claimed: int, newest: int) -> bytes:
    """The message for a reader with numbers that were never issued here."""
    return frame("gap", msgspec.json.encode(StreamGap(first=claimed, last=newest)), seq=newest)
