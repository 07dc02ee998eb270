"""Places in a JSON text: the line and column where a value stands, so that a fault can be pointed at. Pure.

Only texts with a fault are walked; the walk reads what a JSON reader already accepted, or stops where it cannot go on.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from json import JSONDecoder
from typing import TypeAlias, cast

import msgspec

Path: TypeAlias = Sequence[str | int]

_BLANK = re.compile(r"[ \t\n\r]*")
_READER = JSONDecoder()
_SCALAR = re.compile(r"[^\s,:\[\]{}\"]+")


class Place(msgspec.Struct, frozen=True):
    """Where something stands, both from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class _Lost(Exception):
    """The text is not what it seemed; what was found so far stands."""


class _Twice(Exception):
    """A key stands twice in one object."""

    def __init__(self, key: str, place: int) -> None:
        self.key = key
        self.place = place


class _Walk:
    """Remembers the offset of the deepest value along a path."""

    def __init__(self, text: str, path: Path, *, watch: bool) -> None:
        self._text = text
        self._path = tuple(path)
        self._watch = watch
        self.found = 0

    def value(self, at: int, depth: int, matched: bool) -> int:
        """Pass over the value at an offset and say where it ends."""
        at = self._skip(at)
        if matched and depth <= len(self._path):
            self.found = at
        opening = self._text[at : at + 1]
        if opening == "{":
            return self._object(at + 1, depth, matched)
        if opening == "[":
            return self._array(at + 1, depth, matched)
        if opening == '"':
            return self._string(at)[1]
        scalar = _SCALAR.match(self._text, at)
        if scalar is None:
            raise _Lost
        return scalar.end()

    def _object(self, at: int, depth: int, matched: bool) -> int:
        seen: set[str] = set()
        at = self._skip(at)
        while self._text[at : at + 1] != "}":
            start = at
            key, at = self._string(at)
            if self._watch and key in seen:
                raise _Twice(key, start)
            seen.add(key)
            at = self._expect(at, ":")
            at = self._skip(self.value(at, depth + 1, matched and self._wants(depth, key)))
            if self._text[at : at + 1] == ",":
                at = self._skip(at + 1)
            elif self._text[at : at + 1] != "}":
                raise _Lost
        return at + 1

    def _array(self, at: int, depth: int, matched: bool) -> int:
        number, at = 0, self._skip(at)
        while self._text[at : at + 1] != "]":
            at = self._skip(self.value(at, depth + 1, matched and self._wants(depth, number)))
            number += 1
            if self._text[at : at + 1] == ",":
                at = self._skip(at + 1)
            elif self._text[at : at + 1] != "]":
                raise _Lost
        return at + 1

    def _wants(self, depth: int, key: str | int) -> bool:
        return depth < len(self._path) and self._path[depth] == key

    def _string(self, at: int) -> tuple[str, int]:
        if self._text[at : at + 1] != '"':
            raise _Lost
        try:
            return cast("tuple[str, int]", _READER.raw_decode(self._text, at))
        except ValueError as error:
            raise _Lost from error

    def _expect(self, at: int, sign: str) -> int:
        at = self._skip(at)
        if self._text[at : at + 1] != sign:
            raise _Lost
        return at + 1

    def _skip(self, at: int) -> int:
        blank = _BLANK.match(self._text, at)
        return at if blank is None else blank.end()


def place_at(text: str, offset: int) -> Place:
    """The line and column of an offset."""
    before = text[:offset]
    return Place(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def place_of(text: str, path: Path) -> Place:
    """Where the value at a path stands; where it should stand, the nearest value around it."""
    walk = _Walk(text, path, watch=False)
    with suppress(_Lost, RecursionError):
        walk.value(0, 0, True)
    return place_at(text, walk.found)


def key_twice(text: str) -> tuple[str, Place] | None:
    """The first key that stands twice in one object, and where."""
    try:
        _Walk(text, (), watch=True).value(0, 0, False)
    except _Twice as error:
        return error.key, place_at(text, error.place)
    except (_Lost, RecursionError):
        pass
    return None
