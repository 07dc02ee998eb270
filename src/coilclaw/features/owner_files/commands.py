"""coilclaw labels."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_result, print_rows, tell
from coilclaw.cli.project_choice import chosen_project
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.gate.labels import FileLabels
    from coilclaw.runtime import Runtime
    from coilclaw.store.labels import LabelRow

MOST = 200_000


@click.group()
def labels() -> None:
    """See which workspace files hold untrusted content, or vouch for one."""


@labels.command("list", short_help="List labelled files and where their content came from.")
@click.option(
    "--all", "stale_too", is_flag=True, help="Include labels that no longer apply because the file has changed."
)
@click.option("--project", "project_name", default="", help="In this project instead of the workspace.")
@json_option
def list_labels(stale_too: bool, project_name: str, as_json: bool) -> None:
    """List what is labelled, where its content came from, and since when."""
    from coilclaw.features.owner_files.vouching import place_of

    with opened() as app:
        found = _file_labels(app, project_name).standing(MOST)
    shown = [(row, where) for row, where in found if where is not None or stale_too]
    if as_json:
        print_json([_told(row, where) for row, where in shown])
        return
    rows = [(place_of(row), row.label, moment(row.created_at), _counting(row, where)) for row, where in shown]
    print_rows(rows, ("path", "label", "since", "counts"), empty="No file is labelled: everything counts as yours.")


@labels.command(short_help="Vouch for a file or folder: it counts as yours from now on.")
@click.argument("path")
@click.option("--project", "project_name", default="", help="In this project instead of the workspace.")
def forget(path: str, project_name: str) -> int:
    """Vouch for a file or folder: what it holds counts as yours from now on. Asks at a terminal.

    Copies that hold the same bytes are vouched for too. It asks like everything that governs the agent: here, or with
    your passkey in the panel once you have one.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("only the owner at an interactive terminal can vouch for a file.", remedy="Run it there.")
    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.cli.phrases import result_words, waits_for
    from coilclaw.features.owner_files.vouching import instead, vouch_call

    with opened() as app:
        project = chosen_project(app, project_name, here=False)
        call = vouch_call(app, path, "" if project is None else project.project_id)
        if call is None:
            remedy = instead(_file_labels(app, project_name), path)
            raise UsageError(f"{one_line(path)} has no label of its own.", remedy=remedy)
        outcome = asyncio.run(run_tool(app, call, yes=False, source="gateway"))
        print_result(result_words(outcome.result), success=outcome.result.success)
        if outcome.pending:
            tell(waits_for(app, outcome.action), err=True)
        return exit_code(outcome)


def _file_labels(app: "Runtime", project_name: str) -> "FileLabels":
    project = chosen_project(app, project_name, here=False)
    return app.project_root("" if project is None else project.project_id).labels


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
