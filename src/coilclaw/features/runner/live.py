"""A running session as viewers see it: the follower feeds it, readers take from it at their own pace.

Everything is redacted before it is recorded, and recorded before anybody sees it. The newest output is kept in a ring
that all readers share: a reader is only a position, so a slow one costs and delays nothing. One that does not
acknowledge what it got is skipped forward, and told what it missed.
"""

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from coilclaw.features.runner.event import SessionEvent
from coilclaw.features.runner.recording import Recording
from coilclaw.features.runner.spec import RepoRef
from coilclaw.secrets.cuts import after_gap
from coilclaw.secrets.redactor import Redactor

RING = 256 << 10
SMALL = 4096
"""Smaller pieces of the ring are joined: typed characters come one by one."""
WINDOW = 256 << 10
"""Bytes that may be on their way to a reader without an acknowledgement."""
LARGEST_CHUNK = (64 << 10) - 16
"""With its head it fits into a frame of 64 KiB."""
PAUSE_SECONDS = 0.01
"""After this long without output, what redaction holds back is released if it may be."""
PRIMING = 4096
"""Raw bytes before the recorded offset that redaction reads again after a restart, to know what it is in."""
KEPT_EVENTS = 256
REDRAW_SECONDS = 1.0

_MODE = re.compile(rb"\x1b(?:\[\?([0-9;]+)([hl])|([=>])|(c)|\[(![p]))")
_RESET = b"\x1bc"
_LARGEST_MODE = 9999
_ALTERNATE = (47, 1047, 1049)
_DRAWING = (1000, 1002, 1003, 1004, 2026)


class Modes:
    """The terminal modes in force: alternate screen, bracketed paste, mouse, cursor, keypad."""

    def __init__(self) -> None:
        self._set: dict[int, bytes] = {}
        self._keypad = b""

    def read(self, data: bytes) -> bool:
        """Follow what the output sets and resets; says whether it does."""
        some = False
        for found in _MODE.finditer(data) if b"\x1b" in data else ():
            some = True
            if found[1]:
                for mode in found[1].split(b";"):
                    if mode and (number := int(mode[:5])) <= _LARGEST_MODE:
                        self._set.pop(number, None)
                        self._set[number] = found[2]
            elif found[3]:
                self._keypad = b"\x1b" + found[3]
            else:
                self._set.clear()
                self._keypad = b""
        while len(self._set) > 64:
            del self._set[next(iter(self._set))]
        return some

    @property
    def alternate(self) -> bool:
        """Whether the alternate screen is shown, as by an editor."""
        return any(self._set.get(mode) == b"h" for mode in _ALTERNATE)

    @property
    def drawing(self) -> bool:
        """Whether a program seems to place what it writes: it hides the cursor, or reads mouse or focus."""
        return self._set.get(25) == b"l" or any(self._set.get(mode) == b"h" for mode in _DRAWING)

    def sequences(self) -> bytes:
        """What brings a fresh terminal into these modes."""
        return b"".join(b"\x1b[?%d%s" % (mode, on) for mode, on in self._set.items()) + self._keypad


class TerminalReader:
    """A viewer's position in a session's output."""

    def __init__(self, offset: int, wake: Callable[[], None]) -> None:
        self.offset = offset
        """Everything before was sent."""
        self.acked = offset
        self.wake = wake

    def ack(self, offset: int) -> None:
        """The viewer has processed everything before this offset."""
        self.acked = max(self.acked, min(offset, self.offset))

    @property
    def room(self) -> int:
        """How many bytes may be sent now."""
        return max(0, WINDOW - (self.offset - self.acked))


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Output for a reader, or what it missed."""

    offset: int
    data: bytes
    missed: int = 0
    """How many bytes before `offset` were skipped."""


class LiveSession:
    """One followed session. All of it runs in the event loop."""

    def __init__(
        self, session_id: str, recording: Recording, redactor: Redactor, *, now: Callable[[], int], seq: int
    ) -> None:
        self.session_id = session_id
        self.recording = recording
        self.ended = False
        self.size: tuple[int, int] | None = None
        """Rows and columns, once they changed."""
        self._redacting = redactor.terminal()
        self._now = now
        """Milliseconds since the session began."""
        self._raw = recording.raw_offset
        self._seen: int | None = None  # the next raw offset; none before the first piece
        self._cut = False  # output is missing before the next piece
        self._ring: deque[tuple[int, bytes, bool]] = deque()  # offset, output, whether it sets modes
        self._first = recording.offset  # where the ring begins
        self._before = Modes()  # those in force where the ring begins
        self._modes = Modes()
        self._readers: set[TerminalReader] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._redrawn = float("-inf")
        self._events: deque[SessionEvent] = deque()
        self._stored = seq  # events up to this number are only in the store
        self._load()

    @property
    def attach_at(self) -> int:
        """The raw offset to follow from. It overlaps with what was recorded, which is not shown again."""
        return max(0, self._raw - PRIMING)

    @property
    def offset(self) -> int:
        """Where the next output will stand."""
        return self.recording.offset

    @property
    def watched(self) -> bool:
        """Whether anybody looks at it now."""
        return bool(self._readers)

    @property
    def behind(self) -> int:
        """How much the slowest viewer has not acknowledged."""
        return max((self.offset - reader.acked for reader in self._readers), default=0)

    # The follower's side

    def feed(self, raw_offset: int, data: bytes) -> None:
        """Raw output, and the offset of its first byte."""
        if self._seen is not None and raw_offset > self._seen:
            self.gap(self._seen, raw_offset)
        elif self._seen is None and raw_offset > self._raw:
            self.gap(self._raw, raw_offset)
        if self._seen is not None and raw_offset < self._seen:
            data, raw_offset = data[self._seen - raw_offset :], self._seen
        self._seen = raw_offset + len(data)
        if raw_offset < self._raw:
            data = self._prime(data, self._raw - raw_offset)
        if self._cut and data:
            data, self._cut = after_gap(data), False
        if data:
            self._raw = self._seen
            self._add(self._redacting.feed(data), self._redacting.unseen)
        self._pause_later()

    def gap(self, first: int, last: int) -> None:
        """Raw output is missing from `first` up to `last`."""
        if last <= self._raw:
            return
        self.settle()
        self._redacting.close()  # what it held may be half of a secret
        self.recording.gap(self._now(), last)
        self._raw, self._seen, self._cut = last, last, True
        self._add(b"\x1b[0m\r\n[%d bytes missing]\r\n" % (last - first))

    def settle(self) -> None:
        """Record everything that was fed, as far as redaction does not hold it."""
        self._add(self._redacting.settle())

    def event(self, event: SessionEvent) -> None:
        """Something else happened, and is stored."""
        self._events.append(event)
        if len(self._events) > KEPT_EVENTS:
            self._stored = self._events.popleft().seq
        self._wake()

    def resized(self, rows: int, columns: int) -> None:
        """The terminal has another size."""
        self.size = (rows, columns)
        self.recording.resize(self._now(), rows, columns)
        self._wake()

    def end(self) -> None:
        """No more output will come."""
        if self._pause is not None:
            self._pause.cancel()
        self.settle()
        self._add(self._redacting.close())
        self.ended = True
        self.recording.sync()
        self._wake()

    def _prime(self, data: bytes, known: int) -> bytes:
        """Let redaction read what was recorded before a restart; returns the rest."""
        self._redacting.feed(data[:known])
        self._redacting.settle()
        if len(data) >= known and self.recording.flushed:
            self._redacting.flush()
        return data[known:]

    def _add(self, data: bytes, unseen: int = 0) -> None:
        if not data:
            return
        self.recording.output(self._now(), self._raw - self._redacting.put_off, data)
        self._keep(data, unseen)
        self._wake()

    def _keep(self, data: bytes, unseen: int) -> None:
        modal = self._modes.read(data[: len(data) - unseen])  # plain output sets none
        if self._ring and len(self._ring[-1][1]) < SMALL:
            start, last, before = self._ring.pop()
            self._ring.append((start, last + data, modal or before or b"\x1b" in last[-32:]))
        else:
            self._ring.append((self.recording.offset - len(data), data, modal))
        while self._ring and self.recording.offset - self._first > RING + LARGEST_CHUNK:
            _, gone, modal = self._ring.popleft()
            if modal:
                self._before.read(gone)
            self._first += len(gone)

    def _load(self) -> None:
        """Fill the ring from the recording of an earlier server."""
        for frame in self.recording.frames():
            if frame.kind == "output" and frame.offset + len(frame.data) > self.recording.offset - RING:
                if not self._ring:
                    self._first = frame.offset
                self._ring.append((frame.offset, frame.data, self._modes.read(frame.data)))
            elif frame.kind == "output":
                self._before.read(frame.data)
                self._modes.read(frame.data)

    def _pause_later(self) -> None:
        if self._pause is None and self._redacting.holds:
            self._pause = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._paused, self._seen)

    def _paused(self, seen: int | None) -> None:
        self._pause = None
        if seen == self._seen:
            self.settle()
            self._add(self._redacting.flush())
        else:
            self._pause_later()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake()

    # The viewers' side

    def join(self, wake: Callable[[], None], offset: int | None = None) -> tuple[TerminalReader, bytes]:
        """A reader, and what brings its terminal into the state its first output expects.

        With an offset it goes on where it was. Without, or if that is too old, it starts at the ring's beginning.
        """
        fresh = offset is None or not self._first <= offset <= self.offset
        reader = TerminalReader(self._first if fresh or offset is None else offset, wake)
        self._readers.add(reader)
        return reader, _RESET + self._before.sequences() if fresh else b""

    def leave(self, reader: TerminalReader) -> None:
        """A viewer went away."""
        self._readers.discard(reader)

    def take(self, reader: TerminalReader) -> Chunk | None:
        """The next output for a reader, at most `LARGEST_CHUNK`; None while there is nothing, or no room."""
        if reader.offset < self._first:
            missed, reader.offset = self.offset - reader.offset, self.offset
            return Chunk(offset=self.offset, data=self._modes.sequences(), missed=missed)
        data = self._slice(reader.offset, min(LARGEST_CHUNK, reader.room))
        if not data:
            return None
        found = Chunk(offset=reader.offset, data=data)
        reader.offset += len(data)
        return found

    def may_redraw(self) -> bool:
        """Whether a program that draws its screen itself is to draw it again; not too often."""
        now = asyncio.get_running_loop().time()
        # On the normal screen a replay is right as long as it starts at the beginning.
        needs = self._modes.alternate or (self._first > 0 and self._modes.drawing)
        if not needs or now - self._redrawn < REDRAW_SECONDS:
            return False
        self._redrawn = now
        return True

    def events_after(self, seq: int) -> list[SessionEvent] | None:
        """The events after this number; None if some of them are only in the store."""
        if seq < self._stored:
            return None
        return [event for event in self._events if event.seq > seq]

    def _slice(self, offset: int, most: int) -> bytes:
        """Output of the ring from this offset. Most readers are at its end, so look from there."""
        pieces: list[bytes] = []
        for start, data, _ in reversed(self._ring):
            if start + len(data) <= offset:
                break
            pieces.append(data[max(0, offset - start) :])
        whole = b"".join(reversed(pieces)) if len(pieces) > 1 else b"".join(pieces)
        return whole if len(whole) <= most else _whole_characters(whole[:most])


def _whole_characters(data: bytes) -> bytes:
    """Without the beginning of a character whose end is missing."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if size > back and len(data) > back else data
    return data


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What the stream needs to know about a session."""

    session_id: str
    org_id: str
    repo_id: str
    repo_ref: RepoRef
    state: str
    rows: int
    columns: int
    seq: int
    """The number of its last stored event."""


@dataclass(frozen=True, kw_only=True)
class SessionAccess:
    """What the stream is given: how to find sessions, and how to act on one. Acts raise Trouble or CoilclawError."""

    find: Callable[[str], Watched | None]
    knows: Callable[[str, str | None], bool]
    """Whether there is such an organisation, with such a repository."""
    live: Callable[[str], LiveSession | None]
    """None once nobody follows it any more."""
    events: Callable[[str, int, int], list[SessionEvent]]
    """Stored events of a session after a number, at most so many."""
    send: Callable[[str, bytes], Awaitable[None]]
    resize: Callable[[str, str, int, int], Awaitable[None]]
    """For a viewer (an id of its own): rows and columns; 0 and 0 when it no longer counts."""
    redraw: Callable[[str], Awaitable[None]]
