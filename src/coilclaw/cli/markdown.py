"""Markdown for a terminal, a line at a time: headings, lists, tables, emphasis, code. No word of it is left out."""

import re
from collections.abc import Iterator

from coilclaw.cli.highlight import Highlighter
from coilclaw.cli.screen_pages import cells

BOLD, DIM, ITALIC, CODE, END = "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[36m", "\x1b[0m"
_HEADING = re.compile(r"#{1,6} +(?=\S)")
_ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)]) +(?=\S)")
_QUOTE = re.compile(r"> ?")
_INLINE = re.compile(
    r"`([^`]+)`"
    r"|\*\*(\S(?:.*?\S)?)\*\*"
    r"|(?<![^\s(\"'])\*(\w(?:[^*]*[^\s*])?)\*(?=$|[\s,;:!?)\"']|\.(?:\s|$))"  # not in `a/*.py, *.md`
    r"|\[([^\]\[]+)\]\((https?://[^\s()]+)\)"
)
_TABLE = re.compile(r"\s*\|.*\|\s*$")
_TABLE_RULE = re.compile(r"[\s|:\-]+$")


class Markdown:
    """Turns lines of an answer into rows of a screen. It is handed visible text, and adds nothing but colours."""

    def __init__(self) -> None:
        self._fence = ""
        self._code = Highlighter("")
        self._table: list[list[str]] = []

    def line(self, line: str, columns: int) -> list[str]:
        """The rows of the next line; those of a table come when it has ended."""
        if not self._fence and _TABLE.match(line):
            self._table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            return []
        return [*self.close(columns), *self._rows(line, columns)]

    def close(self, columns: int) -> list[str]:
        """The rows of a table that was not shown yet."""
        table, self._table = self._table, []
        return list(_table_rows(table, columns)) if table else []

    def _rows(self, line: str, columns: int) -> list[str]:
        stripped = line.strip()
        if self._fence:
            if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]):
                self._fence = ""
                return []
            pieces = self._code.line(line) if self._code.known else [(line, CODE)]
            return wrapped([("  ", ""), *pieces], columns, "  ", words=False)
        if stripped.startswith(("```", "~~~")):
            self._fence = stripped[:3]
            named = stripped.strip(self._fence[0])
            self._code = Highlighter(named.split()[0] if named.split() else "")
            return [f"{DIM}  {named}{END}"[: columns + len(DIM + END)]] if named else []
        if found := _HEADING.match(line):
            return wrapped(_inline(line[found.end() :], BOLD), columns, "")
        if found := _ITEM.match(line):
            sign = found[2] if found[2][0].isdigit() else "•"
            start = f"{found[1]}{sign} "
            return wrapped([(start, ""), *_inline(line[found.end() :])], columns, " " * len(start))
        if found := _QUOTE.match(line):
            return wrapped([("│ ", DIM), *_inline(line[found.end() :])], columns, "│ ")
        return wrapped(_inline(line), columns, "")


def _inline(text: str, style: str = "") -> list[tuple[str, str]]:
    """The pieces of a line, each with its style."""
    pieces: list[tuple[str, str]] = []
    at = 0
    for found in _INLINE.finditer(text):
        code, bold, slanted, name, address = found.groups()
        pieces.append((text[at : found.start()], style))
        if code is not None:
            pieces.append((code, style + CODE))
        elif name is not None:  # where a link leads is shown, whatever it is called
            pieces += [(name, style), (f" ({address})" if name != address else "", style + DIM)]
        else:
            pieces += _inline(bold or slanted, style + (BOLD if bold else ITALIC))
        at = found.end()
    return [*pieces, (text[at:], style)]


def wrapped(pieces: list[tuple[str, str]], columns: int, indent: str, *, words: bool = True) -> list[str]:
    """Styled pieces as rows that fit, broken between words where that is possible."""
    rows: list[str] = []
    row, used, most = "", 0, max(columns, len(indent) + 2)
    for text, style in pieces:
        for word in re.findall(r" +|[^ ]+" if words else r".+", text):
            size = sum(map(cells, word))
            if used + size > most and used > len(indent) and (words or used >= most):
                rows.append(row.rstrip(" "))
                row, used = indent, len(indent)
                word = word.lstrip(" ") if words else word  # noqa: PLW2901 - a row begins with no space it broke at
            for piece in _pieces(word, most - used, most - len(indent)):
                if used + sum(map(cells, piece)) > most and used > len(indent):
                    rows.append(row)
                    row, used = indent, len(indent)
                row += f"{style}{piece}{END}" if style and piece.strip() else piece
                used += sum(map(cells, piece))
    return [*rows, row.rstrip(" ") if words else row]


def _pieces(word: str, first: int, most: int) -> Iterator[str]:
    """A word that is wider than a row, in parts that are not."""
    if sum(map(cells, word)) <= first:
        yield word
        return
    part, used, room = "", 0, first if first > 0 else most
    for character in word:
        if used + cells(character) > room and part:
            yield part
            part, used, room = "", 0, most
        part += character
        used += cells(character)
    yield part


def _table_rows(table: list[list[str]], columns: int) -> Iterator[str]:
    """Columns that stand below each other; a table that does not fit is wrapped line by line."""
    rows = [row for row in table if not all(_TABLE_RULE.match(cell) or not cell for cell in row)]
    count = max((len(row) for row in rows), default=0)
    head = BOLD if len(rows) > 1 else ""
    styled = [
        [_inline(cell, "" if number else head) for cell in (*row, *[""] * (count - len(row)))]
        for number, row in enumerate(rows)
    ]
    widths = [max(_width(row[at]) for row in styled) for at in range(count)]
    for row in styled:
        pieces: list[tuple[str, str]] = []
        for at, cell in enumerate(row):
            pieces += [*cell, ("" if at == count - 1 else " " * (widths[at] - _width(cell) + 2), "")]
        yield from wrapped(pieces, columns, "  ")


def _width(pieces: list[tuple[str, str]]) -> int:
    return sum(cells(character) for text, _ in pieces for character in text)
