"""The engine under all three layers: find an anchor, decide it from what has been seen, or wait for more.

A layer is a set of *anchors* (single characters, found by cheap regexes) and a `decide` that turns an anchor into
a hit. `decide` reads text only through a `Window`, which raises `More` at the end of what has arrived. So a decision
taken on a part of a stream is the one that would be taken on the whole, and any chunking gives the same result.

Held back: the word being written (at most `TAIL` characters) and everything from the first undecided anchor on. More
than `CAP` characters are never held: the anchor is then decided as if the text ended here, and what would have been
a secret is redacted and the rest of it swallowed.
"""

import re
from typing import NamedTuple, Protocol

from coilclaw.secrets.scan_cache import Page

CAP = 16_384
TAIL = 192
LOOKAHEAD = 96
LOOKBACK = 64
_CONTEXT = 256
_SWALLOW_KEPT = 96
RUN_END = re.compile(r"(?=[\s\"'`<>\\])")


class More(Exception):
    """What follows is needed before this can be decided; while only `members` follow, it need not be asked again."""

    def __init__(self, members: re.Pattern[str] | None = None, at: int = 0) -> None:
        super().__init__()
        self.members = members
        self.at = at


class Window:
    """Text as far as it has arrived. `final` says that nothing more will come."""

    __slots__ = ("_page", "_read", "final", "text")

    def __init__(self, text: str, *, final: bool) -> None:
        self.text = text
        self.final = final
        self._page: Page | None = None
        self._read = 0

    @property
    def page(self) -> Page:
        """The same text for a layer that asks about the same places again and again. It does not say `More`."""
        if self._page is None:
            self._page = Page(self.text)
        return self._page

    @property
    def looked(self) -> int:
        """How many characters decisions have read so far: what a hostile text can make of it is kept in bounds."""
        return self._read + (self._page.all_looked if self._page else 0)

    def char(self, at: int) -> str:
        """The character there; nothing past the end of a finished text."""
        if at < len(self.text):
            return self.text[at]
        if self.final:
            return ""
        raise More

    def run(self, members: re.Pattern[str], at: int) -> int:
        """Where the run of a character class that starts here ends."""
        found = members.match(self.text, at)
        end = found.end() if found else at
        self._read += end - at + 1
        if end >= len(self.text) and not self.final:
            raise More(members, at)
        return end

    def back(self, members: str, at: int, reach: int = LOOKBACK) -> int:
        """Where the run of these characters that ends here starts, looking back no further than `reach`."""
        before = self.text[max(0, at - reach) : at]
        return at - (len(before) - len(before.rstrip(members)))


class Hit(NamedTuple):
    """A piece of text to replace; with `until`, everything up to and including that pattern goes too."""

    start: int
    end: int
    text: str
    until: re.Pattern[str] | None = None


class Layer(Protocol):
    """One way to know a secret."""

    word: str
    """Characters of which anchors and what stands right before them are made."""

    def anchors(self, text: str, at: int) -> list[int]:
        """Where, from `at` on, a secret may be, in order. What tells so is made of `word` characters."""
        ...

    def decide(self, window: Window, at: int) -> Hit | None:
        """What the anchor is, or More."""
        ...


class StreamEngine:
    """One layer at work on one stream."""

    __slots__ = ("_done", "_floor", "_layer", "_text", "_until", "_waits", "looked")

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._text = ""
        self._done = 0  # everything before has been shown; kept only as context
        self._floor = 0  # where the last hit ended: no later hit starts before
        self._until: re.Pattern[str] | None = None
        self._waits: More | None = None  # what the first undecided anchor waits for
        self.looked = 0
        """How many characters were read for decisions so far."""

    def feed(self, chunk: str) -> str:
        """What can be shown now."""
        if not chunk:
            return ""
        self._text += chunk
        if self._waits is not None and self._still(self._waits):
            return ""
        shown = self._advance(final=False)
        cut = max(0, self._done - _CONTEXT)
        if self._waits is not None:
            self._waits.at -= cut
        self._text = self._text[cut:]
        self._done -= cut
        self._floor = max(0, self._floor - cut)
        return shown

    def close(self, chunk: str = "") -> str:
        """A last chunk and everything still held; nothing more will come."""
        self._text += chunk
        shown = self._advance(final=True)
        self._text, self._done, self._floor, self._until = "", 0, 0, None
        return shown

    def _still(self, more: More) -> bool:
        """Whether the run that an anchor waits for goes on: asking again would give the same."""
        found = more.members.match(self._text, more.at) if more.members else None
        return bool(found) and found.end() >= len(self._text) and len(self._text) - self._done <= CAP

    def _advance(self, *, final: bool) -> str:
        self._waits = None
        window = Window(self._text, final=final)
        try:
            return self._sifted(window, final=final)
        finally:
            self.looked += window.looked

    def _sifted(self, window: Window, *, final: bool) -> str:
        out: list[str] = []
        if self._until is not None and not self._swallow(window, self._until):
            return ""
        limit, show = self._borders(final=final)
        for at in self._layer.anchors(self._text, self._done):
            if at >= limit:
                break
            if at < self._done:
                continue  # inside the last hit
            try:
                hit = self._layer.decide(window, at)
            except More as more:
                held = max(self._done, window.back(self._layer.word, at))
                if len(self._text) - held <= CAP:
                    show = min(show, held)
                    self._waits = more
                    break
                hit = self._forced(at)
            if hit is None:
                continue
            start = max(hit.start, self._floor)
            out.append(self._text[self._done : start])
            out.append(hit.text)
            self._done = self._floor = hit.end
            self._until = hit.until
            if hit.until is not None and not self._swallow(window, hit.until):
                return "".join(out)
        if show > self._done:
            out.append(self._text[self._done : show])
            self._done = show
        return "".join(out)

    def _forced(self, at: int) -> Hit | None:
        window = Window(self._text, final=True)
        hit = self._layer.decide(window, at)
        self.looked += window.looked
        if hit is not None and hit.until is None and hit.end >= len(self._text):
            return hit._replace(until=RUN_END)
        return hit

    def _borders(self, *, final: bool) -> tuple[int, int]:
        """Anchors before the first are decided now; text before the second is shown unless one of them waits."""
        size = len(self._text)
        if final:
            return size, size
        start = max(self._done, size - TAIL)
        tail = size - start - len(self._text[start:].rstrip(self._layer.word)) if self._layer.word else 0
        return (size - tail if tail < LOOKAHEAD else size - LOOKAHEAD), size - tail

    def _swallow(self, window: Window, until: re.Pattern[str]) -> bool:
        """Drop text up to the end that was asked for; False while it has not come."""
        found = until.search(window.text, self._done)
        if found:
            self._done = self._floor = found.end()
            self._until = None
            return True
        size = len(window.text)
        self._done = size if window.final else max(self._done, size - _SWALLOW_KEPT)
        self._floor = self._done
        return window.final


class Anchor(NamedTuple):
    """A pattern, and the one character that every match of it starts with."""

    first: str
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, source: str) -> "Anchor":
        """The source starts with that character, as it is, escaped or in brackets."""
        return cls(source.lstrip("\\[")[0], re.compile(source, re.ASCII))


def places(anchors: tuple[Anchor, ...], text: str, at: int) -> list[int]:
    """Where any of the patterns starts. One literal first character each makes this faster than one big alternation."""
    found = [match.start() for first, pattern in anchors if first in text for match in pattern.finditer(text, at)]
    found.sort()
    return found


def sift(layer: Layer, text: str) -> str:
    """A whole text through one layer."""
    return StreamEngine(layer).close(text)
