"""Showing things: JSON when asked, a table at a terminal, plain lines in a pipe."""

import re
import sys
from collections.abc import Sequence
from typing import TextIO

import click
import msgspec

from coilclaw.packets.text import moment as moment  # noqa: PLC0414 - the gate tells it too
from coilclaw.packets.text import one_line, visible


def tell(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Text for people. Whoever wrote what stands in it, nothing in it moves the cursor, hides or turns around."""
    click.echo(lettered(visible(text), sys.stderr if err else sys.stdout), err=err, nl=nl)


PLAIN = str.maketrans({
    "✓": "+", "✗": "x", "…": "~", "·": "*", "▸": ">", "•": "*", "›": ">", "–": "-", "─": "-", "│": "|",
    "“": '"', "”": '"', "’": "'",
})  # fmt: skip
"""Signs as a terminal without them shows them."""


def knows_signs(stream: TextIO) -> bool:
    """Whether more than plain letters can be shown there."""
    return (stream.encoding or "").lower().startswith("utf")


def lettered(text: str, stream: TextIO) -> str:
    """A text in the letters a terminal has, others by their numbers; elsewhere, as it is."""
    if knows_signs(stream) or not stream.isatty():
        return text
    encoding = stream.encoding or "ascii"
    return text.translate(PLAIN).encode(encoding, "backslashreplace").decode(encoding)


def print_json(value: object, *, indent: int = 2) -> None:
    """A JSON document; on one line where `indent` is 0."""
    data = msgspec.json.encode(value)
    text = (msgspec.json.format(data, indent=indent) if indent else data).decode()
    plain = text.isascii() and "\x7f" not in text  # JSON has escaped every other control character
    click.echo(text if plain or visible(text) == text else "".join(map(_escaped, text)))


def _escaped(character: str) -> str:
    """What leaves no trace on a screen, as an escape, which means the same in JSON."""
    if visible(character) == character:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


def print_rows(rows: Sequence[Sequence[str]], columns: Sequence[str], *, empty: str) -> None:
    """Rows for people: aligned and coloured at a terminal, tab-separated in a pipe."""
    if not rows:
        print_wrapped(empty, err=not sys.stdout.isatty())
        return
    rows = [[one_line(cell.replace("\t", " ").replace("\n", " ")) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=_columns(sys.stdout))
    if not fits(rows, columns, console.width):
        _print_records(rows, columns)
        return
    table = Table(box=None, header_style="bold" if colours(sys.stdout) else "", pad_edge=False)
    for column, cells in zip(columns, _by_column(rows, columns), strict=True):
        table.add_column(column, overflow="fold", no_wrap=_is_whole(cells))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


_MOMENT = re.compile(r"[\d-]{10} [\d:.+-]{5,}")
_NARROW, _LONG_ID = 12, 40
"""Characters that a column of words has at least, where it needs them, and the most that an id has."""


def fits(rows: Sequence[Sequence[str]], columns: Sequence[str], width: int) -> bool:
    """Whether a table has room: ids, codes and times stay in one piece, and words have where to wrap."""
    least = sum(
        most if _is_whole(cells) else min(most, _NARROW)
        for cells in _by_column(rows, columns)
        for most in [max(map(len, cells))]
    )
    return least + 2 * (len(columns) - 1) <= width


def _by_column(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> list[list[str]]:
    return [[column, *cells] for column, cells in zip(columns, zip(*rows, strict=True), strict=True)]


def _is_whole(cells: Sequence[str]) -> bool:
    return not any((" " in cell and not _MOMENT.fullmatch(cell)) or len(cell) > _LONG_ID for cell in cells[1:])


def _print_records(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> None:
    """Rows of a table that the terminal is too narrow for: each by itself, with its columns named below it."""
    named = 1 if columns[0] else 2  # a number alone says nothing
    for row in rows:
        print_wrapped("  ".join(row[:named]))
        rest = [f"{name} {cell}" for name, cell in zip(columns[named:], row[named:], strict=True) if cell]
        if rest:
            print_wrapped(f"  {', '.join(rest)}", indent="  ")


def print_result(text: str, *, success: bool) -> None:
    """What a tool gave back: on stdout if it went well; at a terminal with every control character shown."""
    shown = visible(text) if (sys.stdout if success else sys.stderr).isatty() else text
    click.echo(shown, err=not success)


def counted(number: int, noun: str) -> str:
    """`1 receipt`, `2 receipts`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def colours(stream: TextIO) -> bool:
    """Whether colours and moving lines are welcome there: a terminal that can show them, and an owner who lets it."""
    import os

    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("", "dumb")


def print_line(text: str, *, style: str = "", err: bool = False) -> None:
    """A line, coloured only at a terminal that wants colour."""
    if style and colours(sys.stderr if err else sys.stdout):
        click.secho(lettered(visible(text), sys.stderr if err else sys.stdout), fg=style, err=err)
    else:
        tell(text, err=err)


def print_wrapped(text: str, *, style: str = "", err: bool = False, indent: str = "") -> None:
    """Lines that are broken between words where the terminal is narrow; elsewhere, as they are."""
    print_line(broken_between_words(text, sys.stderr if err else sys.stdout, indent), style=style, err=err)


def broken_between_words(text: str, stream: TextIO, indent: str = "") -> str:
    """A text for people, each line as rows that fit the terminal; the same text where there is none."""
    if not stream.isatty():
        return text
    from coilclaw.cli.markdown import wrapped

    most = max(_columns(stream) - 1, 19)
    return "\n".join(row for line in visible(text).split("\n") for row in wrapped([(line, "")], most, indent))


def _columns(stream: TextIO) -> int:
    import os

    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
