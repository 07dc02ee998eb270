"""First layer: registered values, literally and in the encodings that text commonly goes through.

Readings of one value: the text itself, where each character may stand plain, percent-encoded (once or more), JSON- or
shell-escaped (at any depth) or as an HTML entity; hexadecimal; base64 in both alphabets at all three alignments.
Readings of 12 characters and more are also found when line breaks fall inside, at least 16 characters apart.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from coilclaw.secrets.encodings import BREAKS, NEVER, UNFINISHED, line_break, spelled
from coilclaw.secrets.fingerprints import FOREIGN, Fingerprints
from coilclaw.secrets.labels import FIELD_KINDS, MARK, label_of, mark, word_set
from coilclaw.secrets.plain_output import PlainOutput
from coilclaw.secrets.stream_engine import CAP, Hit, More, Window

MIN_LENGTH = 6
PIECE = 512
"""Longer values are registered in pieces, so that the text held back stays below the cap in every encoding."""
_MIN_LINE = 16
_WRAP_FROM = 12
_WRAP_APART = 16
_WORST_UNIT = 22
_PARTIAL = 12
_UNRESERVED = r"[A-Za-z0-9_.~-]{3,}"
_ESCAPES = ("%", "\\u00", "\\x", "&#")
_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}|\\u00|\\x[0-9A-Fa-f]|&#")
_LONG_TEXT = 1_024
_PRINTED = 4
"""So many characters of a fixed part are looked for together."""
_SPELLS = "%\\&+\r"
"""Characters that may begin the spelling of another."""
_STOP = rf"[{BREAKS}\\=%&]|\Z"
_COMMON = word_set(
    "password passwd secret token apikey api_key api-key changeme change-me change_me example default localhost "
    "placeholder undefined redacted private public username coilclaw testing qwerty letmein unknown disabled "
    "enabled required optional bearer string number object boolean production development 0.0.0.0 127.0.0.1"
)


def refusal(value: str) -> str:
    """Why a value cannot be registered, or nothing: too short, or so common that ordinary text would be destroyed."""
    bare = value.strip()
    if len(bare) < MIN_LENGTH:
        return f"it is shorter than {MIN_LENGTH} characters, so ordinary text would match it"
    if bare.lower() in _COMMON or bare.lower() in "[redacted:secret]":
        return "it is a common word, so ordinary text would match it"
    if len(set(bare)) < 3:
        return "it repeats one or two characters, so ordinary text would match it"
    if bare.isdecimal() and len(bare) < 8:
        return "it is a short number, so dates and counters would match it"
    return ""


class Reading(NamedTuple):
    """One encoding of one value: the characters allowed at each position, or the text itself."""

    label: str
    places: tuple[str, ...]
    plain: str = ""
    """The text itself, if the reading is literal."""
    padded: bool = False

    @property
    def is_text(self) -> bool:
        """Whether each position may be spelled in many ways."""
        return bool(self.plain)


def _base64_places(data: bytes, shift: int) -> tuple[str, ...]:
    """The base64 of these bytes after `shift` others; at the borders, any value of the foreign bits."""
    import base64

    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    low = base64.b64encode(b"\x00" * shift + data + b"\x00" * (-(shift + len(data)) % 3)).decode()
    high = base64.b64encode(b"\xff" * shift + data + b"\xff" * (-(shift + len(data)) % 3)).decode()
    first, last = shift * 8 // 6, (8 * (shift + len(data)) - 1) // 6
    places: list[str] = []
    for place in range(first, last + 1):
        floor, free = alphabet.index(low[place]), alphabet.index(low[place]) ^ alphabet.index(high[place])
        members = "".join(alphabet[floor | bits] for bits in range(64) if bits & ~free == 0)
        members += "-" * ("+" in members) + "_" * ("/" in members)
        places.append(members)
    return tuple(places)


def _readings(label: str, value: str) -> list[Reading]:
    data = value.encode("utf-8", "surrogatepass")
    made = [Reading(label, tuple(re.findall(r"\\+|[^\\]", value)), plain=value)]
    made += [Reading(label, tuple(text)) for text in {data.hex(), data.hex().upper()}]
    made += [Reading(label, _base64_places(data, shift), padded=True) for shift in range(3)]
    return made


def _pieces(value: str) -> list[str]:
    value = value.replace("\r\n", "\n").strip()
    whole = [value[at : at + PIECE] for at in range(0, len(value), PIECE)]
    if len(whole) > 1 and len(whole[-1]) < _MIN_LINE:
        whole[-1] = value[-_MIN_LINE:]
    lines = [line.strip() for line in value.split("\n")] if "\n" in value else []
    return whole + [
        line[at : at + PIECE]
        for line in lines
        if len(line) >= _MIN_LINE and " " not in line and not line.startswith("-----")
        for at in range(0, len(line), PIECE)
        if len(line) - at >= MIN_LENGTH
    ]


class _Compiled(NamedTuple):
    readings: tuple[Reading, ...]
    by_first: dict[str, tuple[Reading, ...]]
    """Those that may start with a character, unless it is part of an escape."""
    anchors: re.Pattern[str]
    grams: "_Grams"
    always: bool
    reach: int
    labels: frozenset[str]
    plain: PlainOutput

    def starting(self, text: str, at: int) -> tuple[Reading, ...]:
        """The readings that may start here."""
        if text[at] in _SPELLS or text[at - 1 : at] == "\\":
            return self.readings
        return self.by_first.get(text[at], ())


class _Grams:
    """Fixed parts of the readings: every match contains one of them, or an escape."""

    def __init__(self, grams: Iterable[str]) -> None:
        self._grams = sorted(grams)
        self._prints: Fingerprints | None = None
        self._share = -(-len(self._grams) // 8) or 1
        """How many of them are in a bucket: neighbours, because they begin alike."""

    def spans(self, text: str, at: int, reach: int) -> list[tuple[int, int]]:
        """Where a match may start: up to `reach` before a fixed part or an escape, and near the end of the text."""
        tail = max(at, len(text) - reach)
        if len(text) - at < _LONG_TEXT:
            some = any(text.find(gram, at) >= 0 for gram in (*_ESCAPES, *self._grams))
            return [(at if some else tail, len(text))]
        spans: list[tuple[int, int]] = []
        for place in (*sorted(self._places(text, at)), len(text)):
            start = max(at, place - reach)
            if spans and start <= spans[-1][1]:
                spans[-1] = spans[-1][0], place + 1
            else:
                spans.append((start, place + 1))
        return spans

    def _places(self, text: str, at: int) -> Iterator[int]:
        if self._prints is None:
            self._prints = Fingerprints(
                (number // self._share, tuple(char if char.isascii() else FOREIGN for char in gram[:_PRINTED]))
                for number, gram in enumerate(self._grams)
            )
        for place, buckets in self._prints.find(text, at):
            some = (self._in(bucket) for bucket in range(8) if buckets >> bucket & 1)
            if any(text.startswith(gram, place) for grams in some for gram in grams):
                yield place
        if any(escape in text for escape in _ESCAPES):
            yield from (found.start() for found in _ESCAPED.finditer(text, at))

    def _in(self, bucket: int) -> list[str]:
        return self._grams[bucket * self._share : (bucket + 1) * self._share]


class Registered:
    """The layer of registered values. Compiled when first used after a registration."""

    word = ""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._compiled: _Compiled | None = None

    def add(self, name: str, value: str) -> None:
        """Register this value; one that `refusal` rejects is ignored."""
        if not refusal(value) and value not in self._values:
            self._values[value] = name
            self._compiled = None

    def drop(self, value: str) -> None:
        """Forget a registered value."""
        if self._values.pop(value, None) is not None:
            self._compiled = None

    def __bool__(self) -> bool:
        return bool(self._values)

    def anchors(self, text: str, at: int) -> list[int]:
        """Possible starts of readings. Text without a fixed part of any is skipped: only its end may start one."""
        ready = self._ready()
        spans = [(at, len(text))] if ready.always else ready.grams.spans(text, at, ready.reach)
        return [match.start() for start, end in spans for match in ready.anchors.finditer(text, start, end)]

    def decide(self, window: Window, at: int) -> Hit | None:
        """The longest reading that starts here."""
        ready = self._ready()
        for reading in ready.starting(window.text, at):
            end = _walk(window, at, reading)
            if end > at:
                return None if _inside_mark(window, at, end, ready.labels) else Hit(at, end, mark(reading.label))
        return None

    def seen(self, window: Window, at: int) -> tuple[int, bool]:
        """How much of a value the end of the text, from here on, may be; and whether of a value as it is."""
        most, plain = 0, False
        for reading in self._ready().starting(window.text, at):
            try:
                _walk(window, at, reading)
            except More as more:
                most = max(most, more.seen)
                plain = plain or (reading.is_text and more.seen > 0)
        return most, plain

    def plain(self, text: str) -> bool:
        """Whether neither this layer nor any other would find anything to look at in a text, except near its end."""
        ready = self._ready()
        return not ready.always and ready.plain(text)

    @property
    def reach(self) -> int:
        """How much of the end of a text may be the beginning of a value."""
        return self._ready().reach

    def _ready(self) -> _Compiled:
        if self._compiled is None:
            self._compiled = _compiled(self._values)
        return self._compiled


def _compiled(values: dict[str, str]) -> _Compiled:
    readings: list[Reading] = []
    for value, name in values.items():
        clean = label_of(name)
        label = "secret" if any(other in clean for other in values) else clean  # a mark must not reveal the value
        for piece in dict.fromkeys(_pieces(value)):
            readings += _readings(label, piece)
    readings.sort(key=lambda reading: len(reading.places), reverse=True)
    grams: dict[str, None] = {}
    always = False
    for reading in readings:
        made = _grams(reading)
        always = always or not made
        grams.update(dict.fromkeys(made))
    reach = max((len(one.places) * (_WORST_UNIT if one.is_text else 2) + 64 for one in readings), default=0)
    labels = frozenset(reading.label for reading in readings) | FIELD_KINDS
    by_first: dict[str, tuple[Reading, ...]] = {}
    for reading in readings:
        for first in reading.places[0][0] if reading.is_text else reading.places[0]:
            by_first[first] = (*by_first.get(first, ()), reading)
    return _Compiled(
        tuple(readings), by_first, _anchors(readings), _Grams(grams), always, min(reach, CAP), labels,
        PlainOutput(grams),
    )  # fmt: skip


def _grams(reading: Reading) -> list[str]:
    """Fixed strings of which every match contains one, wherever a line break falls. Empty if there are none."""
    if reading.is_text:
        run = max(re.findall(_UNRESERVED, "".join(reading.places)), key=len, default="")
        if len(reading.places) < _WRAP_FROM:
            return [run[:8]] if run else []
        half = min(8, len(run) // 2)
        return [run[:half], run[half : 2 * half]] if half >= 2 else []
    inner = reading.places[1:-1] if reading.padded else reading.places
    half = min(8, len(inner) // 2)
    sides = [inner[:half], inner[half : 2 * half]] if len(reading.places) >= _WRAP_FROM else [inner[:half]]
    return ["".join(place[pick] for place in side) for side in sides for pick in (0, -1)]


def _anchors(readings: list[Reading]) -> re.Pattern[str]:
    ahead: dict[str, dict[str, None]] = {}
    firsts: dict[str, None] = {}
    for reading in readings:
        if reading.is_text:
            firsts[reading.places[0][0]] = None
        rest = f"(?:{_STOP})"
        for place in reversed(reading.places[1:4]):
            members = re.escape(place[0]) if reading.is_text else f"[{re.escape(place)}]"
            rest = f"(?:{members}{rest}|{_STOP})" if rest.count("(") > 1 else f"(?:{members}|{_STOP})"
        for first in reading.places[0][0] if reading.is_text else reading.places[0]:
            ahead.setdefault(first, {})[rest] = None
    chars = "".join(map(re.escape, firsts))
    codes = "|".join(f"{byte:02x}" for byte in sorted({first.encode("utf-8", "surrogatepass")[0] for first in firsts}))
    near_end = r"[^\r\n]{0,24}\Z"
    if firsts:
        points = "|".join(f"{ord(first):04x}" for first in firsts if ord(first) < 0x10000) or "zzzz"
        ahead.setdefault("%", {})[f"(?:(?:25)*(?i:{codes})|{near_end})"] = None
        ahead.setdefault("\\", {})[f"(?:\\\\{{0,16}}(?:[{chars}nrt]|(?i:u(?:{points})|x(?:{codes})))|{near_end})"] = (
            None
        )
        ahead.setdefault("&", {})[f"(?:#|[a-z]{{2,4}};|{near_end})"] = None
    if not ahead:
        return re.compile(r"(?!)")
    return re.compile("|".join(f"{re.escape(first)}(?={'|'.join(rests)})" for first, rests in ahead.items()))


def _walk(window: Window, start: int, reading: Reading) -> int:
    """The end of the reading that starts here; `start` itself if there is none. Raises More while undecided."""
    text = window.text
    if reading.plain and text.startswith(reading.plain, start):
        return start + len(reading.plain)
    if reading.plain and reading.plain.startswith(text[start : start + len(reading.plain)]):
        return _cut_short(window, start, len(text) - start, reading)
    at, wrap_after = start, 1 if len(reading.places) >= _WRAP_FROM else len(reading.places)
    step = spelled if reading.plain else _member
    for number, place in enumerate(reading.places):
        end = step(text, at, place)
        if end == NEVER and number >= wrap_after:
            after = line_break(text, at)
            wrap_after = number + _WRAP_APART
            end = step(text, after, place) if after > at else after
        if end == NEVER:
            return start
        if end == UNFINISHED:
            return _cut_short(window, start, number, reading)
        at = end
    if reading.padded:
        for _ in range(2):
            if at == len(text) and not window.final:
                raise More(seen=len(reading.places))
            at += window.char(at) == "="
    return at


def _cut_short(window: Window, start: int, seen: int, reading: Reading) -> int:
    """The text ends inside a reading: wait or, if nothing more comes, hide a part long enough to reveal it."""
    if not window.final:
        raise More(seen=seen)
    enough = seen >= _PARTIAL or (seen >= 8 and 2 * seen >= len(reading.places))
    return len(window.text) if enough else start


def _member(text: str, at: int, place: str) -> int:
    if at >= len(text):
        return UNFINISHED
    return at + 1 if text[at] in place else NEVER


def _inside_mark(window: Window, start: int, end: int, labels: frozenset[str]) -> bool:
    """Whether this is part of a mark of ours; a mark with a foreign label is ordinary text."""
    opened = window.text.rfind("[redacted:", max(0, start - 80), start + 10)
    if opened < 0 or "]" in window.text[opened:start]:
        return False
    for ahead in range(end, min(end + 64, opened + 80)):
        if window.char(ahead) in ("]", "", " ", "\n"):
            break
    found = MARK.match(window.text, opened)
    return bool(found and found.end() >= end and found[1] in labels)
