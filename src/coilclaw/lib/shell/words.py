"""Words of a command after quotes, escapes and braces; parts known only at run time are marked."""

import re
from collections.abc import Iterable

import msgspec

UNKNOWN = "\0"
"""Placeholder for a piece that could become anything."""
TAME = "\1"
"""Placeholder for an unknown but plain piece: digits, a hash, a date; no blank, no slash, no leading dash."""
BREAK = "\2"
"""Placeholder for a field separator from an expansion."""

MOST_WORDS = 64
LONGEST_WORD = 1 << 17
"""Longer words only result from repeatedly doubled variables."""
_PROTECT = str.maketrans("{},", "\ue010\ue011\ue012")
_RESTORE = str.maketrans("\ue010\ue011\ue012", "{},")
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([$`\"\\\n])")
_ESCAPED_IN_BODY = re.compile(r"\\([$`\\\n])")
_GLOB = re.compile(r"[*?\[]")
_UNESCAPED_GLOB = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")
_SEQUENCE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?")
_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ANSI_LETTERS = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))


class Word(msgspec.Struct, frozen=True, gc=False):
    """One word: its text, and how certain it is."""

    text: str
    glob: bool = False
    """It contains an unquoted pattern character."""
    loose: bool = False
    """An unquoted unknown piece: it may become any number of words."""
    computed: bool = False
    """It came from an expansion, even if the value is known."""
    fetched: bool = False
    """A piece of it is a downloader's output."""

    @property
    def sure(self) -> bool:
        """True if the text is what the program will get, up to tame pieces."""
        return not self.loose and UNKNOWN not in self.text

    @property
    def literal(self) -> bool:
        """True if the text is exactly what the program will get."""
        return self.sure and not self.glob and TAME not in self.text

    @property
    def optional(self) -> bool:
        """True if it could be an option."""
        return self.loose or self.text.startswith(UNKNOWN)

    @property
    def path(self) -> str:
        """As a path pattern: tame pieces become `*`."""
        return self.text.replace(TAME, "*") if TAME in self.text else self.text

    @property
    def stem(self) -> "Word":
        """Its leading directory, if only the rest is unknown; otherwise empty."""
        return Word(self.text.partition(UNKNOWN)[0].rpartition("/")[0])

    def part(self, text: str) -> "Word":
        """A piece of this word, as certain as the whole."""
        return Word(text, self.glob, self.loose, self.computed, self.fetched)

    @property
    def shown(self) -> str:
        """For people."""
        return self.text.replace(UNKNOWN, "$…").replace(TAME, "…")


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A part of a word before the parts are joined."""

    text: str
    quoted: bool = False
    loose: bool = False
    computed: bool = False
    fetched: bool = False
    glob: bool = False


def plain_piece(raw: str) -> Piece:
    """Unquoted text: escapes are removed, and an escaped character counts as quoted."""
    if "\\" not in raw:
        return Piece(raw, glob=_GLOB.search(raw) is not None)
    glob = _UNESCAPED_GLOB.search(raw) is not None
    text = _ESCAPED.sub(lambda m: "" if m[1] == "\n" else m[1].translate(_PROTECT), raw)
    return Piece(text, glob=glob)


def quoted_piece(text: str) -> Piece:
    """Text from inside quotes: no pattern, no brace, no splitting."""
    return Piece(text.translate(_PROTECT), quoted=True)


def inside_double_quotes(raw: str) -> str:
    """Remove the escapes of double quotes."""
    return _ESCAPED_IN_QUOTES.sub(lambda m: "" if m[1] == "\n" else m[1], raw) if "\\" in raw else raw


def inside_here_document(raw: str) -> str:
    """Remove the escapes of an expanding here-document, where quotes are ordinary."""
    return _ESCAPED_IN_BODY.sub(lambda m: "" if m[1] == "\n" else m[1], raw) if "\\" in raw else raw


def ansi_c(raw: str) -> str:
    """The text of $'…' without its quotes; a NUL ends it, as in the shell."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU":
            value = int(code[1:], 16) if len(code) > 1 else 0
            return chr(value) if value < 0x110000 and not 0xD800 <= value < 0xE000 else UNKNOWN
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        if code[0] == "c" and len(code) > 1:
            return chr(ord(code[1].upper()) & 0x1F)
        return _ANSI_LETTERS.get(code, code if code in "\\'\"?" else "\\" + code)

    return _ANSI.sub(one, raw).split("\0", 1)[0]


def compose(pieces: Iterable[Piece]) -> list[Word]:
    """Join pieces into words: braces expanded, fields split, patterns recorded."""
    parts = list(pieces)
    text = "".join(part.text for part in parts)
    if len(text) > LONGEST_WORD:
        text = UNKNOWN
    glob = any(part.glob for part in parts)
    loose = any(part.loose for part in parts)
    computed = any(part.computed for part in parts)
    fetched = any(part.fetched for part in parts)
    texts = braces(text) if "{" in text else [text]
    if texts is None:
        return [Word(UNKNOWN, glob=glob, loose=True, computed=computed, fetched=fetched)]
    if BREAK in text:
        texts = [field for each in texts for field in each.split(BREAK) if field]
    return [Word(each.translate(_RESTORE), glob, loose, computed, fetched) for each in texts]


def braces(text: str) -> list[str] | None:
    """Expand unquoted braces; None if there are too many words to follow."""
    if "," not in text and ".." not in text:
        return [text]
    if text.count("{") > MOST_WORDS or len(text) > LONGEST_WORD >> 4:
        return None
    done: list[str] = []
    todo = [text]
    while todo:
        current = todo.pop()
        found = _first_brace(current)
        if found is None:
            done.append(current)
        else:
            before, choices, after = found
            todo.extend(before + choice + after for choice in reversed(choices))
        if len(done) + len(todo) > MOST_WORDS:
            return None
    return done


def _first_brace(text: str) -> tuple[str, list[str], str] | None:
    start = text.find("{")
    while start >= 0:
        choices, end = _choices(text, start)
        if choices:
            return text[:start], choices, text[end:]
        start = text.find("{", start + 1)
    return None


def _choices(text: str, start: int) -> tuple[list[str], int]:
    """The alternatives of the brace that opens at `start` and where it ends, or none."""
    depth, cut, choices = 0, start + 1, list[str]()
    for index in range(start, len(text)):
        char = text[index]
        if char == "{":
            depth += 1
        elif char == "," and depth == 1:
            choices.append(text[cut:index])
            cut = index + 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                if choices:
                    return [*choices, text[cut:index]], index + 1
                return _sequence(text[cut:index]), index + 1
    return [], start


def _sequence(inside: str) -> list[str]:
    match = _SEQUENCE.fullmatch(inside)
    if match is None:
        return []
    first, last = match[1], match[2]
    if first.lstrip("-").isdigit() != last.lstrip("-").isdigit():
        return []
    if first.lstrip("-").isdigit():
        return [TAME] if max(len(first), len(last)) > 2 or match[3] else _counted(int(first), int(last))
    return [chr(code) for code in _span(ord(first), ord(last))]


def _counted(first: int, last: int) -> list[str]:
    return [str(number) for number in _span(first, last)] if abs(first - last) < MOST_WORDS else [TAME]


def _span(first: int, last: int) -> range:
    return range(first, last + 1) if first <= last else range(first, last - 1, -1)
