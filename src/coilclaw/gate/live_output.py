"""Live output: what a command writes while it runs, shown to watchers. Redacted, made visible, and bounded.

The command never waits for a watcher. What it writes within a moment is taken up to a bound, the rest of that moment is
left out and counted; what is shown goes through the streaming redactor, each stream by itself, because one half of a
secret on each side of a foreign line is a secret that nobody finds.
"""

import asyncio
import codecs
from collections.abc import Callable

from coilclaw.packets.box import OutputName
from coilclaw.packets.text import visible
from coilclaw.secrets.cuts import after_gap, before_gap
from coilclaw.secrets.stream import RedactingStream

EVERY_SECONDS = 0.1
MOST_WAITING = 32 << 10
"""Bytes of each stream that are taken per interval."""
MOST_SAID = 64 << 10
"""Characters shown at once: made visible, a control character becomes eight."""
KEPT = 64 << 10
"""Characters that are kept for watchers who join later."""


class _Stream:
    """One of the two streams, between what was written and what is shown."""

    def __init__(self, redacting: Callable[[], RedactingStream]) -> None:
        self._redacting = redacting
        self._waiting = bytearray()
        self._left_out = 0
        self._cut = False
        self._begin()

    def _begin(self) -> None:
        self._redactor = self._redacting()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, data: bytes) -> None:
        room = MOST_WAITING - len(self._waiting)
        self._waiting += data[:room]
        self._left_out += max(0, len(data) - room)

    def shown(self, *, final: bool) -> tuple[str, int]:
        """What can be shown now, and how much is left out behind it."""
        data, left_out = bytes(self._waiting), self._left_out
        self._waiting.clear()
        self._left_out = 0
        if self._cut and data:
            data = after_gap(data)
            self._cut = False
        if not left_out:
            text = self._redactor.feed(self._decoder.decode(data, final))
            return text + (self._redactor.close() if final else ""), 0
        kept = before_gap(data)
        text = self._redactor.feed(self._decoder.decode(kept))
        self._begin()  # the word that was being written is half gone: what was held back of it is not shown
        self._cut = True
        return text, left_out + len(data) - len(kept)


class LiveOutput:
    """The output of one command. `say` gets each piece and how many characters were shown before it."""

    def __init__(self, redacting: Callable[[], RedactingStream], say: Callable[[int, str], None]) -> None:
        self._streams: dict[OutputName, _Stream] = {"stdout": _Stream(redacting), "stderr": _Stream(redacting)}
        self._say = say
        self._timer: asyncio.TimerHandle | None = None
        self._broken = False
        self.text = ""
        """The end of what was shown."""
        self.length = 0
        """How many characters were shown."""

    def __call__(self, name: OutputName, data: bytes) -> None:
        """Take what the command wrote."""
        self._streams[name].take(data)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_SECONDS, self._flush)

    def close(self) -> None:
        """The command is over: show what was held back."""
        if self._timer is not None:
            self._timer.cancel()
        self._show(final=True)

    def _flush(self) -> None:
        self._timer = None
        self._show(final=False)

    def _show(self, *, final: bool) -> None:
        for stream in self._streams.values():
            if self._broken:
                return
            try:
                text, left_out = stream.shown(final=final)
                text = visible(text)
            except Exception:  # fail closed: what cannot be redacted is not shown
                self._broken = True
                return
            left_out += max(0, len(text) - MOST_SAID)
            self._tell(text[:MOST_SAID] + (f"\n[{left_out} bytes left out]\n" if left_out else ""))

    def _tell(self, piece: str) -> None:
        if piece:
            offset = self.length
            self.length += len(piece)
            self.text = (self.text + piece)[-KEPT:]
            self._say(offset, piece)
