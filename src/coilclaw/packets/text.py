"""Text for people: nothing in it may hide or move anything else."""

import re
from unicodedata import category

MOST_MARKS = 3
"""Maximum accents per letter; few scripts need more."""

_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that count as printable but are invisible."""


# By runs: a command that writes only control characters must not keep the display busy.
_CONTROLS_OR_BREAKS = re.compile(r"[^ -~]+")
_CONTROLS = re.compile(r"[^ -~\n\t]+")
_NUMBERS = {number: f"⟨U+{number:04X}⟩" for number in (*range(32), 127)}


def _shows(character: str) -> bool:
    """Whether the character is visible. Variation selectors are not."""
    if character < "\u0300":
        return character.isprintable()
    hidden = character in _BLANK or "\ufe00" <= character <= "\ufe0f" or "\U000e0000" <= character <= "\U000e0fff"
    return character.isprintable() and not hidden


def visible(text: str, *, lines: bool = True) -> str:
    """Make every character visible that could hide or reorder others: controls, bidi marks, zero-width ones.

    Line breaks and tabs stay in multi-line text and are made visible in a single line. A letter
    keeps its accents; combining marks that cover it or pile up are shown by number.
    """
    kept = "\n\t" if lines else ""
    if text.isascii():
        return (_CONTROLS if lines else _CONTROLS_OR_BREAKS).sub(lambda found: found[0].translate(_NUMBERS), text)
    shown: list[str] = []
    marks = 0
    for c in text:
        marks = marks + 1 if c >= "\u0300" and category(c) in ("Mn", "Me") else 0
        plain = _shows(c) and marks <= MOST_MARKS and not _covers(c)
        shown.append(c if plain or c in kept else f"⟨U+{ord(c):04X}⟩")
    return "".join(shown)


def _covers(character: str) -> bool:
    """Whether a combining mark covers its letter."""
    return "\u0334" <= character <= "\u0338" or "\u0488" <= character <= "\u0489" or "\u20d0" <= character <= "\u20f0"


def duration(seconds: int) -> str:
    """A span of time in words: `45 seconds`, `30 minutes`, `2 minutes and 5 seconds`."""
    minutes, rest = divmod(seconds, 60)
    parts = [f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in ((minutes, "minute"), (rest, "second"))]
    return " and ".join(part for part in parts if not part.startswith("0 ")) or "0 seconds"


def one_line(text: str) -> str:
    """The text as a single line."""
    return visible(text, lines=False)


def moment(stamp: str, exact: str = "minutes") -> str:
    """A stored time as people read it: by the clocks of this machine, with their offset from UTC. The one spelling."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(stamp).astimezone().isoformat(" ", exact)
    except (ValueError, OverflowError):
        return stamp
