"""Every fault found in one pass, each with the position of its value."""

import os
import re
from collections.abc import Mapping

from coilclaw.config.tables import KeyPath
from coilclaw.packets.errors import ConfigError

MOST = 100
"""After this many faults, further ones are only counted."""


class Faults:
    """Collects problems and warnings with their positions."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.text = ""
        """The file's text, for line numbers."""
        self.variables: Mapping[KeyPath, str] = {}
        """Keys set by the environment, and their variables."""
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.strangers: dict[str, str] = {}
        """COILCLAW_ variables that set nothing, with a warning for each, unless a provider reads its key there."""
        self._hidden = 0
        self._lines: dict[str, list[int]] | None = None

    @property
    def full(self) -> bool:
        """Whether further problems are only counted."""
        return len(self.problems) >= MOST

    def add(self, place: str, sentence: str) -> None:
        """Record a problem that does not belong to a key."""
        if self.full:
            self._hidden += 1
        else:
            self.problems.append(_printable(f"{place}: {sentence}"))

    def note(self, path: KeyPath, sentence: str) -> None:
        """Record a problem with a key's value."""
        self.add("" if self.full else self.place(path), sentence)

    def warn(self, path: KeyPath, sentence: str) -> None:
        """Record something that works but is probably unintended."""
        self.warnings.append(_printable(f"{self.place(path)}: {sentence}"))

    def place(self, path: KeyPath) -> str:
        """The variable, or file, line and key, of a value."""
        if path in self.variables:
            return self.variables[path]
        key = safe_text(".".join(path))
        line = self._line(path)
        if line:
            return f"{self.file}:{line}: {key}"
        return f"{self.file}: {key}" if self.text else key

    def raise_if_any(self) -> None:
        """Raise one ConfigError with every problem."""
        if not self.problems:
            return
        more = [f"and {self._hidden} more errors"] if self._hidden else []
        raise ConfigError([*self.problems, *more], remedy="Fix these errors, then run `coilclaw config validate`.")

    def _line(self, path: KeyPath) -> int | None:
        """The line of a key, or of its table; nothing if it is uncertain."""
        if self._lines is None:
            self._lines = _line_index(self.text)
        for length in range(len(path), 0, -1):
            lines = self._lines.get(".".join(path[:length]), [])
            if lines:
                return lines[0] if len(lines) == 1 else None
        return None


def _line_index(text: str) -> dict[str, list[int]]:
    """Lines that look like they open a table or set a key. Only for positions in messages."""
    index: dict[str, list[int]] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        header = re.match(r"\s*\[\[?([^\[\]]+)\]\]?\s*(#.*)?$", line)
        key = re.match(r"\s*([^=#\[\]{},]+?)\s*=", line)
        if header:
            table = _plain(header[1])
            index.setdefault(table, []).append(number)
        elif key:
            name = _plain(key[1])
            index.setdefault(f"{table}.{name}" if table else name, []).append(number)
    return index


def _plain(key: str) -> str:
    return re.sub(r"\s*\.\s*", ".", key.strip()).replace('"', "").replace("'", "")


def safe_text(text: str) -> str:
    """Text that may be repeated in a message: short, printable, and masked where it looks like a key."""
    if re.search(r"\b(sk|pk|rk|gsk|gh[a-z]|github_pat|xox[a-z])[-_][A-Za-z0-9_-]{12,}|[A-Za-z0-9+/]{40,}", text):
        return "(hidden: it looks like a secret)"
    text = _printable(text)
    return text if len(text) <= 60 else text[:57] + "..."


def _printable(text: str) -> str:
    """Text without terminal control characters."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def display(path: os.PathLike[str]) -> str:
    """A path for a message."""
    return os.fspath(path).encode("utf-8", "backslashreplace").decode("utf-8")
