"""Path patterns in .gitignore syntax. Standard library only: a search uses them in its own process.

Every match takes a number of steps bounded by the lengths of pattern and path: no regular
expression is built from a pattern.
"""

from collections.abc import Iterable, Sequence

MOST_RULES = 2000
"""Maximum rules of one ignore file."""
LONGEST_RULE = 500
MOST_SPELLINGS = 64
"""Maximum alternatives of a pattern with braces."""


class Segment:
    """A pattern for one name: `*`, `?`, `[a-z]`, `\\` before a literal character."""

    __slots__ = ("_suffix", "_tokens", "_whole")

    def __init__(self, pattern: str) -> None:
        self._tokens = _tokens(pattern)
        plain = not any(mark in pattern for mark in "*?[\\")
        self._whole = pattern if plain else None
        rest = pattern[1:]
        self._suffix = rest if pattern[:1] == "*" and rest and not any(mark in rest for mark in "*?[\\") else None

    def matches(self, name: str) -> bool:
        """Whether a name matches."""
        if self._whole is not None:
            return name == self._whole
        if self._suffix is not None:
            return name.endswith(self._suffix)
        return _fits(self._tokens, name)


def _fits(tokens: Sequence[str | None], name: str) -> bool:
    """A star matches as little as possible, and more only if the rest does not match: at most a product of steps."""
    at = place = 0
    star, after = -1, 0
    while place < len(name):
        token = tokens[at] if at < len(tokens) else ""
        if token is None:
            star, after = at, place
            at += 1
        elif token and _is_meant(token, name[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            after += 1
            at, place = star + 1, after
        else:
            return False
    return all(token is None for token in tokens[at:])


def _tokens(pattern: str) -> list[str | None]:
    """None for a star; else the matching characters, after a mark: `=x`, `?`, `[abc` or `!abc` with ranges as three."""
    tokens: list[str | None] = []
    place = 0
    while place < len(pattern):
        mark = pattern[place]
        place += 1
        if mark == "*":
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        elif mark == "?":
            tokens.append("?")
        elif mark == "\\" and place < len(pattern):
            tokens.append(f"={pattern[place]}")
            place += 1
        elif mark == "[" and (end := pattern.find("]", place + (pattern[place : place + 1] in ("!", "^")) + 1)) > 0:
            inside = pattern[place:end]
            negated = inside[:1] in ("!", "^")
            tokens.append(("!" if negated else "[") + inside[negated:])
            place = end + 1
        else:
            tokens.append(f"={mark}")
    return tokens


def _is_meant(token: str, character: str) -> bool:
    mark, inside = token[0], token[1:]
    if mark == "=":
        return character == inside
    if mark == "?":
        return True
    found = place = 0
    while place < len(inside) and not found:
        if inside[place + 1 : place + 2] == "-" and place + 2 < len(inside):
            found = inside[place] <= character <= inside[place + 2]
            place += 3
        else:
            found = inside[place] == character
            place += 1
    return bool(found) != (mark == "!")


class PathPattern:
    """One rule: a pattern for paths below the folder of its file."""

    __slots__ = ("_anywhere", "_segments", "folders_only", "negated")

    def __init__(self, rule: str) -> None:
        self.negated = rule.startswith("!")
        rule = rule[1:] if self.negated else rule
        if rule[:2] in ("\\#", "\\!"):
            rule = rule[1:]
        self.folders_only = rule.endswith("/")
        rule = rule.rstrip("/")
        self._anywhere = "/" not in rule
        parts = rule.removeprefix("/").split("/")
        self._segments: list[Segment | None] = [None if part == "**" else Segment(part) for part in parts]

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path, relative to the rule's folder, matches."""
        if self.folders_only and not is_folder:
            return False
        names = path.split("/")
        if self._anywhere:
            only = self._segments[0]
            return only is None or only.matches(names[-1])
        return self._fits(names)

    def _fits(self, names: list[str]) -> bool:
        segments = self._segments
        if segments[-1] is None and len(names) < 2 and len(segments) > 1 and segments[0] is not None:
            return False  # the folder's content, not the folder itself
        at = place = 0
        star, after = -1, 0
        while place < len(names):
            segment = segments[at] if at < len(segments) else False
            if segment is None:
                star, after = at, place
                at += 1
            elif segment and segment.matches(names[place]):
                at, place = at + 1, place + 1
            elif star >= 0:
                after += 1
                at, place = star + 1, after
            else:
                return False
        return all(segment is None for segment in segments[at:]) and not (
            segments[-1] is None and star < len(segments) - 1
        )


class IgnoreRules:
    """The rules of one ignore file."""

    def __init__(self, text: str) -> None:
        lines = (line.removesuffix("\r") for line in text.split("\n"))
        self._patterns = [PathPattern(line) for line in _meant(lines)][-MOST_RULES:]

    def says(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether a path below its folder is ignored; None if no rule matches. The last match decides."""
        for pattern in reversed(self._patterns):
            if pattern.matches(path, is_folder=is_folder):
                return not pattern.negated
        return None


def _meant(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        rule = line.rstrip(" ")
        if rule.endswith("\\") and len(rule) < len(line):
            rule += " "
        if rule.strip("/!") and not rule.startswith("#") and len(rule) <= LONGEST_RULE:
            yield rule


class Glob:
    """A search pattern, expanded where braces contain alternatives."""

    def __init__(self, pattern: str) -> None:
        self._patterns = [PathPattern(spelling) for spelling in spellings(pattern.removeprefix("./"))]

    def matches(self, path: str) -> bool:
        """Whether a file matches, by its path relative to the searched folder."""
        return any(pattern.matches(path, is_folder=False) for pattern in self._patterns)


def spellings(pattern: str) -> list[str]:
    """`*.{ts,tsx}` as `*.ts` and `*.tsx`."""
    done: list[str] = []
    left = [pattern]
    while left and len(done) + len(left) <= MOST_SPELLINGS:
        text = left.pop(0)
        close = text.find("}")
        start = text.rfind("{", 0, close) if close >= 0 else -1
        if start < 0:
            done.append(text)
            continue
        left += [f"{text[:start]}{each}{text[close + 1 :]}" for each in text[start + 1 : close].split(",")]
    return done + left
