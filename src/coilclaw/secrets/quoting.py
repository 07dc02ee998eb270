"""Where a value is: after which operator, in which quotes, and where it ends."""

import re
from typing import NamedTuple

from coilclaw.secrets.stream_engine import RUN_END, More, Window

NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
NAME_RUN = re.compile(r"[A-Za-z0-9_.-]{0,96}")
BLANKS = re.compile(r"[ \t]*")
SOLID = re.compile(r"\S{0,4096}")
TO_LINE_END = re.compile(r"[^\r\n]{0,4096}")
QUOTES = frozenset("\"'`")
LONGEST = 1_024
"""Maximum length of an unquoted value that is examined; the rest of its character run is swallowed."""
_SLASHES = re.compile(r"\\*")
_LETTERS = re.compile(r"[A-Za-z]*")
_SPACE = re.compile(r"\s{0,256}")
_AFTER_OPERATOR = re.compile(r"[*_]*[ \t]*")
_OPERATOR_RUN = re.compile(r"[*_ \t]*")
GAP = re.compile(r"[\\\"'`\])*\t ]*")
_COLOUR = re.compile(r"[0-9;]{0,24}")
_GAP_PARTS = re.compile(r"(?P<close>(?:\\*[\"'`]|\*{1,2})?[\])]?)(?P<blank>[ \t]*)(?P<open>\\*[\"'`])?")
_NAMES_IT = re.compile(r"(?:name|key|header)\\*[\"']?\s*[:=]\s*\\*[\"']?$", re.IGNORECASE)
_LINE_START = re.compile(r"(?:^|[\r\n])[ \t>#*-]{0,12}$")
_NETRC = re.compile(r"login\s+\S+\s+$|(?:^|\n)\s*ENV\s+$")
_ENDS = {quote: re.compile(rf"(?<!\\)\\*+{quote}|[\r\n]") for quote in QUOTES}
_INSIDE = {quote: re.compile(rf"[^{quote}\r\n]*") for quote in QUOTES}
_BLOCK_SIGNS = re.compile(r"[|>+0-9 \t-]{1,8}")
_MARKUP_END = re.compile(r"[^<]{0,4096}")
_MARK_OPEN = "[redacted:"
_MARK_RUN = re.compile(r"[A-Za-z0-9_.-]{0,64}")
# What ends an unquoted value. A run of backslashes is matched whole, so a long one costs no more than its length.
_BARE_ENDS = {
    "env": re.compile(r"[\s\x1b]"),
    "query": re.compile(r"[\s\x1b&#;\"'`<>)\]}\\]"),
    "": re.compile(
        r"[\s\x1b\"'`<\\,;&|](?:(?<=[\s\x1b\"'`])|(?<=<)/"
        r"|(?<=\\)(?<!\\\\)\\*+(?:[\"'`]|[nrt](?=[A-Za-z_.-]{1,40}[=:]|\\|\Z|[A-Z<{\[(-]))"
        r"|(?<=[,;&|])(?=\s|\Z|[\w.-]{1,40}[=:]|[\"'{\[(\\]))"
    ),
}


class Operator(NamedTuple):
    """What joins a name to its value, and where the value starts."""

    style: str
    """`tight` and `spaced` for =, `colon`, `flag`, `element` for markup, `pair`, `said`, `quoted` for a quote alone."""
    start: int


class Value(NamedTuple):
    """The position of a value, without its quotes."""

    start: int
    end: int
    quoted: bool
    rest: re.Pattern[str] | None = None
    """Its actual end, if it is longer than the examined part."""


def outer_quote(text: str, start: int) -> str:
    """The quote, with its backslashes, right before a name."""
    end = start
    if end and text[end - 1] in QUOTES:
        before = text[max(0, end - 17) : end - 1]
        return "\\" * (len(before) - len(before.rstrip("\\"))) + text[end - 1]
    return ""


def operator(window: Window, start: int, end: int) -> Operator | None:
    """The operator after the name at this position."""
    text = window.text
    after = window.run(GAP, end)
    gap = _GAP_PARTS.fullmatch(text, end, after)
    if gap is None:
        return None
    flag = text[start] == "-"
    if gap["open"]:
        if gap["close"] or not gap["blank"]:
            return None
        return Operator("flag" if flag else "quoted", gap.start("open"))
    sign = window.char(after)
    if sign == ":":
        return _colon(window, after, quoted=gap["close"][-1:] in QUOTES)
    if sign == "=":
        return _equals(window, after, blank=bool(gap["blank"]))
    if sign == ">" and after == end and start and text[start - 1] == "<":
        return Operator("element", after + 1)
    quoted = gap["close"][-1:] in QUOTES
    if sign == "," and quoted:
        return _pair(window, start, after + 1)
    if sign in ("\r", "\n") and _names_it(text, start):
        return _named(window, after)
    if gap["blank"] and sign:
        return _apart(window, start, after, flag=flag, quoted=quoted)
    return None


def _colon(window: Window, at: int, *, quoted: bool) -> Operator | None:
    follows = window.char(at + 1)
    if follows == ":" or (follows == "/" and window.char(at + 2) == "/"):
        return None
    if follows == "=":
        return Operator("spaced", window.run(BLANKS, at + 2))
    start = _value_start(window, at + 1)
    if window.char(start) in ("\r", "\n") and quoted:
        next_line = window.run(_SPACE, start)  # JSON may continue on the next line
        start = next_line if window.char(next_line) in ('"', "\\") else start
    elif window.char(start) in ("|", ">"):
        start = _block(window, start)
    return Operator("colon", start)


def _block(window: Window, at: int) -> int:
    """The first line of a YAML block, where one starts here."""
    end = window.run(_BLOCK_SIGNS, at)
    return window.run(_SPACE, end) if window.char(end) in ("\r", "\n") else at


def _equals(window: Window, at: int, *, blank: bool) -> Operator | None:
    follows = window.char(at + 1)
    if follows in ("=", "~"):
        return None
    if follows == ">":
        return Operator("colon", window.run(BLANKS, at + 2))
    start = _value_start(window, at + 1) if window.char(at + 1) in (" ", "\t", "\x1b") else at + 1
    return Operator("spaced" if blank or start > at + 1 else "tight", start)


def _value_start(window: Window, at: int) -> int:
    """Skip emphasis, blanks and terminal colours."""
    window.run(_OPERATOR_RUN, at)  # the end must be in sight
    found = _AFTER_OPERATOR.match(window.text, at)
    at = found.end() if found else at
    while window.char(at) == "\x1b" and window.char(at + 1) == "[":
        end = window.run(_COLOUR, at + 2)
        if window.char(end) != "m":
            break
        at = window.run(BLANKS, end + 1)
    return at


def _names_it(text: str, start: int) -> bool:
    return bool(_NAMES_IT.search(text, max(0, start - 24), start))


def _pair(window: Window, start: int, at: int) -> Operator | None:
    """("name", "value"), or {"name": "NAME", "value": "…"}."""
    if _names_it(window.text, start):
        return _named(window, at)
    return Operator("pair", window.run(_SPACE, at))


def _named(window: Window, at: int) -> Operator | None:
    """The `value` entry after an entry with the name."""
    at = window.run(_SPACE, at)
    opened = window.run(GAP, at)
    end = window.run(_LETTERS, opened)
    if window.text[opened:end].lower() != "value":
        return None
    after = window.run(GAP, end)
    if window.char(after) not in (":", "="):
        return None
    return Operator("flag", window.run(BLANKS, after + 1))


def _apart(window: Window, start: int, at: int, *, flag: bool, quoted: bool) -> Operator | None:
    """Only blanks between: a flag's value, an attribute pair, a netrc line, or `is`."""
    if flag and not quoted:
        return Operator("flag", at) if window.char(at) != "-" else None
    if not quoted and _NETRC.search(window.text, max(0, start - 64), start):
        return Operator("flag", at)
    end = window.run(_LETTERS, at)
    word = window.text[at:end].lower()
    if word == "value" and quoted and window.char(end) == "=":
        return Operator("flag", end + 1)
    if word in ("is", "was") and not quoted:
        return Operator("said", _value_start(window, end + (window.char(end) == ":")))
    if not quoted and _LINE_START.search(window.text, max(0, start - 16), start):
        ends = window.run(BLANKS, window.run(SOLID, at))
        return Operator("said", at) if window.char(ends) in ("", "\r", "\n") else None
    return None


def alone(text: str, start: int) -> bool:
    """Whether blanks may join a name here to a value: in a netrc or Dockerfile line, or first in a line."""
    return bool(_NETRC.search(text, max(0, start - 64), start) or _LINE_START.search(text, max(0, start - 16), start))


def value_at(window: Window, found: Operator, outer: str, place: str = "") -> Value | None:
    """The value that starts there, or None. `place` determines what may end it."""
    start, text = found.start, window.text
    if found.style == "element":
        end = window.run(_MARKUP_END, start)
        closes = window.char(end) == "<" and window.char(end + 1) == "/"
        return Value(start, end, quoted=True) if closes else None
    if window.char(start) in tuple("bBrRuUfF") and window.char(start + 1) in QUOTES:
        start += 1
    quote = window.run(_SLASHES, start)
    if window.char(quote) in QUOTES:
        if text[start : quote + 1] == outer:
            return None
        return Value(quote + 1, closing(window, quote + 1, text[quote], quote - start), quoted=True)
    value = _bare(window, start, place)
    return value if value.end > start else None


def _bare(window: Window, start: int, place: str) -> Value:
    text, after = window.text, past_mark(window, start)
    end_of = _BARE_ENDS.get(place) or _BARE_ENDS[""]
    found = end_of.search(text, after, start + LONGEST)
    if found and (window.final or found.end() < len(text) or found[0].isspace()):
        return Value(start, found.start(), quoted=False)
    if not window.final and len(text) < start + LONGEST:
        raise More
    if len(text) > start + LONGEST:
        return Value(start, start + LONGEST, quoted=False, rest=RUN_END)
    return Value(start, found.start() if found else len(text), quoted=False)


def past_mark(window: Window, at: int) -> int:
    """The end of a mark at this position; `at` itself if there is none."""
    if not window.text.startswith(_MARK_OPEN, at):
        if not window.final and _MARK_OPEN.startswith(window.text[at : at + len(_MARK_OPEN)]):
            raise More
        return at
    end = window.run(_MARK_RUN, at + len(_MARK_OPEN))
    return end + 1 if window.char(end) == "]" else at


def closing(window: Window, start: int, quote: str, depth: int) -> int:
    """The end of a string whose quotes have `depth` backslashes each; the line's end if it is not closed."""
    at = start
    while found := _ENDS[quote].search(window.text, at):
        slashes = found.end() - found.start() - 1
        if found[0] in "\r\n" or slashes < depth:
            return found.start()
        if (slashes - depth) % (2 * (depth + 1)) == 0:
            return found.end() - 1 - depth
        at = found.end()
    if not window.final:
        raise More(_INSIDE[quote], at)
    return len(window.text)
