"""coilclaw labels."""

import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, json_option, moment, print_json, print_rows, tell
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.gate.labels import FileLabels
    from coilclaw.runtime import Runtime
    from coilclaw.store.labels import LabelRow
    from coilclaw.store.tx import Tx

MOST = 200_000


@click.group()
def labels() -> None:
    """See which workspace files hold untrusted content, or vouch for one."""


@labels.command("list", short_help="List labelled files and where their content came from.")
@click.option(
    "--all", "stale_too", is_flag=True, help="Include labels that no longer apply because the file has changed."
)
@json_option
def list_labels(stale_too: bool, as_json: bool) -> None:
    """List what is labelled, where its content came from, and since when."""
    with opened() as app:
        found = _file_labels(app).standing(MOST)
    shown = [(row, where) for row, where in found if where is not None or stale_too]
    if as_json:
        print_json([_told(row, where) for row, where in shown])
        return
    rows = [(_place(row), row.label, moment(row.created_at), _counting(row, where)) for row, where in shown]
    print_rows(rows, ("path", "label", "since", "counts"), empty="No file is labelled: everything counts as yours.")


@labels.command(short_help="Vouch for a file or folder: it counts as yours from now on.")
@click.argument("path")
def forget(path: str) -> int:
    """Vouch for a file or folder: what it holds counts as yours from now on. Asks at a terminal.

    Copies that hold the same bytes are vouched for too. The labels go; an audit event stays.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("only the owner at an interactive terminal can vouch for a file.", remedy="Run it there.")
    with opened() as app:
        files = _file_labels(app)
        rows = files.vouched(path)
        if not rows:
            raise UsageError(f"{one_line(path)} has no label of its own.", remedy=_instead(files, path))
        for row in rows:
            tell(f"{one_line(_place(row))}  {one_line(row.label)}", err=True)
        if not click.confirm(f"Take {counted(len(rows), 'label')} away?", default=False, prompt_suffix=" ", err=True):
            tell("Nothing was changed.")
            return 4
        app.db.write_now(lambda tx: _forget(tx, app, files, rows))
    tell(f"Took {counted(len(rows), 'label')} away.")
    return 0


def _forget(tx: "Tx", app: "Runtime", files: "FileLabels", rows: "list[LabelRow]") -> None:
    from coilclaw.ledger.audit import add_event

    files.forget(tx, rows)
    for row in rows:
        payload = {"label": row.label, "content_hash": row.content_hash, "labelled_at": row.created_at}
        add_event(tx, app.clock, "label_forgotten", row.path or ".", dict(payload))


def _file_labels(app: "Runtime") -> "FileLabels":
    from coilclaw.gate.labels import FileLabels

    return FileLabels(app.db, app.workspace, app.clock)


def _instead(files: "FileLabels", path: str) -> str:
    """A file may be labelled only by the folder it lies in, or by a command that has not ended."""
    if files.labels_of(path):
        return (
            "A parent folder, a file of the same size, or an action still in progress is labelled: see `labels list`."
        )
    return "It already counts as yours; see `coilclaw labels list`."


def _place(row: "LabelRow") -> str:
    """The path, or in words what is labelled instead."""
    if row.content_hash == "held":
        return f"{row.path} (all, while this action is in progress)"
    return (row.path or ".") + ("/" if row.content_hash == "dir" and row.path else "")


def _counting(row: "LabelRow", where: str | None) -> str:
    """Whether the label counts, in words."""
    if where is None:
        return "no, it has changed"
    return "yes" if where == row.path else f"yes, at {where}"


def _told(row: "LabelRow", where: str | None) -> dict[str, object]:
    return {
        "path": row.path or ".",
        "label": row.label,
        "content_hash": row.content_hash,
        "labelled_at": row.created_at,
        "counts": where is not None,
        "counts_at": None if where is None else where or ".",
    }
