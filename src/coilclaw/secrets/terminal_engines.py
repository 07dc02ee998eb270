"""The layers at work on one terminal: each holds back only what may become a secret. See `terminal`."""

import re
from collections import deque

from coilclaw.lib.terminal_sequences import Piece, Sequence
from coilclaw.secrets.registered import Registered
from coilclaw.secrets.stream_engine import CAP, LOOKAHEAD, LOOKBACK, RUN_END, Hit, Layer, More, Window

RELEASED = 3
"""Characters of a registered value that a pause may release. Values have at least twice as many."""
_CONTEXT = 256
KEPT = _CONTEXT + LOOKAHEAD
"""What an engine keeps of text that it has passed on."""
_SWALLOW_KEPT = 96
_RANDOM = "7kQ9zX3bW8rT5yN2vM6pL4hD1gF0sJ7cE"
_BODIES = (_RANDOM * 3, "3f9a1c7e5b2d8064" * 5)
"""Does a token come about if this follows?"""
_VALUES = ("", _RANDOM, "7KQ9ZX3B", f'{_RANDOM}"', f"={_RANDOM}@", " correct horse", f"{_RANDOM}</password>")
"""Is it the value of a secret if this follows? In any way that the context asks for."""
_BASIC = re.compile(r"(?i)(basic[ \t]+)[A-Za-z0-9+/_=-]*\Z")
_FIXED = re.compile(r"(?<![A-Za-z0-9])(?:cc_|SK|key-|oy2|LTAI|dapi|[sb]\.|(?:bot)?\d{7,12}:)[A-Za-z0-9_-]{1,64}\Z")
"""Tokens of a fixed length: with random characters behind them they would be too long."""
_OTHER_LINE = re.compile(r"[\r\n](?=[^\r\n]{0,512}?[^A-Za-z0-9+/=:,.\s-])")
"""A line that is not part of a private key: an unfinished key must not hide the rest of the session."""


class TerminalEngine:
    """One layer at work on one terminal: text with the sequences that stand between its characters."""

    breaks = True
    """Whether a cursor movement is a character of the text (a line break)."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._text = ""
        self._sequences: deque[tuple[int, Sequence]] = deque()
        self._waiting = 0  # characters of sequences that wait
        self._fresh: tuple[list[Piece], int] = ([], 0)  # new pieces, and where they begin in the text
        self._shown: int = 0  # everything before was shown; kept only as context
        self._floor: int = 0  # where the last hit ended
        self._from: int = 0  # anchors from here on are not yet decided
        self._until: re.Pattern[str] | None = None

    @property
    def holds(self) -> bool:
        return self._shown < len(self._text) or bool(self._sequences)

    @property
    def busy(self) -> bool:
        """Whether what comes next may not pass unseen, whatever it is."""
        return self.holds or self._until is not None

    @property
    def undecided(self) -> str:
        """The text whose anchors are not yet decided, and what stands before it."""
        return self._text[max(0, self._from - LOOKBACK) :]

    def skip(self, text: str) -> None:
        """Text passed unseen, at least `KEPT` characters that end in a line break: only its end is kept."""
        self._text = text[-KEPT:]
        self._shown, self._from, self._floor = KEPT, KEPT - LOOKAHEAD, 0

    def feed(self, pieces: list[Piece]) -> list[Piece]:
        if not pieces:
            return pieces
        waits, size = self.holds or self._until is not None, len(self._text)
        breaks = self.breaks
        self._text += "".join(
            piece if isinstance(piece, str) else "\n" if breaks and piece.moves else "" for piece in pieces
        )
        self._fresh = (pieces, size)
        if waits:
            self._place()
        shown: list[Piece] = []
        self._advance(shown, final=False)
        if self._waiting > CAP:
            self._force(shown)
        self._cut()
        return shown

    def _place(self) -> None:
        """Note where the new sequences stand. Mostly nobody asks, because everything is shown as it came."""
        pieces, at = self._fresh
        self._fresh = ([], 0)
        for piece in pieces:
            if isinstance(piece, str):
                at += len(piece)
                continue
            self._sequences.append((at, piece))
            self._waiting += len(piece.text)
            at += self.breaks and piece.moves

    def end(self, *, final: bool) -> list[Piece]:
        """A pause or, if `final`, the end."""
        shown: list[Piece] = []
        if final:
            self._advance(shown, final=True)
            self._show(len(self._text), shown)
            self._text, self._shown, self._floor, self._from, self._until = "", 0, 0, 0, None
        elif self.holds:
            self._release(shown)
        return shown

    def _advance(self, shown: list[Piece], *, final: bool) -> None:
        """Decide what can be decided, and show what may be shown."""
        raise NotImplementedError

    def _release(self, shown: list[Piece]) -> None:
        """Show what a pause releases."""
        raise NotImplementedError

    def _force(self, shown: list[Piece]) -> None:
        """Too many sequences wait: go on without what follows."""
        raise NotImplementedError

    def _replace(self, hit: Hit, shown: list[Piece]) -> None:
        """Show the mark instead of the hit; a part that was shown before stays."""
        if hit.end > self._shown:
            self._show(max(hit.start, self._floor), shown)
            shown.append(hit.text)
        self._drop(hit.end, shown)
        self._floor = max(self._floor, hit.end)
        self._until = hit.until

    def _show(self, end: int, shown: list[Piece]) -> None:
        """Show the text up to here, with its sequences."""
        self._pass(end, shown, text=True)

    def _drop(self, end: int, shown: list[Piece]) -> None:
        """Show only the sequences up to here."""
        self._pass(end, shown, text=False)

    def _pass(self, end: int, shown: list[Piece], *, text: bool) -> None:
        last = end >= len(self._text)
        if self._fresh[0]:
            if text and last and self._shown == self._fresh[1]:
                shown.extend(self._fresh[0])
                self._fresh, self._shown = ([], 0), len(self._text)
                return
            self._place()
        at = self._shown
        while self._sequences and (self._sequences[0][0] < end or last):
            place, sequence = self._sequences.popleft()
            self._waiting -= len(sequence.text)
            if text and place > at:
                shown.append(self._text[at:place])
            at = max(at, place + (self.breaks and sequence.moves))
            shown.append(sequence)
        if text and end > at:
            shown.append(self._text[at:end])
        self._shown = max(self._shown, end)

    def _swallow(self, shown: list[Piece], *, final: bool) -> bool:
        """Drop text up to the end that a hit announced; False until it arrives."""
        if self._until is None:
            return True
        at = max(self._shown, self._floor)
        found = self._until.search(self._text, at)
        end = found.end() if found else -1
        if self._until is not RUN_END:
            other = _OTHER_LINE.search(self._text, at, found.start() if found else len(self._text))
            end = other.start() if other else end
        if end < 0:
            size = len(self._text)
            self._drop(size if final else max(self._shown, size - _SWALLOW_KEPT), shown)
            self._floor = self._from = self._shown
            return final
        self._drop(end, shown)
        self._floor = self._from = self._shown
        self._until = None
        return True

    def _cut(self) -> None:
        """Forget what no decision needs any more."""
        cut = min(self._shown, self._from) - _CONTEXT
        if cut > 0:
            self._text = self._text[cut:]
            self._shown -= cut
            self._from -= cut
            self._floor = max(0, self._floor - cut)
            self._sequences = deque((place - cut, sequence) for place, sequence in self._sequences)


class KnownValues(TerminalEngine):
    """Registered values."""

    breaks = False

    @property
    def undecided(self) -> str:
        return self._text[self._from :]

    def skip(self, text: str) -> None:
        super().skip(text)
        self._from = KEPT  # a value that began before has its fixed part in what was scanned

    def __init__(self, layer: Registered) -> None:
        super().__init__(layer)
        self._registered = layer

    def _advance(self, shown: list[Piece], *, final: bool, pause: bool = False) -> None:
        size = len(self._text)
        if not self._registered:
            self._from = size
            self._show(size, shown)
            return
        window = Window(self._text, final=final)
        hold, undecided = size, size
        for at in self._layer.anchors(self._text, max(self._from, self._floor)):
            if at >= hold:
                break
            if at < self._floor:
                continue
            try:
                hit = self._layer.decide(window, at)
            except More:
                undecided = min(undecided, at)
                seen, plain = self._registered.seen(window, at)
                if seen > RELEASED or (plain and not pause):
                    hold = at
                continue
            if hit is not None:
                self._replace(hit, shown)
        self._from = undecided
        self._show(max(hold, self._shown), shown)

    def _release(self, shown: list[Piece]) -> None:
        self._advance(shown, final=False, pause=True)

    def _force(self, shown: list[Piece]) -> None:
        """No program writes so many sequences in the middle of a word: what waits is redacted."""
        self._release(shown)
        if self._sequences:
            shown.append("[redacted:secret]")
            self._drop(len(self._text), shown)
            self._floor = self._from = self._shown


class _Guessed(TerminalEngine):
    """What looks like a secret: known shapes, and values in a context."""

    _held = False

    def _advance(self, shown: list[Piece], *, final: bool) -> None:
        if not self._swallow(shown, final=final):
            return
        size = len(self._text)
        window = Window(self._text, final=final)
        hold = undecided = size
        for at in self._layer.anchors(self._text, max(self._from, self._floor)):
            if at < self._floor:
                continue
            try:
                hit = self._layer.decide(window, at)
            except More:
                if size - at <= CAP:
                    undecided = min(undecided, window.back(self._layer.word, at))
                    hold = self._hold_from(at, undecided)
                    if hold < size:
                        break
                    continue
                hit = self._forced(at)
            if hit is None:
                continue
            self._replace(hit, shown)
            if not self._swallow(shown, final=final):
                return
        self._from = max(self._floor, min(undecided, size - LOOKAHEAD))
        if not final and hold == size:
            hold = self._hold_end()
        self._show(max(hold, self._shown), shown)
        self._held = self._shown < size

    def _hold_from(self, at: int, undecided: int) -> int:
        """What waits because of an undecided anchor."""
        raise NotImplementedError

    def _hold_end(self) -> int:
        """What waits although there is no anchor yet."""
        return len(self._text)

    def _forced(self, at: int) -> Hit | None:
        hit = self._layer.decide(Window(self._text, final=True), at)
        if hit is not None and hit.until is None and hit.end >= len(self._text):
            return hit._replace(until=RUN_END)
        return hit

    def _release(self, shown: list[Piece]) -> None:
        """Decide as if the text ended here. What is a secret already goes on until its end."""
        if self._until is None:
            for at in self._layer.anchors(self._text, max(self._from, self._floor)):
                hit = self._forced(at) if at >= self._floor else None
                if hit is None or hit.end <= self._shown:
                    continue
                self._replace(hit, shown)
                if not self._swallow(shown, final=False):
                    break
            else:
                self._show(len(self._text), shown)
                self._held = False
                return
        while self._sequences:
            _, sequence = self._sequences.popleft()
            self._waiting -= len(sequence.text)
            shown.append(sequence)

    def _force(self, shown: list[Piece]) -> None:
        self._release(shown)


class KnownShapes(_Guessed):
    """Known shapes: the head of a token passes, its body waits."""

    def _hold_from(self, at: int, undecided: int) -> int:
        return undecided

    def _hold_end(self) -> int:
        """An anchor shows only after some characters of a body."""
        size = len(self._text)
        if not size or self._text[-1] not in self._layer.word:
            return size
        start = max(self._floor, size - LOOKAHEAD)
        fixed = _FIXED.search(self._text, start)
        hold = fixed.start() if fixed else size
        cut = max(0, start - LOOKBACK)
        for filler in _BODIES:
            window = Window(self._text[cut:] + filler, final=True)
            for at in self._layer.anchors(window.text, start - cut):
                hit = self._layer.decide(window, at) if at < size - cut else None
                if hit is not None and hit.end > size - cut:
                    hold = min(hold, hit.start + cut)
        return hold


class InContext(_Guessed):
    """Values whose context says what they are: the name passes, the value waits."""

    def _hold_from(self, at: int, undecided: int) -> int:
        size = len(self._text)
        cut = max(0, at - _CONTEXT)
        for filler in _VALUES:
            hit = self._layer.decide(Window(self._text[cut:] + filler, final=True), at - cut)
            if hit is not None:
                return min(size, hit.start + cut)
        basic = _BASIC.search(self._text, at)
        if basic:
            return basic.end(1)
        return self._shown if self._held else size  # what waits goes on waiting until it is decided
