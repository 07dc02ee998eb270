"""Caches character-run boundaries so that overlapping matches stay linear."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

_NEVER = 1 << 62
_STREAK = 8
_STREAKS = re.compile(r"(.)\1{7,}")
_FEW = 48
_BACK = 64
_AHEAD = 512
_COUNTED = 8_192
_KEPT = 4_096
"""Counts and heads of a long text are dropped after this: nobody returns to its beginning."""


class Head(NamedTuple):
    """The head of a token: the part to replace starts at `start`, the distinctive part ends at `end`."""

    start: int
    end: int
    shape: int
    """The row of the table."""
    tail: re.Pattern[str] | None
    """The character class of the rest; None if it ends here."""


_UNKNOWN = Head(-1, -1, -1, None)


class Page:
    """One text and what is known about it. `looked` counts the characters read to find out."""

    __slots__ = ("_dashes", "_halves", "_heads", "_points", "_runs", "_tally", "looked", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.looked = 0
        self._halves: tuple[tuple[int, int], int, Page] | None = None
        self._runs: dict[re.Pattern[str], tuple[int, int]] = {}
        self._heads: dict[tuple[int, int], Head | None] = {}
        self._dashes = (0, -1)
        self._points: tuple[int, int, list[int]] = (0, 0, [])
        self._tally: Tally | None = None

    @property
    def all_looked(self) -> int:
        """Including characters read in joined halves."""
        return self.looked + (self._halves[2].looked if self._halves else 0)

    def halves(self, low: int, end: int, after: int, stop: int) -> "tuple[Page, int]":
        """The text without the line break between `end` and `after`, and its start; shared by all callers."""
        if self._halves is None or self._halves[0] != (end, stop):
            self.looked = self.all_looked + end - low
            self._halves = ((end, stop), low, Page(self.text[low:end] + self.text[after:stop]))
        return self._halves[2], self._halves[1]

    def run_end(self, members: re.Pattern[str], at: int) -> int:
        """The end of the run of a character class at this position; `at` itself if it is not a member."""
        start, end = self._runs.get(members, (0, 0))
        if start <= at < end:
            return end
        found = members.match(self.text, at)
        end = found.end() if found else at
        self._runs[members] = (at, end)
        self.looked += end - at + 1
        return end

    def dashes(self, at: int) -> int:
        """The position of the next four dashes; far away if there are none."""
        start, found = self._dashes
        if not start <= at <= found:
            found = self.text.find("----", at)
            found = _NEVER if found < 0 else found
            self._dashes = (at, found)
            self.looked += min(found, len(self.text)) - at + 1
        return found

    def tally(self, start: int, end: int) -> "Tally":
        """Character counts from `start` or before to `end` or beyond."""
        tally = self._tally
        if tally is None or not tally.start <= start <= min(tally.end, tally.start + _COUNTED):
            tally = self._tally = Tally(self.text, max(0, start - _BACK))
        if tally.end < end:
            self.looked += tally.count_to(min(len(self.text), end + _AHEAD))
        return tally

    def points(self, what: re.Pattern[str], low: int, high: int) -> list[int]:
        """Where a pattern with at most two characters of context matches, from `low` to `high` inclusive."""
        start, end, found = self._points
        if not start <= low <= min(end, start + _COUNTED):
            start = end = low
            found = []
        if end <= high:
            stop = min(len(self.text), high + _AHEAD)
            found += [match.start() for match in what.finditer(self.text, end, stop)]
            self.looked += stop - end
            end = stop
        self._points = (start, end, found)
        return found[bisect_left(found, low) : bisect_right(found, high)]

    def head(self, table: Callable[[str, int, int], Head | None], at: int, end: int) -> Head | None:
        """The table's match at this position, looking no further than `end`; cached."""
        found = self._heads.get((at, end), _UNKNOWN)
        if found is _UNKNOWN:
            if len(self._heads) >= _KEPT:
                self._heads.clear()
            found = self._heads[at, end] = table(self.text, at, end)
            self.looked += end - at
        return found


class Tally:
    """Prefix counts over a stretch of text, so that any part of it is answered in constant time."""

    __slots__ = ("_digits", "_letters", "_members", "_streak_ends", "_streaks", "_text", "end", "start")

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self.start = self.end = start
        self._letters = [0]
        self._digits = [0]
        self._members: set[str] = set()
        self._streaks: list[int] = []
        self._streak_ends: list[int] = []

    def count_to(self, end: int) -> int:
        """Extend the counts; returns how many characters were read."""
        new = end - self.end
        piece = self._text[self.end : end]
        self._letters += list(accumulate(map(str.isalpha, piece), initial=self._letters.pop()))
        self._digits += list(accumulate(map(str.isdecimal, piece), initial=self._digits.pop()))
        self._members.update(piece)
        low = max(self.start, self.end - _STREAK + 1)
        if any(self._text.find(char * _STREAK, low, end) >= 0 for char in set(piece)):
            for found in _STREAKS.finditer(self._text, low, end):
                self._streaks.append(found.start())
                self._streak_ends.append(found.end() - _STREAK)
        self.end = end
        return new

    def letters(self, start: int, end: int) -> int:
        """The number of letters there."""
        return self._letters[end - self.start] - self._letters[start - self.start]

    def digits(self, start: int, end: int) -> int:
        """The number of digits there."""
        return self._digits[end - self.start] - self._digits[start - self.start]

    def varied(self, start: int, end: int, least: int) -> bool:
        """Whether there are at least so many different characters."""
        if len(self._members) < least:
            return False
        if len(set(self._text[start : min(end, start + _FEW)])) >= least:
            return True
        told = 0
        for char in self._members:
            told += self._text.find(char, start, end) >= 0
            if told >= least:
                return True
        return False

    def repeats(self, start: int, end: int) -> bool:
        """Whether one character repeats eight times in a row."""
        place = bisect_left(self._streak_ends, start)
        return place < len(self._streaks) and max(self._streaks[place], start) <= end - _STREAK
