"""A search in workspace files and its results."""

import msgspec

from coilclaw.packets.action import Label


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for, below one granted path."""

    path: str
    """As granted."""
    pattern: str
    """A regular expression for single lines; empty to search only names."""
    glob: str
    """Which files, in .gitignore syntax; empty for all."""
    ignore_case: bool
    files_only: bool
    """Stop at the first match in each file."""
    ignored: bool
    """Include ignored files."""
    context: int
    matches: int
    seconds: float


class SearchLine(msgspec.Struct, frozen=True, array_like=True):
    """One line of a file."""

    number: int
    matches: bool
    text: str


class SearchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with a match, or with a matching name."""

    path: str
    sha256: str
    """Of the searched content; empty if only names were searched."""
    size: int
    lines: tuple[SearchLine, ...]


class SearchFound(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found before it ended."""

    files: tuple[SearchedFile, ...]
    notes: tuple[str, ...]
    """Why there may be more: a limit, or skipped files."""
    looked_at: int
    hid: bool
    """Whether hidden files were passed over, or may have been."""
    labels: tuple[Label, ...] = ()
    """The untrusted sources of the results, names included."""
