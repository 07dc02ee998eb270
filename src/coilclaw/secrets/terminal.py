"""Redaction of a terminal's output: words pass at once, and secrets are seen through control sequences.

`RedactingBytes` holds back the word being written, which in a terminal would swallow what is typed. Here the layers
run on the text without its control sequences, and each holds only what may become a secret:

- Registered values: a prefix of one. Sequences are invisible to this layer, cursor movements too.
- Known shapes and contexts: what would be part of a secret if random characters followed. So `sk-` or `password:` pass,
  and what comes after them waits. A cursor movement counts as a line break.

`flush` is for a pause in the output: somebody may be reading. It releases what waits, except for more than three
characters of a registered value. What was released still counts as context: if the rest of a secret follows, the rest
is redacted. Text in control strings (titles, links) is redacted as a whole.

Bulk output takes a shorter way: whole lines in which nothing can be a secret pass as they came (`plain_output`). What
follows the last of them is put off until more comes, or a pause.
"""

import codecs
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from coilclaw.lib.terminal_sequences import Piece, Sequence, Splitter
from coilclaw.secrets.registered import Registered
from coilclaw.secrets.stream_engine import Layer
from coilclaw.secrets.terminal_engines import KEPT, InContext, KnownShapes, KnownValues

if TYPE_CHECKING:
    from coilclaw.secrets.redactor import Redactor

_STILL = re.compile(r"\x1b(?:\[(?:[0-9;:]*[JKNOQRUVWXY[\\\]^_cg-qstv-~]|\?[0-9;]*[@-~])|[()][0AB]|[=>7])")
_MOVES = re.compile(r"\x1b\[[0-9;:]*[A-IZLMP@STabdefu`r]|\x08")
_SIMPLE = re.compile(f"{_STILL.pattern}|{_MOVES.pattern}")
"""Most sequences; others are taken apart one by one."""
_SILENT = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]+")
_CONTROLS = bytes({*range(0x08), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F})
_EIGHT_BIT = re.compile(r"[\x80-\x9f]")
_HEAD = 256
_BULK = 4_096
_SEEN = 1_536
_SLICE = 8_192
"""A long piece that must be taken apart is, but only by such parts."""


class RedactingTerminal:
    """Redacts one terminal's output."""

    def __init__(self, redactor: "Redactor", registered: Registered, shapes: Layer, context: Layer) -> None:
        self._redactor = redactor
        self._splitter = Splitter(self._clean)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._registered = registered
        self._later = ""  # the end of bulk output, not yet looked at
        self.unseen = 0
        """How many bytes at the end of what was last shown passed as bulk: they hold no sequence but colours."""
        self._raw = KnownValues(registered)
        self._engines = (KnownValues(registered), KnownShapes(shapes), InContext(context))

    @property
    def holds(self) -> bool:
        """Whether something waits for what follows, and `flush` may release it."""
        return bool(self._later) or self._raw.holds or any(engine.holds for engine in self._engines)

    @property
    def put_off(self) -> int:
        """How many bytes of what was fed are not looked at yet."""
        return len(self._later.encode("utf-8", "surrogateescape"))

    def feed(self, data: bytes) -> bytes:
        """What may be shown now."""
        text, self._later, self.unseen = self._later + self._decoder.decode(data), "", 0
        if len(text) > 2 * _HEAD and (self._splitter.begun or self.holds):
            # What was begun ends soon, and the rest can pass as a whole.
            end = text.find("\n", 0, _HEAD) + 1 or _HEAD
            return self._fed(text[:end]) + self._all(text[end:])
        return self._all(text)

    def settle(self) -> bytes:
        """Look at what was put off, as if it had come in small pieces."""
        text, self._later = self._later, ""
        return self._looked_at(text) if text else b""

    def _all(self, text: str) -> bytes:
        passed = self._bulk(text)
        if not passed:
            return self._looked_at(text)
        self._later = text[passed:]  # the rest of its last line is probably on its way
        shown = text[:passed].encode("utf-8", "surrogateescape")
        self.unseen = len(shown)
        return shown

    def _bulk(self, text: str) -> int:
        """How much of a long text passes unseen: whole lines in which nothing can be a secret."""
        if len(text) < _BULK or self._splitter.begun or any(each.busy for each in (self._raw, *self._engines)):
            return 0
        end = text.rfind("\n") + 1
        passed = text.rfind("\n", 0, max(0, end - self._registered.reach)) + 1
        start = text.find("\n", max(0, passed - _SEEN), passed) + 1
        seen = _STILL.sub("", text[start:passed])
        if not start or len(seen) < KEPT:
            return 0
        befores = {each.undecided for each in (self._raw, *self._engines)}
        longest = max(befores, key=len)
        if any(not self._registered.plain(each + text[:_BULK]) for each in befores - {longest, ""}):
            return 0
        if not self._registered.plain(longest + text[:end]):
            return 0
        self._raw.skip(text[start:passed])
        for engine in self._engines:
            engine.skip(seen)
        return passed

    def _looked_at(self, text: str) -> bytes:
        if len(text) <= _SLICE:
            return self._fed(text)
        before = self._raw.__dict__.copy()
        raw = self._raw.feed([text])
        if len(raw) == 1 and isinstance(raw[0], str) and self._passes(raw[0]):
            return _joined(raw)
        self._raw.__dict__.update(before)
        return b"".join(map(self._fed, _slices(text)))

    def _fed(self, text: str) -> bytes:
        raw = self._raw.feed([text])
        if len(raw) == 1 and isinstance(raw[0], str) and self._passes(raw[0]):
            return _joined(raw)
        pieces = self._split(raw)
        for engine in self._engines:
            pieces = engine.feed(pieces)
        return _joined(pieces)

    def flush(self) -> bytes:
        """The output pauses: what may be shown although it could still become part of a secret."""
        return self.settle() + self._end(final=False)

    def close(self) -> bytes:
        """The rest. The terminal can be used again afterwards, as after a gap."""
        rest = self.settle() + self._end(final=True)
        self._splitter.close()
        self._decoder.reset()
        return rest

    def _end(self, *, final: bool) -> bytes:
        pieces = self._split(self._raw.end(final=final))
        for engine in self._engines:
            pieces = engine.feed(pieces)
            pieces += engine.end(final=final)
        return _joined(pieces)

    def _passes(self, text: str) -> bool:
        """Whether all of it may be shown as it is: mostly so, and found out without taking it apart."""
        if self._splitter.begun or any(engine.holds for engine in self._engines):
            return False
        lines = joined = _STILL.sub("", text) if "\x1b" in text else text
        if "\x1b" in lines or "\b" in lines:
            # In one pass each: what is left where a sequence was taken out must not look like another one.
            lines, joined = _STILL.sub("", _MOVES.sub("\n", text)), _SIMPLE.sub("", text)
        if "\x1b" in lines or not (lines.isascii() or _EIGHT_BIT.search(lines) is None):
            return False
        plain = lines.encode("ascii", "replace")
        if len(plain.translate(None, _CONTROLS)) < len(plain):
            lines, joined = _SILENT.sub("", lines), _SILENT.sub("", joined)
        before = [engine.__dict__.copy() for engine in self._engines]
        for engine in self._engines:
            view = lines if engine.breaks else joined
            if engine.feed([view] if view else []) != ([view] if view else []):
                for each, state in zip(self._engines, before, strict=True):
                    each.__dict__.update(state)
                return False
        return True

    def _split(self, pieces: list[Piece]) -> list[Piece]:
        """Sequences apart from text, once the bytes as they are hold no registered value: a sequence may end in one."""
        return self._splitter.feed("".join(piece for piece in pieces if isinstance(piece, str)))

    def _clean(self, sequence: Sequence) -> bool:
        """Control strings carry text too: one that holds a secret is dropped."""
        return self._redactor.text(sequence.body) == sequence.body


def _slices(text: str) -> Iterator[str]:
    """A long text in parts, which end with a line where they can."""
    at = 0
    while at < len(text):
        end = text.rfind("\n", at, at + _SLICE) + 1 if at + _SLICE < len(text) else len(text)
        end = end or at + _SLICE
        yield text[at:end]
        at = end


def _joined(pieces: list[Piece]) -> bytes:
    text = "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)
    return text.encode("utf-8", "surrogateescape")
