"""coilclaw undo."""

import asyncio

import click

from coilclaw.cli import candidates
from coilclaw.cli.output import json_option, moment, print_json, print_result, print_rows, tell
from coilclaw.cli.session import opened
from coilclaw.cli.words import result_words


@click.command()
@click.argument("snapshot", default="", shell_complete=candidates.snapshots)
@click.option("--list", "only_list", is_flag=True, help="List the snapshots there are.")
@click.option("--dry-run", is_flag=True, help="Only say what would be brought back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def undo(snapshot: str, only_list: bool, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Bring back workspace files that are gone or changed since SNAPSHOT, or since the last one.

    A snapshot is kept before a turn's first writing command. Files made since stay. Undoing is a call like any other:
    decided, asked for, receipted; the state before it is kept too, so that it can be undone itself.
    """
    from coilclaw.cli.tool import exit_code, run_tool
    from coilclaw.gate.paths import may_restore

    with opened() as app:
        if only_list:
            kept = app.snapshots.recent(100)
            if as_json:
                print_json(kept)
            else:
                rows = [(each.id, moment(each.time, "seconds"), each.note) for each in kept]
                print_rows(rows, ("snapshot", "when", "kept"), empty="There is no snapshot yet.")
            return 0
        if dry_run:
            paths = app.snapshots.changes(snapshot, may_restore)
            print_json(paths) if as_json else tell("\n".join(paths) or "Nothing to bring back.")
            return 0
        named = app.snapshots.named(snapshot)  # a wrong id is told at once, and a yes is for this one, not for the last
        outcome = asyncio.run(run_tool(app, "undo", {"snapshot": named.id}, yes=yes))
        print_result(result_words(outcome.result), success=outcome.result.success)
        return exit_code(outcome)
