"""Showing things: JSON when asked, a table at a terminal, plain lines in a pipe."""

import sys
from collections.abc import Sequence

import click
import msgspec


def print_json(value: object) -> None:
    """One indented JSON document."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_rows(rows: Sequence[Sequence[str]], columns: Sequence[str], *, empty: str) -> None:
    """Rows for people: aligned and coloured at a terminal, tab-separated in a pipe."""
    if not rows:
        click.echo(empty, err=not sys.stdout.isatty())
        return
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def counted(number: int, noun: str) -> str:
    """`1 receipt`, `2 receipts`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def print_line(text: str, *, style: str = "") -> None:
    """A line, coloured only at a terminal that wants colour."""
    import os

    if style and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        click.secho(text, fg=style)
    else:
        click.echo(text)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
