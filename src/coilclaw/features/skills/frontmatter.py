"""The frontmatter of a SKILL.md: the part of YAML that the convention needs, and nothing that could surprise.

A key and a text on each line, quoted or not, blocks after `|` and `>`, and one map of texts below `metadata`. Whatever
else YAML has is refused by name: anchors, aliases, tags, flow style, lists, several documents.
"""

import re
from collections.abc import Sequence

import msgspec

MAP = "metadata"
# Texts, not patterns: compiling what a file does not need would cost every start of the agent.
_KEY = r"([A-Za-z][A-Za-z0-9_.-]{0,63}):(?:[ ]+(.*))?\Z"
_DOUBLE = r'"((?:[^"\\]|\\.)*)"[ ]*(?:[ ]#.*)?\Z'
_SINGLE = r"'((?:[^']|'')*)'[ ]*(?:[ ]#.*)?\Z"
_BLOCK = r"([|>])[+-]?[ ]*(?:[ ]#.*)?\Z"
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t"}
_REFUSED = {
    "&": "an anchor (&)",
    "*": "an alias (*)",
    "!": "a tag (!)",
    "[": "flow style ([)",
    "{": "flow style ({)",
    "]": "flow style (])",
    "}": "flow style (})",
    "%": "a directive (%)",
    "@": "a reserved character (@)",
    "`": "a reserved character (`)",
    ",": "a reserved character (,)",
}


class Fault(msgspec.Struct, frozen=True):
    """Something wrong and the line it stands in; 0 when it is the file as a whole."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


class NotRead(ValueError):
    """A value that is not in the part of YAML that is read."""


class Frontmatter(msgspec.Struct, frozen=True, kw_only=True):
    """What stands between the two lines of dashes."""

    texts: dict[str, str]
    metadata: dict[str, str]
    lines: dict[str, int]
    """Where each key stands."""
    faults: tuple[Fault, ...]


def read_frontmatter(lines: Sequence[str], first: int) -> Frontmatter:
    """Read these lines; `first` is the number of the first of them."""
    reading = _Reading(lines, first)
    reading.all()
    return Frontmatter(
        texts=reading.texts, metadata=reading.metadata, lines=reading.places, faults=tuple(reading.faults)
    )


class _Reading:
    """One pass over the lines."""

    def __init__(self, lines: Sequence[str], first: int) -> None:
        self._lines = lines
        self._first = first
        self._at = 0
        self._indent = 0
        """Of the lines below `metadata`; 0 outside of it."""
        self._in_map = False
        self.texts: dict[str, str] = {}
        self.metadata: dict[str, str] = {}
        self.places: dict[str, int] = {}
        self.faults: list[Fault] = []

    def all(self) -> None:
        while self._at < len(self._lines):
            line, number = self._lines[self._at], self._first + self._at
            self._at += 1
            if not line.strip(" ") or line.lstrip(" ").startswith("#"):
                continue
            try:
                self._line(line, number)
            except NotRead as error:
                self.faults.append(Fault(number, str(error)))

    def _line(self, line: str, number: int) -> None:
        indent = len(line) - len(line.lstrip(" "))
        if "\t" in line:
            raise NotRead("a tab; use spaces.")
        if "---" in line:
            raise NotRead("`---` stands in it, which readers take for the end of the frontmatter.")
        if indent == 0:
            self._in_map = False
        elif not self._in_map:
            raise NotRead(f"only {MAP} has lines below it; put a long text on one line, or in a block after `>`.")
        elif indent != (self._indent or indent):
            raise NotRead(f"every line below {MAP} is indented alike.")
        else:
            self._indent = indent
        found = re.match(_KEY, line[indent:])
        if found is None:
            raise NotRead(_no_pair(line[indent:]))
        key, raw = found[1], (found[2] or "").strip(" ")
        self._put(key, raw, number, indent)

    def _put(self, key: str, raw: str, number: int, indent: int) -> None:
        into, place = (self.metadata, f"{MAP}.{key}") if indent else (self.texts, key)
        if place in self.places:
            raise NotRead(f"{key} stands there twice.")
        self.places[place] = number
        if place == MAP:
            if raw and not raw.startswith("#"):
                raise NotRead(f"{MAP} is a map: one `key: text` on each indented line below it.")
            self._in_map, self._indent = True, 0
            return
        block = re.match(_BLOCK, raw)
        into[key] = (self._block(indent, folded=block[1] == ">") if block else scalar(raw)).strip()

    def _block(self, indent: int, *, folded: bool) -> str:
        """The lines below that are indented further."""
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip(" ") and len(line) - len(line.lstrip(" ")) <= indent:
                break
            if "\t" in line or "---" in line:
                raise NotRead("a block holds neither tabs nor `---`.")
            taken.append(line.strip(" "))
            self._at += 1
        if not folded:
            return "\n".join(taken)
        return "\n".join(" ".join(part.split("\n")) for part in "\n".join(taken).strip().split("\n\n"))


def scalar(raw: str) -> str:
    """The text of a value on one line; NotRead says what is wrong with it."""
    if raw.startswith('"'):
        found = re.match(_DOUBLE, raw)
        if found is None:
            raise NotRead('the quoted text does not end with `"`.')
        return re.sub(r"\\(.)", _escaped, found[1])
    if raw.startswith("'"):
        found = re.match(_SINGLE, raw)
        if found is None:
            raise NotRead("the quoted text does not end with `'`.")
        return found[1].replace("''", "'")
    plain = "" if raw.startswith("#") else raw.partition(" #")[0].rstrip(" ")
    if plain[:1] in _REFUSED:
        raise NotRead(f"it begins with {_REFUSED[plain[:1]]}, which is not read; put the text in quotes.")
    if plain[:1] in ("|", ">"):
        raise NotRead("write a block as `|` or `>` alone, with its text on the indented lines below.")
    if plain in ("-", "?", ":") or plain[:2] in ("- ", "? ", ": "):
        raise NotRead("a list or a complex key, which is not read; write one text.")
    if ": " in plain or plain.endswith(":"):
        raise NotRead("a colon in the text; put the text in quotes.")
    return plain


def _escaped(found: "re.Match[str]") -> str:
    if found[1] not in _ESCAPES:
        raise NotRead(f'the escape \\{found[1]} is not read; use \\", \\\\, \\n or \\t.')
    return _ESCAPES[found[1]]


def _no_pair(line: str) -> str:
    if line[:1] in _REFUSED:
        return f"it begins with {_REFUSED[line[:1]]}, which is not read."
    if line.startswith("- "):
        return "a list, which is not read; write names with spaces between them."
    return "this is not `key: text`."
