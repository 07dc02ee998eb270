"""Laying a text out on a screen: rows that fit its width, pages that fit its height, and no character left out."""

from collections.abc import Sequence
from typing import NamedTuple
from unicodedata import category, east_asian_width

CONTINUED = "  : "
"""How a row begins that goes on with the line above: what stands on it cannot look like a line of its own."""
TAB = 8
LEAST = (20, 4)
LONGEST_GAP = 3
"""A row ends between two words where that leaves no more than this part of it empty."""


class Screen(NamedTuple):
    """The size of a terminal."""

    columns: int
    rows: int


class Place(NamedTuple):
    """How far a text was shown: the line, and the character in it."""

    line: int
    character: int


START = Place(0, 0)


def page(lines: Sequence[str], place: Place, screen: Screen) -> tuple[list[str], Place]:
    """The rows of a text that fit on the screen above a prompt, and where the next ones begin."""
    most = screen.rows - (1 if screen.columns >= 2 * LEAST[0] else 2)  # on a narrow screen a prompt takes two rows
    return rows(lines, place, screen.columns, most)


def rows(lines: Sequence[str], place: Place, columns: int, most: int) -> tuple[list[str], Place]:
    """At most so many rows of a text, and where the next one begins."""
    found: list[str] = []
    while place.line < len(lines) and len(found) < most:
        line = lines[place.line]
        shown, end = _row(line, place.character, columns)
        found.append(shown)
        place = Place(place.line, end) if end < len(line) else Place(place.line + 1, 0)
    return found, place


def _row(line: str, start: int, columns: int) -> tuple[str, int]:
    """One row of a line, and the character the next one begins with."""
    shown = [CONTINUED] if start else []
    used = len(CONTINUED) if start else 0
    gap, room = start, 0  # after the last space, and how many cells of the row that took
    for place in range(start, len(line)):
        character = line[place]
        width = TAB - used % TAB if character == "\t" else cells(character)
        if used + width > columns and place > start:
            if start < gap < place and columns - room <= columns // LONGEST_GAP:
                del shown[gap - place :]
                return "".join(shown), gap
            return "".join(shown), place
        shown.append(" " * width if character == "\t" else character)
        used += width
        if character == " ":
            gap, room = place + 1, used
    return "".join(shown), len(line)


def cells(character: str) -> int:
    """How many cells of a terminal a visible character takes, at most.

    Terminals disagree about symbols, and know newer ones than Python does: a row that is counted too short would
    scroll others away before they were seen.
    """
    if character.isascii():
        return 1
    kind = category(character)
    if kind in ("Mn", "Me"):
        return 0
    return 2 if kind[0] in "SN" or kind == "Cn" or east_asian_width(character) in ("W", "F") else 1
