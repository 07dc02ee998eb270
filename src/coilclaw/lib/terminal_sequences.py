"""Splits terminal output into text and control sequences, however it was cut into pieces.

It follows what terminals do (ECMA-48 and xterm's parser): control characters inside a sequence act before it, CAN and
SUB abort one, a new ESC ends the string before it. Sequences come out in one spelling, 7-bit and well-formed, so a
reader need not know the others. Memory is bounded: a control string longer than `LONGEST_STRING` is dropped whole, and
a CSI longer than `LONGEST_CSI` loses its introducer.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

LONGEST_CSI = 256
LONGEST_STRING = 4096

Kind: TypeAlias = Literal["control", "escape", "csi", "osc", "dcs", "sos", "pm", "apc"]


class Sequence(NamedTuple):
    """One control character or sequence."""

    kind: Kind
    body: str
    """What stands between its introducer and its end; of a CSI, the parameters."""
    text: str
    """All of it, as it is sent on."""
    moves: bool = False
    """Whether the text after it stands elsewhere on the screen."""


Piece: TypeAlias = str | Sequence

_MOVING = frozenset("ABCDEFGHIZLMP@STabdefu`r")
_PRIVATE = frozenset("<=>?")
_MOVING_ESCAPES = frozenset(("D", "E", "M", "8", "c", "#8"))
SPECIAL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
"""Where a control character or sequence begins."""
_CONTROL = r"\x00-\x17\x19\x1c-\x1f\x7f"
_CSI = rf"(?:\x1b[{_CONTROL}]{{0,16}}\[|\x9b)[^@-~\x18\x1a\x1b\x80-\U0010ffff]{{0,{LONGEST_CSI}}}+"
_TOKEN = re.compile(
    rf"(?P<csi>{_CSI}[@-~])"
    rf"|(?P<string>\x1b[{_CONTROL}]{{0,16}}[\]PX^_]|[\x9d\x90\x98\x9e\x9f])"
    rf"|(?P<escape>\x1b[{_CONTROL}]{{0,16}}[ -/]{{0,8}}[0-OQ-WYZ\\`-~])"
    rf"|(?P<begun>(?:{_CSI}|\x1b[{_CONTROL}]{{0,16}}[ -/]{{0,8}})\Z)"
    rf"|(?P<broken>{_CSI})"  # aborted, or too long: without its introducer, what follows is only text
    r"|(?P<control>[\x00-\x08\x0e-\x1f\x7f-\x9f])"
)
_STRINGS: dict[str, Kind] = {
    "]": "osc", "P": "dcs", "X": "sos", "^": "pm", "_": "apc",
    "\x9d": "osc", "\x90": "dcs", "\x98": "sos", "\x9e": "pm", "\x9f": "apc",
}  # fmt: skip
_INTRODUCERS = {"osc": "\x1b]", "dcs": "\x1bP", "sos": "\x1bX", "pm": "\x1b^", "apc": "\x1b_"}
_STRING_END = re.compile(r"[\x18\x1a\x1b\x9c]")
_OSC_END = re.compile(r"[\x07\x18\x1a\x1b\x9c]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_SINGLE = {"\x84": "D", "\x85": "E", "\x88": "H", "\x8d": "M", "\x8e": "N", "\x8f": "O"}
"""8-bit control characters that stand for an ESC and a letter."""


class Splitter:
    """Splits one stream. Control strings (OSC, DCS …) come out only if `keep` says so."""

    def __init__(self, keep: Callable[[Sequence], bool] | None = None) -> None:
        self._keep = keep
        self._held = ""  # the beginning of a sequence
        self._string: Kind | None = None  # inside a control string
        self._body: list[str] = []
        self._size = 0

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are complete."""
        if self._held:
            text, self._held = self._held + text, ""
        if self._string is None and SPECIAL.search(text) is None:
            return [text] if text else []
        out: list[Piece] = []
        at = 0
        while at < len(text):
            at = self._in_text(text, at, out) if self._string is None else self._in_string(text, at, out)
        return out

    @property
    def begun(self) -> bool:
        """Whether a sequence has begun and not ended."""
        return bool(self._held) or self._string is not None

    def close(self) -> None:
        """Forget what has begun: nothing more will come, or something is missing."""
        self._held, self._string, self._body, self._size = "", None, [], 0

    def _in_text(self, text: str, at: int, out: list[Piece]) -> int:
        """Take everything up to the beginning of a control string."""
        while special := SPECIAL.search(text, at):
            start = special.start()
            if start > at:
                out.append(text[at:start])
            found = _TOKEN.match(text, start)
            assert found is not None  # noqa: S101 - each special character is a token
            at, whole, kind = found.end(), found[0], found.lastgroup
            if kind == "csi":
                out.extend(_csi(whole))
            elif kind == "string":
                _controls(whole[1:], out)
                self._string = _STRINGS[whole[-1]]
                return at
            elif kind == "begun" and len(whole) <= LONGEST_CSI:
                self._held = whole
            elif kind == "control":
                _one_control(whole, out)
            else:
                _controls(whole[1:], out)
                if kind == "escape":
                    body = _CONTROLS.sub("", whole[1:])
                    out.append(Sequence("escape", body, "\x1b" + body, body in _MOVING_ESCAPES))
        if at < len(text):
            out.append(text[at:])
        return len(text)

    def _in_string(self, text: str, at: int, out: list[Piece]) -> int:
        kind = self._string
        assert kind is not None  # noqa: S101
        found = (_OSC_END if kind == "osc" else _STRING_END).search(text, at)
        stop = found.start() if found else len(text)
        self._size += stop - at
        if self._size <= LONGEST_STRING:
            self._body.append(text[at:stop])
        else:
            self._body.clear()
        if found is None:
            return stop
        if found[0] == "\x1b" and stop + 1 == len(text):
            self._held = "\x1b"  # its second half decides
            return len(text)
        if found[0] not in "\x18\x1a" and self._size <= LONGEST_STRING:
            body = _CONTROLS.sub("", "".join(self._body))
            sequence = Sequence(kind, body, f"{_INTRODUCERS[kind]}{body}\x1b\\")
            if self._keep is not None and self._keep(sequence):
                out.append(sequence)
        self._string, self._body, self._size = None, [], 0
        if found[0] != "\x1b":
            return stop + 1
        return stop + 2 if text[stop + 1] == "\\" else stop


@lru_cache(maxsize=1024)
def _csi(whole: str) -> tuple[Piece, ...]:
    """A CSI in our spelling; the same few recur all the time."""
    before: list[Piece] = []
    _controls(whole[1:], before)
    body = _CONTROLS.sub("", whole).removeprefix("\x9b").removeprefix("[")[:-1]
    moves = whole[-1] in _MOVING and body[:1] not in _PRIVATE
    return (*before, Sequence("csi", body, f"\x1b[{body}{whole[-1]}", moves))


def _one_control(char: str, out: list[Piece]) -> None:
    if char in _SINGLE:
        out.append(Sequence("escape", _SINGLE[char], "\x1b" + _SINGLE[char], _SINGLE[char] in _MOVING_ESCAPES))
    elif char != "\x1b" and char < "\x80":
        out.append(Sequence("control", char, char, char == "\b"))


def _controls(text: str, out: list[Piece]) -> None:
    """Control characters inside a sequence act before it."""
    found = _CONTROLS.findall(text)
    out.extend(char if char in "\t\n\v\f\r" else Sequence("control", char, char) for char in found)
