"""Tainted values: which argument values occur in untrusted content and not in the owner's own words.

Pure, and linear in the texts. Comparison looks past letter case, compatibility forms, spacing and characters that show
nothing. What stands somewhere is told by an index of words, addresses and numbers, and by stretches of 24 characters.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote_plus

from coilclaw.packets.canonical import Json, JsonObject, canonical_bytes
from coilclaw.packets.text import one_line

STRETCH = 24
"""So many characters in a row that stand word for word are no accident."""
SHOWN = 200
MOST_VALUES = 100
_BLOCK = 1 << 18
_SEARCHES = 200
"""How many short phrases are searched for in the whole text; beyond that, their words are compared."""
_MISSES = 1000

_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SPACE = re.compile(r"\s+")
_BREAKS = re.compile(r"[\r\n]+")
_WORD = re.compile(r"\w+")
_MAIL = re.compile(r"[\w.+%-]{1,64}@[\w.-]{1,255}")
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>\"'`]+")
_HOST = re.compile(r"(?<![\w.-])(?:[\w-]{1,63}\.){1,10}[^\W\d_]{2,24}(?![\w-])")
_NUMBER = re.compile(r"\d(?:[ ./-]?\d){5,63}")
_CODE = re.compile(r"(?<!\w)\w{6,64}(?!\w)")
_QUOTED = re.compile("\"([^\"\n]{3,200})\"|'([^'\n]{3,200})'|“([^”\n]{3,200})”|«([^»\n]{3,200})»|`([^`\n]{3,200})`")
_THOUSANDS = re.compile(r"(?<!\d)\d{1,3}(?:[,.' ]\d{3})+(?!\d)")
_NOT_DIGIT = re.compile(r"\D+")


def marked_values(args: JsonObject, untrusted: Iterable[str], owner: Iterable[str]) -> tuple[str, ...]:
    """The argument values, and parts of long ones, that untrusted content named and the owner did not.

    Values are strings, numbers and the keys of inner objects. Each is shown once, visibly, at most 200 characters of
    it: addresses, numbers and stretches first, single words last, so that noise cannot crowd out what matters.
    """
    theirs, own = _Index(untrusted), _Index(owner)
    if not theirs.text:
        return ()
    leaves = list(dict.fromkeys(_leaves(args, top=True)))
    stretches = _Stretches(theirs, own, leaves)
    found: dict[str, None] = {}
    for leaf in leaves:
        for value in _marked(leaf, theirs, own, stretches):
            found[_shown(value)] = None
    values = sorted(found, key=_rank)  # a stable sort: otherwise in the order of the arguments
    if len(values) > MOST_VALUES:
        values = [*values[:MOST_VALUES], f"… and {len(values) - MOST_VALUES} more"]
    return tuple(values)


def _rank(value: str) -> int:
    """What tells the owner most comes first: addresses and accounts, stretches of text, the rest, single words."""
    if "@" in value or "://" in value or _HOST.search(value) or sum(map(str.isdigit, value)) >= 6:
        return 0
    if " " in value.strip() or len(value) >= STRETCH:
        return 1
    return 3 if value.strip("-_'’").isalpha() else 2


def plain(text: str) -> str:
    """The text as it is compared: what looks the same is the same."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _HIDDEN.sub("", text)).casefold())
    return _SPACE.sub(" ", _HIDDEN.sub("", folded)).strip()


def _readable(text: str) -> str:
    """The text without disguise, in its own letter case."""
    return unicodedata.normalize("NFKC", _HIDDEN.sub("", text))


def _shown(text: str) -> str:
    text = one_line(_BREAKS.sub(" ", text[: SHOWN * 2]))  # a mail has lines, and a mark is one
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _leaves(value: Json, *, top: bool = False) -> Iterator[str]:
    """Strings, numbers as text, and the keys of inner objects; those of the arguments themselves are the tool's."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            if not top:
                yield key
            yield from _leaves(value[key])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield canonical_bytes(value).decode()


class _Index:
    """What stands in some texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.text = plain("\n".join(texts))
        self._words: frozenset[str] | None = None
        self._addresses: frozenset[str] | None = None
        self._digits = ""
        self._searches = _SEARCHES

    @property
    def words(self) -> frozenset[str]:
        """Every word, and every number without the marks between its thousands."""
        if self._words is None:
            numbers = (_NOT_DIGIT.sub("", each) for each in _THOUSANDS.findall(self.text))
            self._words = frozenset(_WORD.findall(self.text)).union(numbers)
        return self._words

    @property
    def addresses(self) -> frozenset[str]:
        """Every e-mail address, URL and host, each host also without its first names."""
        if self._addresses is None:
            found = set(map(_bare, _MAIL.findall(self.text))) | set(map(_bare, _URL.findall(self.text)))
            for host in _HOST.findall(self.text):
                names = host.split(".")
                found |= {".".join(names[start:]) for start in range(len(names) - 1)}
            self._addresses = frozenset(found)
        return self._addresses

    def has_number(self, digits: str) -> bool:
        """Whether the digits stand in a row, however they are grouped."""
        if not self._digits:
            self._digits = "|".join(_NOT_DIGIT.sub("", each) for each in _NUMBER.findall(self.text)) + "|"
        return digits in self._digits

    def has(self, value: str) -> bool:
        """Whether a value, already plain, stands there as a whole: not as a part of other words."""
        words = _WORD.findall(value)
        if not words:
            return False
        if words == [value]:
            return value in self.words
        if not self.words.issuperset(words):
            return False
        if self._searches <= 0:
            return True  # rather marked than missed
        self._searches -= 1
        return self._search(value)

    def _search(self, value: str) -> bool:
        place = self.text.find(value)
        for _ in range(_MISSES):
            if place < 0:
                return False
            end = place + len(value)
            before, after = self.text[place - 1 : place], self.text[end : end + 1]
            if not (_joined(before, value[0]) or _joined(value[-1], after)):
                return True
            place = self.text.find(value, place + 1)
        return True


def _joined(left: str, right: str) -> bool:
    """Whether two neighbours are of one word."""
    return bool(left and right and _WORD.match(left) and _WORD.match(right))


def _bare(address: str) -> str:
    return address.rstrip(".,;:!?)]}'\"-")


class _Stretches:
    """Which windows of the arguments stand in untrusted text and not in the owner's."""

    def __init__(self, theirs: _Index, own: _Index, leaves: list[str]) -> None:
        self._found: set[str] = set()
        windows: set[str] = set()
        for leaf in leaves:
            for variant in _variants(leaf):
                for start in range(0, len(variant), _BLOCK):
                    piece = variant[start : start + _BLOCK + STRETCH - 1]
                    windows.update(piece[at : at + STRETCH] for at in range(len(piece) - STRETCH + 1))
                    if len(windows) >= _BLOCK:
                        self._sift(windows, theirs, own)
                        windows = set()
        self._sift(windows, theirs, own)

    def _sift(self, windows: set[str], theirs: _Index, own: _Index) -> None:
        if windows:
            self._found |= _standing(windows, theirs.text) - _standing(windows, own.text)

    def of(self, text: str) -> list[str]:
        """The longest stretches of a text, already plain, all of whose windows were found."""
        runs: list[str] = []
        start = -1
        for at in range(len(text) - STRETCH + 2):
            if text[at : at + STRETCH] in self._found:
                start = at if start < 0 else start
            elif start >= 0:
                runs.append(text[start : at + STRETCH - 1])
                start = -1
        return runs


def _standing(windows: set[str], text: str) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(text), _BLOCK):
        end = min(start + _BLOCK, len(text) - STRETCH + 1)
        found |= windows.intersection([text[at : at + STRETCH] for at in range(start, end)])
    return found


def _variants(leaf: str) -> list[str]:
    """A value as it is compared, and once more without the spelling of addresses."""
    spelled = plain(leaf)
    if "%" not in leaf:
        return [spelled]
    decoded = plain(unquote_plus(leaf))
    return [spelled] if decoded == spelled else [spelled, decoded]


def _marked(leaf: str, theirs: _Index, own: _Index, stretches: _Stretches) -> Iterator[str]:
    """What of one value is marked: all of it, or its parts."""
    variants = _variants(leaf)
    whole = variants[0]
    if not whole or (len(whole) < STRETCH and own.has(whole)):
        return
    if whole in stretches.of(whole) or (len(whole) < STRETCH and theirs.has(whole)):
        yield leaf
        return
    text = _readable(leaf)
    yield from _parts(text, theirs, own)
    for variant in variants:
        yield from stretches.of(variant)
    if len(variants) > 1:
        yield from _parts(_readable(unquote_plus(leaf)), theirs, own)


def _parts(text: str, theirs: _Index, own: _Index) -> Iterator[str]:
    for pattern in (_MAIL, _URL, _HOST):
        for part in map(_bare, pattern.findall(text)):
            if plain(part) in theirs.addresses and plain(part) not in own.addresses:
                yield part
    for part in _NUMBER.findall(text):
        digits = _NOT_DIGIT.sub("", part)
        if theirs.has_number(digits) and not own.has_number(digits):
            yield part
    for part in _CODE.findall(text):
        folded = plain(part)
        if any(c.isdigit() for c in part) and folded in theirs.words and folded not in own.words:
            yield part
    for match in _QUOTED.finditer(text):
        part = next(group for group in match.groups() if group is not None)
        if theirs.has(plain(part)) and not own.has(plain(part)):
            yield part
