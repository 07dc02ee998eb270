"""Exact replacements in a text file: all or none, in bounded time, with helpful errors.

Pure: the gate computes with it what the owner sees, and exactly those bytes are written.
"""

import re
from collections import Counter
from collections.abc import Sequence

from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Edit

MOST_BYTES = 1 << 20
"""The maximum size of a file, before and after."""
_PLACES = 10
"""How many positions to list of a text that occurs more than once."""
_SHOWN_LINES = 12
_SHOWN_CHARACTERS = 200
_COMPARED = 400
"""How many characters of similar lines to compare one by one."""
_WORD = re.compile(r"\w+")


def apply_edits(data: bytes, edits: Sequence[Edit], name: str) -> bytes:
    """The file after all edits, each applied to the previous result; a ToolError if one does not fit."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(f"{name} is not UTF-8 text (byte {error.start} of {len(data)}).", "FILE_NOT_TEXT") from error
    whole, crlf = text, _has_crlf(text)
    for number, edit in enumerate(edits, start=1):
        old, new = _with_endings(edit.old, crlf=crlf), _with_endings(edit.new, crlf=crlf)
        which = "`old`" if len(edits) == 1 else f"`old` of edit {number}"
        count = _count(whole, old, every=edit.all)
        if count == 0:
            raise _missing(whole, old, which, name)
        if count > 1 and not edit.all:
            raise _ambiguous(whole, old, count, which, name)
        grown = len(whole) + count * (len(new) - len(old))
        if grown > MOST_BYTES:
            raise _too_large(name)
        whole = whole.replace(old, new)
    if whole == text:
        raise _refused(f"the edits leave {name} as it is.", "EDIT_NO_CHANGE", "Check that `old` and `new` differ.")
    made = whole.encode("utf-8")
    if len(made) > MOST_BYTES:
        raise _too_large(name)
    return made


def _has_crlf(text: str) -> bool:
    """Whether every line ends with CRLF."""
    return "\n" in text and text.count("\r\n") == text.count("\n")


def _with_endings(text: str, *, crlf: bool) -> str:
    """The text with its file's line ends; unchanged if those are mixed or LF."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else text


def _count(text: str, old: str, *, every: bool) -> int:
    """The number of occurrences. If one position is meant, overlapping ones count separately."""
    count = text.count(old)
    if count == 1 and not every and text.find(old, text.find(old) + 1) >= 0:
        return 2
    return count


def _ambiguous(text: str, old: str, count: int, which: str, name: str) -> ToolError:
    lines: list[int] = []
    line, counted, place = 1, 0, text.find(old)
    while place >= 0 and len(lines) < _PLACES:
        line, counted = line + text.count("\n", counted, place), place
        lines.append(line)
        place = text.find(old, place + 1)
    more = ", …" if count > len(lines) else ""
    return _refused(
        f"{which} occurs {count} times in {name}, starting in lines {', '.join(map(str, lines))}{more};"
        " nothing was changed.",
        "EDIT_AMBIGUOUS",
        "Add lines around it so that it occurs once, or set `all` to replace every one.",
    )


def _missing(text: str, old: str, which: str, name: str) -> ToolError:
    lines = text.split("\n")
    near = _nearest(lines, old)
    shown = " Nothing in the file is similar."
    if near:
        there = "".join("".join(lines[slice(*near)]).split())
        how = "Only white space differs from" if there == "".join(old.split()) else "The nearest lines are"
        shown = f" {how}:\n{_numbered(lines, *near)}\n"
    return _refused(
        f"{which} does not occur in {name}; nothing was changed.{shown}",
        "EDIT_NO_MATCH",
        "`old` must match exactly, including white space, without line numbers.",
    )


def _nearest(lines: list[str], old: str) -> tuple[int, int] | None:
    """The range of lines that shares the most words with a text; rare words weigh more, and likeness decides.

    One pass over the file and a closer look at few lines, so that a hostile file or text cannot make it slow.
    """
    words = [_WORD.findall(line) for line in lines]
    wanted = set(_WORD.findall(old))
    known = Counter(word for line in words for word in set(line) if word in wanted)
    scores = [sum(1 / known[word] for word in set(line) if word in known) for line in words]
    span = min(len(old.split("\n")), len(lines), _SHOWN_LINES)
    best, starts, score = 0.0, list[int](), sum(scores[:span])
    for start in range(len(lines) - span + 1):
        if start:
            score += scores[start + span - 1] - scores[start - 1]
        if score > best + 1e-9:
            best, starts = score, [start]
        elif best > 0 and score > best - 1e-9 and len(starts) < _PLACES:
            starts.append(start)
    if not starts:
        return None
    first = starts[0] if len(starts) == 1 else max(starts, key=lambda at: _alike(lines[at : at + span], old))
    return first, first + span


def _alike(lines: list[str], old: str) -> float:
    from difflib import SequenceMatcher

    there = "\n".join(line.strip()[:_SHOWN_CHARACTERS] for line in lines)
    wanted = "\n".join(line.strip()[:_SHOWN_CHARACTERS] for line in old.split("\n")[: len(lines)])
    return SequenceMatcher(None, there[:_COMPARED], wanted[:_COMPARED]).ratio()


def _numbered(lines: list[str], first: int, end: int) -> str:
    """The lines with one line of context, numbered."""
    first, end = max(first - 1, 0), min(end + 1, len(lines))
    return "\n".join(f"{number + 1:>6}\t{_short(lines[number])}" for number in range(first, end))


def _short(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


def _too_large(name: str) -> ToolError:
    return _refused(f"{name} would be larger than {MOST_BYTES} bytes; nothing was changed.", "FILE_TOO_LARGE")


def _refused(text: str, code: str, remedy: str = "") -> ToolError:
    return ToolError(text, remedy=remedy, code=code, begun=False)
