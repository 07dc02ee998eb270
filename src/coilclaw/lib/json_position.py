"""Line and column of values in a JSON text, to locate faults. Pure.

Only texts with a fault are walked; the walk expects parsed JSON, and stops where it cannot continue.
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
    """A position, both from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class _Lost(Exception):
    """The text is not valid; keep what was found so far."""


class _Twice(Exception):
    """A key appears twice in one object."""

    def __init__(self, key: str, place: int) -> None:
        self.key = key
        self.place = place


class _Walk:
    """Records the offset of the deepest value along each path."""

    def __init__(self, text: str, paths: Sequence[Path], *, watch: bool) -> None:
        self._text = text
        self._paths = [tuple(path) for path in paths]
        self._watch = watch
        self.found = [0] * len(paths)

    def value(self, at: int, depth: int, along: Sequence[int]) -> int:
        """Skip the value at an offset, following the paths with these numbers; returns its end."""
        at = self._skip(at)
        for number in along:
            self.found[number] = at
        opening = self._text[at : at + 1]
        if not along and not self._watch and opening in "{[":  # no path leads in here
            return self._read(at)[1]
        if opening == "{":
            return self._object(at + 1, depth, along)
        if opening == "[":
            return self._array(at + 1, depth, along)
        if opening == '"':
            return self._string(at)[1]
        scalar = _SCALAR.match(self._text, at)
        if scalar is None:
            raise _Lost
        return scalar.end()

    def _object(self, at: int, depth: int, along: Sequence[int]) -> int:
        seen: set[str] = set()
        at = self._skip(at)
        while self._text[at : at + 1] != "}":
            start = at
            key, at = self._string(at)
            if self._watch and key in seen:
                raise _Twice(key, start)
            seen.add(key)
            at = self._expect(at, ":")
            at = self._skip(self.value(at, depth + 1, self._further(along, depth, key)))
            if self._text[at : at + 1] == ",":
                at = self._skip(at + 1)
            elif self._text[at : at + 1] != "}":
                raise _Lost
        return at + 1

    def _array(self, at: int, depth: int, along: Sequence[int]) -> int:
        number, at = 0, self._skip(at)
        while self._text[at : at + 1] != "]":
            at = self._skip(self.value(at, depth + 1, self._further(along, depth, number)))
            number += 1
            if self._text[at : at + 1] == ",":
                at = self._skip(at + 1)
            elif self._text[at : at + 1] != "]":
                raise _Lost
        return at + 1

    def _further(self, along: Sequence[int], depth: int, key: str | int) -> Sequence[int]:
        return [each for each in along if self._paths[each][depth : depth + 1] == (key,)]

    def _string(self, at: int) -> tuple[str, int]:
        if self._text[at : at + 1] != '"':
            raise _Lost
        return cast("tuple[str, int]", self._read(at))

    def _read(self, at: int) -> tuple[object, int]:
        try:
            return _READER.raw_decode(self._text, at)
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


def places_of(text: str, paths: Sequence[Path]) -> list[Place]:
    """The position of the value at each path, or of the nearest enclosing value. One walk for all."""
    walk = _Walk(text, paths, watch=False)
    with suppress(_Lost, RecursionError):
        walk.value(0, 0, range(len(paths)))
    return [place_at(text, found) for found in walk.found]


def place_of(text: str, path: Path) -> Place:
    """The same for one path."""
    return places_of(text, [path])[0]


def key_twice(text: str) -> tuple[str, Place] | None:
    """The first key that appears twice in one object, and where."""
    try:
        _Walk(text, (), watch=True).value(0, 0, ())
    except _Twice as error:
        return error.key, place_at(text, error.place)
    except (_Lost, RecursionError):
        pass
    return None
