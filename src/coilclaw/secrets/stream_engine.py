"""The engine under all three layers: find an anchor, decide it from what has been seen, or wait for more.

A layer is a set of *anchors* (single characters, found by cheap regexes) and a `decide` that turns an anchor into
a hit. `decide` reads text only through a `Window`, which raises `More` at the end of the available text. So a decision
made on a part of a stream is the one that would be made on the whole, and any chunking gives the same result.

It holds back the word being written (at most `TAIL` characters) and everything from the first undecided anchor on. More
than `CAP` characters are never held: the anchor is then decided as if the text ended here, and what would have been
a secret is redacted and the rest of it swallowed.
"""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from coilclaw.secrets.fingerprints import Fingerprints, Sets

if TYPE_CHECKING:
    from coilclaw.secrets.scan_cache import Page

CAP = 16_384
TAIL = 192
LOOKAHEAD = 96
LOOKBACK = 64
_CONTEXT = 256
_SWALLOW_KEPT = 96
_LONG_TEXT = 1_024
_PRINT_REACH = 8
"""How far before an anchor its fingerprint may begin."""
RUN_END = re.compile(r"(?=[\s\"'`<>\\])")


class More(Exception):
    """The decision needs more text; while only `members` follow, asking again is pointless."""

    def __init__(self, members: re.Pattern[str] | None = None, at: int = 0, *, seen: int = 0) -> None:
        super().__init__()
        self.members = members
        self.at = at
        self.seen = seen
        """How many characters of a registered value are here already."""


class Window:
    """Text as far as it has arrived. `final` says that nothing more will come."""

    __slots__ = ("_page", "_read", "final", "text")

    def __init__(self, text: str, *, final: bool) -> None:
        self.text = text
        self.final = final
        self._page: Page | None = None
        self._read = 0

    @property
    def page(self) -> "Page":
        """The same text for a layer that asks about the same places again and again. It does not say `More`."""
        if self._page is None:
            from coilclaw.secrets.scan_cache import Page

            self._page = Page(self.text)
        return self._page

    @property
    def looked(self) -> int:
        """How many characters decisions have read so far; tests keep this bounded for hostile texts."""
        return self._read + (self._page.all_looked if self._page else 0)

    def char(self, at: int) -> str:
        """The character at this position; empty past the end of a finished text."""
        if at < len(self.text):
            return self.text[at]
        if self.final:
            return ""
        raise More

    def run(self, members: re.Pattern[str], at: int) -> int:
        """The end of the run of a character class that starts here."""
        found = members.match(self.text, at)
        end = found.end() if found else at
        self._read += end - at + 1
        if end >= len(self.text) and not self.final:
            raise More(members, at)
        return end

    def back(self, members: str, at: int, reach: int = LOOKBACK) -> int:
        """The start of the run of these characters that ends here, looking back no further than `reach`."""
        before = self.text[max(0, at - reach) : at]
        return at - (len(before) - len(before.rstrip(members)))


class Hit(NamedTuple):
    """A piece of text to replace; with `until`, everything up to and including that pattern is dropped too."""

    start: int
    end: int
    text: str
    until: re.Pattern[str] | None = None


class Layer(Protocol):
    """One way to recognise a secret."""

    word: str
    """Characters that anchors and their immediate left context consist of."""

    def anchors(self, text: str, at: int) -> list[int]:
        """Positions from `at` on where a secret may be, in order. Anchors consist of `word` characters."""
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
        self._done = 0  # everything before was shown; kept only as context
        self._floor = 0  # where the last hit ended: no later hit starts before
        self._until: re.Pattern[str] | None = None
        self._waits: More | None = None  # what the first undecided anchor needs
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
        """A last chunk and everything still held back; nothing more will come."""
        self._text += chunk
        shown = self._advance(final=True)
        self._text, self._done, self._floor, self._until = "", 0, 0, None
        return shown

    def _still(self, more: More) -> bool:
        """Whether the run that an anchor waits for continues, so that asking again would give the same answer."""
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
        """Drop text up to the requested end; False until it arrives."""
        found = until.search(window.text, self._done)
        if found:
            self._done = self._floor = found.end()
            self._until = None
            return True
        size = len(window.text)
        self._done = size if window.final else max(self._done, size - _SWALLOW_KEPT)
        self._floor = self._done
        return window.final


class Anchor:
    """A pattern that starts with one literal character: as it is, escaped or in brackets.

    Every match of it holds one of the `words`. Until a text does, it is not compiled: most never are, and compiling
    them all would take longer than a short command.
    """

    __slots__ = ("_pattern", "first", "prints", "source", "words")

    def __init__(self, source: str, *words: str, prints: tuple[tuple[int, int, Sets], ...] = ()) -> None:
        self.first = source.lstrip("\\[")[0]
        self.source = source
        self.words = words or (self.first,)
        self.prints = prints
        """What stands at every match: the bucket, where the anchor is relative to it, and the characters."""
        self._pattern: re.Pattern[str] | None = None

    def matches(self, text: str, at: int) -> Iterable[re.Match[str]]:
        """Where it stands in the text from `at` on."""
        if self._pattern is None and not any(word in text for word in self.words):
            return ()
        return self.compiled().finditer(text, at)

    def compiled(self) -> re.Pattern[str]:
        """The pattern."""
        if self._pattern is None:
            self._pattern = re.compile(self.source, re.ASCII)
        return self._pattern


_Printed: TypeAlias = tuple[int, str, Callable[[str, int], re.Match[str] | None]]
"""Where an anchor is relative to its fingerprint, its first character, and its pattern."""


class Anchors:
    """The anchors of a layer. In a long text most are found by their fingerprints, all in one go."""

    def __init__(self, anchors: tuple[Anchor, ...]) -> None:
        self._anchors = anchors
        self._plain = tuple(each for each in anchors if not each.prints)
        self._buckets: dict[int, tuple[_Printed, ...]] = {}
        self._prints: Fingerprints | None = None

    def places(self, text: str, at: int) -> list[int]:
        """Where any of the anchors stands, from `at` on."""
        if len(text) - at < _LONG_TEXT:
            return _places(self._anchors, text, at)
        if self._prints is None:
            self._prints = Fingerprints((bucket, sets) for each in self._anchors for bucket, _, sets in each.prints)
        found = set(_places(self._plain, text, at))
        for place, buckets in self._prints.find(text, max(0, at - _PRINT_REACH)):
            for shift, first, stands in self._buckets.get(buckets) or self._of(buckets):
                where = place + shift
                if where >= at and text[where] == first and stands(text, where):
                    found.add(where)
        return sorted(found)

    def _of(self, buckets: int) -> tuple[_Printed, ...]:
        """The anchors of some buckets."""
        some = {(shift, each): None for each in self._anchors for at, shift, _ in each.prints if buckets >> at & 1}
        self._buckets[buckets] = tuple((shift, each.first, each.compiled().match) for shift, each in some)
        return self._buckets[buckets]


def _places(anchors: tuple[Anchor, ...], text: str, at: int) -> list[int]:
    """Where any of the patterns starts. One literal first character each makes this faster than one big alternation."""
    found = [found.start() for each in anchors if each.first in text for found in each.matches(text, at)]
    found.sort()
    return found


def sift(layer: Layer, text: str) -> str:
    """A whole text through one layer."""
    return StreamEngine(layer).close(text) if text else text
