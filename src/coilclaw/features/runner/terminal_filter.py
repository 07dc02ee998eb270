"""What of a session's output may reach the owner's own terminal: an allowlist of control sequences.

Text, colours, cursor, erasing, scrolling, the alternate screen, mouse and paste modes pass: what vim, less, top and
tmux draw with. Everything else is dropped, known or not: the clipboard (OSC 52), titles, links (their text stays),
window operations, printing, images, and every query, because its answer would be typed into the session or into the
owner's shell. State is bounded, and what passes is well-formed whatever came in.
"""

import codecs
import re

from coilclaw.lib.terminal_sequences import Sequence, Splitter

_NUMBERS = re.compile(r"[0-9]{0,4}(?:[;:][0-9]{0,4}){0,31}")
_CONTROLS = frozenset("\a\b\t\n\v\f\r\x0e\x0f")
_ESCAPES = frozenset(("7", "8", "D", "E", "M", "=", ">", *(f"{side}{set_}" for side in "()*+" for set_ in "0AB")))
_PLAIN = frozenset("ABCDEFGHIJKLMPSTXZ@abdefmrsu`")
"""Finals of CSI with numbers only. Tab stops (`g`, and ESC H) would stay changed: no other screen brings them back."""
_ANSI_MODES = frozenset({4})  # insert
MODES = frozenset(
    {
        1,  # cursor keys
        5,  # reverse video
        6,  # origin
        7,  # wrap
        12,  # blinking cursor
        25,  # cursor
        45,  # wrap back
        66,  # keypad
        1000, 1002, 1003, 1005, 1006, 1015,  # mouse
        1004,  # focus
        47, 1047, 1048, 1049,  # alternate screen
        2004,  # bracketed paste
        2026,  # synchronised drawing
    }
)  # fmt: skip
_SOFT_RESET = "\x1b[!p\x1b[m\x1b[H\x1b[2J"
_INVALID = re.compile("[\ud800-\udfff]")


class TerminalFilter:
    """Filters one session's output for the owner's terminal."""

    def __init__(self) -> None:
        self._splitter = Splitter()  # keeps no control strings
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, data: bytes) -> bytes:
        """What may be written to the terminal."""
        pieces = self._splitter.feed(self._decoder.decode(data))
        return "".join(
            _INVALID.sub("\ufffd", piece) if isinstance(piece, str) else self._passed(piece) for piece in pieces
        ).encode()

    def _passed(self, sequence: Sequence) -> str:
        if sequence.kind == "control":
            return sequence.text if sequence.text in _CONTROLS else ""
        if sequence.kind == "escape":
            if sequence.body == "c":  # a full reset would clear what was on the screen before, too
                return _SOFT_RESET
            return sequence.text if sequence.body in _ESCAPES else ""
        return self._csi(sequence) if sequence.kind == "csi" else ""

    def _csi(self, sequence: Sequence) -> str:
        body, final = sequence.body, sequence.text[-1]
        if body.startswith("?"):
            return self._private(body[1:], final)
        if (body, final) == ("!", "p"):
            return sequence.text
        if final == "q" and body.endswith(" ") and _NUMBERS.fullmatch(body[:-1]):  # the cursor's shape
            return sequence.text
        if not _NUMBERS.fullmatch(body):
            return ""
        if final in "hl":
            return _kept(body, _ANSI_MODES, "", final)
        if final == "T" and ";" in body:  # tracks the mouse, and waits for an answer
            return ""
        return sequence.text if final in _PLAIN else ""

    def _private(self, body: str, final: str) -> str:
        if not _NUMBERS.fullmatch(body):
            return ""
        if final in "JK":
            return f"\x1b[?{body}{final}"
        if final not in "hl":
            return ""
        return _kept(body, MODES, "?", final)


def _kept(body: str, allowed: frozenset[int], prefix: str, final: str) -> str:
    """The modes of a sequence that are allowed, one by one: others look for single ones."""
    numbers = [int(number) for number in body.split(";") if number.isdecimal()]
    return "".join(f"\x1b[{prefix}{number}{final}" for number in numbers if number in allowed)
