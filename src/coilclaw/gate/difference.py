"""The difference of two texts by lines, in bounded work: the author of a text must not decide how long comparing takes.

Lines that stand once in each text hold the comparison together; only what lies between them is compared closely, and
only while there is work left to spend. After that a piece is shown as old lines out and new ones in, which is as true.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

MOST_WORK = 2_000_000
AROUND = 3


class Match(NamedTuple):
    """`size` lines that are the same, from `before` in one text and from `after` in the other."""

    before: int
    after: int
    size: int


class Lines(NamedTuple):
    """A piece of both texts."""

    before: Sequence[str]
    after: Sequence[str]


class Comparison(SequenceMatcher[str]):
    """Two texts whose matches are found in bounded work; the rest is as the library does it."""

    def __init__(self, before: Sequence[str], after: Sequence[str], *, work: int = MOST_WORK) -> None:
        super().__init__(None, (), (), autojunk=False)  # it would index both texts, for a search that is not its own
        self._lines = Lines(before, after)
        self.work = work
        """What may still be spent; at the end, what was left."""

    def get_matching_blocks(self) -> list[Match]:  # pyright: ignore[reportIncompatibleMethodOverride]  # its own type of tuple
        """Every match in order, and an empty one at the end."""
        found: list[Match] = []
        for match in (*self._found(), Match(len(self._lines.before), len(self._lines.after), 0)):
            last = found[-1] if found else Match(0, 0, 0)
            if (
                found
                and match.size
                and (match.before, match.after) == (last.before + last.size, last.after + last.size)
            ):
                found[-1] = last._replace(size=last.size + match.size)
            else:
                found.append(match)
        return found

    def _found(self) -> Iterator[Match]:
        before, after = self._lines
        at = Match(0, 0, 0)
        for anchor in (*_anchors(before, after), Match(len(before), len(after), 0)):
            piece = Lines(before[at.before : anchor.before], after[at.after : anchor.after])
            for match in self._between(piece):
                yield Match(at.before + match.before, at.after + match.after, match.size)
            if anchor.size:
                yield anchor
            at = Match(anchor.before + 1, anchor.after + 1, 0)

    def _between(self, piece: Lines) -> Iterator[Match]:
        head = _same(piece.before, piece.after)
        before, after = piece.before[head:], piece.after[head:]
        tail = _same(before[::-1], after[::-1])
        before, after = before[: len(before) - tail], after[: len(after) - tail]
        if head:
            yield Match(0, 0, head)
        cost = _cost(before, after)
        if 0 < cost <= self.work:
            self.work -= cost
            for start, other, size in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
                if size:
                    yield Match(head + start, head + other, size)
        if tail:
            yield Match(head + len(before), head + len(after), tail)


def unified(before: Sequence[str], after: Sequence[str], *, old: str, new: str, around: int = AROUND) -> Iterator[str]:
    """The unified diff: headers, then every line with its mark; empty if the texts are equal."""
    named = False
    for group in Comparison(before, after).get_grouped_opcodes(around):
        if not named:
            yield from (f"--- {old}\n", f"+++ {new}\n")
            named = True
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@\n"
        for kind, start, end, start_after, end_after in group:
            if kind == "equal":
                yield from (f" {line}" for line in before[start:end])
                continue
            yield from (f"-{line}" for line in before[start:end])
            yield from (f"+{line}" for line in after[start_after:end_after])


def _anchors(before: Sequence[str], after: Sequence[str]) -> list[Match]:
    """Lines that stand once in each text, as many as come in the same order in both."""
    once = {line for line, count in Counter(before).items() if count == 1}
    once &= {line for line, count in Counter(after).items() if count == 1}
    places = {line: place for place, line in enumerate(after) if line in once}
    ends: list[int] = []
    chains: list[tuple[Match, int]] = []
    tops: list[int] = []
    for place, line in enumerate(before):
        if line not in once:
            continue
        pile = bisect_left(ends, places[line])
        chains.append((Match(place, places[line], 1), tops[pile - 1] if pile else -1))
        ends[pile : pile + 1] = [places[line]]
        tops[pile : pile + 1] = [len(chains) - 1]
    found: list[Match] = []
    at = tops[-1] if tops else -1
    while at >= 0:
        match, at = chains[at]
        found.append(match)
    return found[::-1]


def _same(before: Sequence[str], after: Sequence[str]) -> int:
    """How many lines are the same from the beginning."""
    for place, (one, other) in enumerate(zip(before, after, strict=False)):
        if one != other:
            return place
    return min(len(before), len(after))


def _cost(before: Sequence[str], after: Sequence[str]) -> int:
    """The most that comparing could take: a search looks at every pair of equal lines, and each match is a search."""
    counted = Counter(after)
    pairs = sum(counted[line] for line in before)
    return pairs * min(len(before), len(after))


def _span(start: int, end: int) -> str:
    """Where a group stands, as the format has it: line and number of lines, an empty one at the line before it."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
