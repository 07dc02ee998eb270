"""How one character may be spelled in text: plain, percent-encoded, escaped at any depth, or as an HTML entity."""

import re
from functools import cache

from coilclaw.secrets.stream_engine import More, Window

NEVER = -1
UNFINISHED = -2
_MAX_SLASHES = 16
BREAKS = "\r\n\x0b\x0c\x85\u2028\u2029"
_ENTITY_LONGEST = 10
_CONTROL = {"\n": "n", "\r": "r", "\t": "t"}
_SELF_ESCAPED = {"%": "%25", "&": "&amp;"}


@cache
def _slashes() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Backslashes in whatever way they are written, and their beginning at the end of a text."""
    begun = r"(?:\\(?:u0{0,2}|u005|x5?)|.?%(?:25)*[25]?|.?&(?:#|#9|#92|#x|#x5|#x5c)?)\Z"
    whole = r"(?:\\(?:u005c|x5c)?|%(?:25)*5c|&#(?:92|x5c);){1,64}"
    return re.compile(whole, re.IGNORECASE), re.compile(begun, re.IGNORECASE)


@cache
def _line_breaks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A line break with the margin of the next line, and its beginning at the end of a text."""
    broken = rf"(?:[=\\]?(?:\r\n|[{BREAKS}])|(?:\\{{1,8}}r)?\\{{1,8}}n)[ \t>|\u2502]{{0,16}}"
    return re.compile(broken), re.compile(rf"(?:[=\\]?\r?|\\{{1,8}}(?:r\\{{0,8}})?|{broken})\Z")


def spelled(text: str, at: int, wanted: str) -> int:
    """The end of a spelling of `wanted` that starts here, or NEVER, or UNFINISHED if the text ends too early."""
    if wanted[0] == "\\":
        return _backslashes(text, at)
    if text.startswith(wanted, at):
        return _self_escaped(text, at, _SELF_ESCAPED[wanted]) if wanted in _SELF_ESCAPED else at + len(wanted)
    if at >= len(text):
        return UNFINISHED
    escape = _ESCAPES.get(text[at])
    if escape:
        return escape(text, at, wanted)
    if text[at] == "+" and wanted == " ":
        return at + 1
    if text[at] == "\r" and wanted == "\n":
        return spelled(text, at + 1, wanted)
    if text[at - 1 : at] == "\\":  # part of the backslashes before it
        return _escaped(text, at - 1, wanted)
    return NEVER


def _self_escaped(text: str, at: int, escape: str) -> int:
    """`%` and `&` start their own escapes: the longer spelling wins; the caller tries the plain one first."""
    if text.startswith(escape, at):
        at += len(escape)
        while escape == "%25" and text.startswith("25", at):
            at += 2
        return UNFINISHED if escape == "%25" and text[at:] == "2" else at
    return UNFINISHED if escape.startswith(text[at:]) else at + 1


def line_break(text: str, at: int) -> int:
    """The end of a line break that may fall inside a value, or NEVER, or UNFINISHED."""
    if at >= len(text) or text[at] not in f"=\\{BREAKS}":
        return NEVER
    whole, begun = _line_breaks()
    if begun.match(text, at):
        return UNFINISHED
    found = whole.match(text, at)
    return found.end() if found else NEVER


def next_line(window: Window, at: int) -> int:
    """The start of the next line if the line ends here, however it is broken; otherwise the same position."""
    window.char(at)  # waits for it
    after = line_break(window.text, at)
    if after == UNFINISHED and not window.final:
        raise More
    return max(after, at)


def _backslashes(text: str, at: int) -> int:
    """Any number of backslashes stands for any other: each depth of escaping doubles them."""
    whole, begun = _slashes()
    found = whole.match(text, at)
    end = found.end() if found else at
    if end >= len(text) or begun.match(text, end - 1 if found else at):
        return UNFINISHED
    return end if found else NEVER


def _percent(text: str, at: int, wanted: str) -> int:
    for byte in wanted.encode("utf-8", "surrogatepass"):
        if at >= len(text):
            return UNFINISHED
        if text[at] != "%":
            return NEVER
        at += 1
        while byte != 0x25 and text.startswith("25", at):
            at += 2
        digits = text[at : at + 2]
        if not f"{byte:02x}".startswith(digits.lower()) and not (byte != 0x25 and digits == "2"):
            return NEVER
        if len(digits) < 2:
            return UNFINISHED
        if digits.lower() != f"{byte:02x}":
            return NEVER
        at += 2
    return at


def _escaped(text: str, at: int, wanted: str) -> int:
    end = at
    while end < len(text) and text[end] == "\\" and end - at < _MAX_SLASHES:
        end += 1
    if end >= len(text):
        return UNFINISHED
    letter = text[end]
    if letter == _CONTROL.get(wanted) or (letter == wanted and not wanted.isalnum()):
        return end + 1
    if letter == "r" and wanted == "\n":
        return spelled(text, end + 1, wanted)
    width = {"u": 4, "x": 2}.get(letter, 0)
    if not width or ord(wanted) >= 16**width:
        return NEVER
    digits, code = text[end + 1 : end + 1 + width].lower(), f"{ord(wanted):0{width}x}"
    if not code.startswith(digits):
        return NEVER
    return UNFINISHED if len(digits) < width else end + 1 + width


def _entity(text: str, at: int, wanted: str) -> int:
    end = text.find(";", at, at + _ENTITY_LONGEST)
    if end < 0:
        return UNFINISHED if len(text) - at < _ENTITY_LONGEST else NEVER
    import html

    return end + 1 if html.unescape(text[at : end + 1]) == wanted else NEVER


_ESCAPES = {"%": _percent, "\\": _escaped, "&": _entity}
