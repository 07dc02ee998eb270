"""COMMS.md: the owner's directives, the agent's reports and the watcher's own lines, each under its heading."""

from __future__ import annotations

import re

NAME = "COMMS.md"
DIRECTIVES, REPORTS, WATCHED = "Directives", "Reports", "Watcher"
LARGEST = 512 << 10
LINE = 400
DIRECTIVE_LINE = 4000
"""The owner's words are kept whole: a longer line is refused, not cut."""
LINES = 100
"""New lines of reports taken in at once."""
KEPT_REPORTS, KEPT_WATCHED = 2000, 200
KEPT_BYTES = 128 << 10
"""Of such a section: with both full, the owner has as much room again."""
HEADING = re.compile(r"##(?!#)(.*)")
MARKS = re.compile(r"^[\s>#=*+~`|_-]+")


def section(text: str, name: str) -> list[str]:
    """The lines under the first heading of that name; empty when there is none."""
    lines, start = text.split("\n"), _find(text.split("\n"), name)
    return [] if start is None else lines[start + 1 : _end(lines, start)]


def without(text: str, name: str) -> list[str]:
    """The lines that are not in that section."""
    lines = text.split("\n")
    start = _find(lines, name)
    return lines if start is None else [*lines[:start], *lines[_end(lines, start) :]]


def add(text: str, name: str, new: list[str], keep: int = 0) -> str:
    """Put lines at the end of a section, made if need be; only the newest `keep` of its items stay (0: all)."""
    lines = text.rstrip("\n").split("\n")
    start = _find(lines, name)
    if start is None:
        lines += ["", f"## {name}"]
        start = len(lines) - 1
    end = _end(lines, start)
    inside = [line.rstrip() for line in lines[start + 1 : end]]
    while inside and not inside[-1]:
        inside.pop()
    inside = (inside or [""]) + new
    items = [number for number, line in enumerate(inside) if line.startswith("- ")]
    if keep:
        inside = _newest(inside, items, keep)
    rest = lines[end:]
    return "\n".join([*lines[: start + 1], *inside, *([""] if rest else []), *rest]) + "\n"


def _newest(lines: list[str], items: list[int], keep: int) -> list[str]:
    """Without the oldest items, until no more than `keep` and `KEPT_BYTES` are left."""
    size = sum(len(lines[number].encode()) + 1 for number in items)
    gone: set[int] = set()
    for number in items:
        if len(items) - len(gone) <= keep and size <= KEPT_BYTES:
            break
        gone.add(number)
        size -= len(lines[number].encode()) + 1
    return [line for number, line in enumerate(lines) if number not in gone]


def plain(text: str, longest: int = LINE, *, links: bool = False) -> str:
    """One line of readable text: no controls or invisible characters, no markup that could pass for a heading.

    Links only if asked for: of an image, the address is fetched where the text is shown as Markdown.
    """
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * longest])
    shown = MARKS.sub("", " ".join(shown.split())).replace("<", "&lt;")
    shown = shown if links else shown.replace("](", "] (")
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def reports(text: str) -> list[str]:
    """What the agent reports, line by line, as it may stand in the owner's file."""
    return [shown for line in section(text, REPORTS) if (shown := plain(line))]


def new_reports(branch: str, theirs: str, before: str, ours: str) -> list[str]:
    """Items for main's Reports: lines the branch has now, had not before, and main does not have yet."""
    seen = set(reports(before))
    kept = set(section(ours, REPORTS))
    found: dict[str, None] = {}
    for line in reports(theirs):
        item = f"- {branch}: {line}"
        if line not in seen and item not in kept and f"- {line}" not in kept:
            found[item] = None
    items = list(found)
    if len(items) > LINES:
        items = [*items[:LINES], f"- {branch}: … and {len(items) - LINES} more lines; read them on the branch"]
    return items


def _find(lines: list[str], name: str) -> int | None:
    for number, line in enumerate(lines):
        heading = HEADING.fullmatch(line)
        if heading and heading.group(1).strip().rstrip("#").strip().casefold() == name.casefold():
            return number
    return None


def _end(lines: list[str], start: int) -> int:
    return next((n for n in range(start + 1, len(lines)) if HEADING.fullmatch(lines[n])), len(lines))
