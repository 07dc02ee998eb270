"""Showing things: JSON when asked, a table at a terminal, plain lines in a pipe."""

import sys
from collections.abc import Sequence
from typing import TextIO

import click
import msgspec

from coilclaw.packets.text import one_line, visible


def tell(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Text for people. Whoever wrote what stands in it, nothing in it moves the cursor, hides or turns around."""
    click.echo(lettered(visible(text), sys.stderr if err else sys.stdout), err=err, nl=nl)


PLAIN = str.maketrans({
    "✓": "+", "✗": "x", "…": "~", "·": "*", "•": "*", "›": ">", "–": "-", "─": "-", "│": "|",
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
        tell(empty, err=not sys.stdout.isatty())
        return
    rows = [[one_line(cell.replace("\t", " ").replace("\n", " ")) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column, whole in zip(columns, kept_whole(rows, columns, console.width), strict=True):
        table.add_column(column, overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def kept_whole(rows: Sequence[Sequence[str]], columns: Sequence[str], width: int) -> list[bool]:
    """Which columns are never broken: ids and codes, which are copied, where the rest still has room to wrap."""
    cells = [[column, *found] for column, found in zip(columns, zip(*rows, strict=True), strict=True)]
    whole = [not any(" " in cell for cell in column[1:]) for column in cells]
    needed = sum(max(map(len, column)) if kept else 12 for column, kept in zip(cells, whole, strict=True))
    fits = needed + 2 * (len(cells) - 1) <= width
    return [kept and fits for kept in whole]


def print_result(text: str, *, success: bool) -> None:
    """What a tool gave back: on stdout if it went well; at a terminal with every control character shown."""
    shown = visible(text) if (sys.stdout if success else sys.stderr).isatty() else text
    click.echo(shown, err=not success)


def moment(stamp: str, exact: str = "minutes") -> str:
    """A stored time as people read it: by the clocks of this machine, with their offset from UTC. The one spelling."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(stamp).astimezone().isoformat(" ", exact)
    except (ValueError, OverflowError):
        return stamp


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
    import os

    if not stream.isatty():
        return text
    from coilclaw.cli.markdown import wrapped

    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    most = max((columns or 80) - 1, 19)
    return "\n".join(row for line in visible(text).split("\n") for row in wrapped([(line, "")], most, indent))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
