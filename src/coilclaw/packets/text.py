"""Text that people see: nothing in it may hide or move anything else."""

_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that count as printable and show nothing."""


def _shows(character: str) -> bool:
    """Whether the character leaves something to see. Variation selectors do not."""
    if character < "\u0300":
        return character.isprintable()
    hidden = character in _BLANK or "\ufe00" <= character <= "\ufe0f" or "\U000e0000" <= character <= "\U000e0fff"
    return character.isprintable() and not hidden


def visible(text: str, *, lines: bool = True) -> str:
    """Text with every character shown that could hide or reorder others: controls, bidi marks, zero-width ones.

    Line breaks and tabs stay where a text may have lines, and are shown too where it must be a single line.
    """
    kept = "\n\t" if lines else ""
    return "".join(c if _shows(c) or c in kept else f"⟨U+{ord(c):04X}⟩" for c in text)


def one_line(text: str) -> str:
    """The text as a single line."""
    return visible(text, lines=False)
