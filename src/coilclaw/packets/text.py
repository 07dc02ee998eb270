"""Text that people see: nothing in it may hide or move anything else."""

import re
from unicodedata import category

MOST_MARKS = 3
"""Accents on one letter; scripts that need more than one rarely need more than this."""

_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that count as printable and show nothing."""


_CONTROL_OR_BREAK = re.compile(r"[^ -~]")
_CONTROL = re.compile(r"[^ -~\n\t]")


def _shows(character: str) -> bool:
    """Whether the character leaves something to see. Variation selectors do not."""
    if character < "\u0300":
        return character.isprintable()
    hidden = character in _BLANK or "\ufe00" <= character <= "\ufe0f" or "\U000e0000" <= character <= "\U000e0fff"
    return character.isprintable() and not hidden


def visible(text: str, *, lines: bool = True) -> str:
    """Text with every character shown that could hide or reorder others: controls, bidi marks, zero-width ones.

    Line breaks and tabs stay where a text may have lines, and are shown too where it must be a single line. A letter
    keeps its accents; marks that cover or pile up are shown by number.
    """
    kept = "\n\t" if lines else ""
    if text.isascii():
        return (_CONTROL if lines else _CONTROL_OR_BREAK).sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)
    shown: list[str] = []
    marks = 0
    for c in text:
        marks = marks + 1 if c >= "\u0300" and category(c) in ("Mn", "Me") else 0
        plain = _shows(c) and marks <= MOST_MARKS and not _covers(c)
        shown.append(c if plain or c in kept else f"⟨U+{ord(c):04X}⟩")
    return "".join(shown)


def _covers(character: str) -> bool:
    """Whether a combining mark lies over its letter, not beside it."""
    return "\u0334" <= character <= "\u0338" or "\u0488" <= character <= "\u0489" or "\u20d0" <= character <= "\u20f0"


def one_line(text: str) -> str:
    """The text as a single line."""
    return visible(text, lines=False)
