"""Text that people see: nothing in it may hide or move anything else."""


def visible(text: str, *, lines: bool = True) -> str:
    """Text with every character shown that could hide or reorder others: controls, bidi marks, zero-width ones.

    Line breaks and tabs stay where a text may have lines, and are shown too where it must be a single line.
    """
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else f"⟨U+{ord(c):04X}⟩" for c in text)


def one_line(text: str) -> str:
    """The text as a single line."""
    return visible(text, lines=False)
