"""coilclaw airlock."""

import sys

import click
import msgspec

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import print_json, print_line, tell
from coilclaw.packets.errors import UsageError

PRINCIPALS = ("web_open", "http", "provider", "box", "forge", "webhook", "web_search", "push", "notify", "mcp", "oauth")


@click.group()
def airlock() -> None:
    """Check whether a URL may be reached, and why."""


@airlock.command()
@click.argument("url", required=False)
@click.option(
    "--for", "principal", type=click.Choice(PRINCIPALS), default="web_open", show_default=True, help="Who asks."
)
@click.option("--answers", multiple=True, metavar="HOST=IP,IP", help="Use these addresses instead of DNS; repeatable.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read one JSON row per line; print one verdict per line.")
def check(url: str | None, principal: str, answers: tuple[str, ...], from_stdin: bool) -> int:
    """Explain the verdict on a URL. Nothing is sent; with answers given, DNS is not asked either.

    Rows on stdin: {"url": ..., "for": "web_open", "answers": {"host": ["ip"]}, "chain": ["url", ...]}
    """
    from coilclaw.airlock import check_row
    from coilclaw.airlock.resolver import lookup

    if (url is None) == (not from_stdin):
        raise UsageError("give a URL or --stdin.")
    with opened() as app:
        if url is not None:
            row: dict[str, object] = {"url": url, "for": principal}
            if answers:
                row["answers"] = _answers(answers)
            verdict = check_row(msgspec.json.encode(row), app.listing, lookup)
            print_line(f"{verdict.verdict}: {verdict.code}", style="green" if verdict.verdict == "pass" else "red")
            tell(verdict.reason + (f" Address: {verdict.address}." if verdict.address else ""))
            return 0 if verdict.verdict == "pass" else 3
        for line in sys.stdin.buffer:
            if line.strip():
                print_json(check_row(line, app.listing, lookup), indent=0)
    return 0


def _answers(given: tuple[str, ...]) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for entry in given:
        host, equals, addresses = entry.partition("=")
        if not equals or not host:
            raise UsageError(f"--answers {entry!r} is not HOST=IP,IP.")
        table.setdefault(host.lower(), []).extend(part for part in addresses.split(",") if part)
    return table
