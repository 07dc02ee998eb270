"""coilclaw docs."""

import sys
from pathlib import Path

import click

from coilclaw.cli.output import colours, print_rows, tell
from coilclaw.packets.errors import UsageError


@click.command(short_help="Read the manual here, page by page.")
@click.argument("page", required=False, default="")
def docs(page: str) -> None:
    """Read a page of the manual: `coilclaw docs policy`. Without PAGE, list them.

    A page may be named as messages name it, such as docs/policy.md or SECURITY.md.
    """
    pages = _pages()
    if not page:
        rows = [(name, _title(path)) for name, path in sorted(pages.items())]
        print_rows(rows, ("page", "about"), empty="This installation has no manual.")
        return
    name = page.removeprefix("docs/").removesuffix(".md").lower()
    if name not in pages:
        from coilclaw.packets.names import did_you_mean

        raise UsageError(f"there is no page {page!r}.", remedy=did_you_mean(name, list(pages)))
    text = pages[name].read_text("utf-8")
    if colours(sys.stdout):
        click.echo_via_pager(_rendered(text), color=True)
    else:
        tell(text.rstrip("\n"))


def _pages() -> dict[str, Path]:
    """Every page by its name: beside the program in a wheel, in its own folder in a checkout."""
    package = Path(__file__).parents[2]
    folder = package / "docs"
    places = [folder] if folder.is_dir() else [package.parents[1] / "docs", package.parents[1]]
    found = [path for place in places for path in place.glob("*.md")]
    return {path.stem.lower(): path for path in found if path.stem not in ("README", "CONTRIBUTING", "CHANGELOG")}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next((line.lstrip("# ").strip() for line in lines if line.startswith("#")), "")


def _rendered(text: str) -> str:
    import shutil

    from coilclaw.cli.markdown import Markdown

    columns = min(shutil.get_terminal_size().columns, 120)
    shown = Markdown()
    rows = [row for line in text.splitlines() for row in shown.line(line, columns)]
    return "\n".join([*rows, *shown.close(columns), ""])
