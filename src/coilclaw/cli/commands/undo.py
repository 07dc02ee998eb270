"""coilclaw undo."""

import asyncio
from typing import TYPE_CHECKING

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, json_option, moment, print_json, print_result, print_rows, tell
from coilclaw.cli.phrases import result_words
from coilclaw.cli.project_choice import chosen_project

if TYPE_CHECKING:
    from coilclaw.gate.root import Root


@click.command()
@click.argument("snapshot", default="", shell_complete=completion.snapshots)
@click.option("--list", "only_list", is_flag=True, help="List what can be undone, newest first.")
@click.option("--dry-run", is_flag=True, help="Only print what would be restored or removed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--path", "paths", multiple=True, help="Take back this file only; may be repeated.")
@click.option("--project", "project_name", default="", help="Undo in this project instead of the workspace.")
@json_option
def undo(
    snapshot: str, only_list: bool, dry_run: bool, yes: bool, paths: tuple[str, ...], project_name: str, as_json: bool
) -> int:
    """Take back what the last turn wrote in the workspace or a project, or everything written since SNAPSHOT.

    Before anything is written, what it replaces is kept: all of the workspace before a command, single files before
    a file tool. Files that are gone or changed come back, and files that were made are removed. What somebody else
    changed since is named on the card. SYSTEM.md, policies and what else governs the agent come back by name
    (--path), or when nothing else was changed, and need the owner's proof. Undoing is a call like any other:
    decided, asked for, receipted; what it changes is kept too, so that undoing again takes it back.
    """
    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.packets.action import ToolCall
    from coilclaw.packets.touches import Restore

    with opened() as app:
        project = chosen_project(app, project_name, here=False)
        project_id = "" if project is None else project.project_id
        root = app.project_root(project_id)
        if only_list:
            return _list(root, as_json=as_json)
        if dry_run:
            return _tell_changes(root, snapshot, paths, as_json=as_json)
        # A wrong id is told at once, and a yes is for this one, not for the last.
        named = root.snapshots.named(snapshot)
        wanted = Restore(snapshot=named.id, paths=paths) if paths else root.undoing.wanted(named.id)
        call = ToolCall.of("undo", wanted.args())
        outcome = asyncio.run(run_tool(app, call, yes=yes, project_id=project_id))
        print_result(result_words(outcome.result), success=outcome.result.success)
        return exit_code(outcome)


def _list(root: "Root", *, as_json: bool) -> int:
    kept = root.snapshots.recent(1000)
    if as_json:
        print_json(kept)
        return 0
    rows = [
        (each.id, moment(each.time, "seconds"), "?" if each.files is None else str(each.files), each.note)
        for each in kept
    ]
    print_rows(rows, ("snapshot", "when", "files", "before"), empty="There are no snapshots yet.")
    if kept:
        room = root.snapshots.bytes() / (1 << 20)
        tell(f"Undo keeps {counted(len(kept), 'snapshot')} in {room:.1f} MB; the oldest are deleted first.")
    if fault := root.snapshots.fault(None):
        tell(f"Commands cannot be undone now: {fault}")
    return 0


def _tell_changes(root: "Root", snapshot: str, paths: tuple[str, ...], *, as_json: bool) -> int:
    from coilclaw.gate.undoing import in_words
    from coilclaw.packets.touches import Restore

    named = root.snapshots.named(snapshot)  # a wrong id is told
    wanted = Restore(snapshot=named.id, paths=paths) if paths else root.undoing.wanted(named.id)
    plan = root.undoing.plan(wanted, tainted=False) or root.snapshots.plan(named.id, root.places.may_restore)
    if as_json:
        print_json(list(plan.paths))
        return 0
    labels = root.undoing.labels_of(plan)
    lines = [
        f"{each.path}{'' if each.entry is not None else ' (created since; would be removed)'}"
        f"{' (changed by somebody else since)' if each.since else ''}{in_words(labels.get(each.path, ()))}"
        for each in plan.changes
    ]
    lines += [f"{path} (changed too, but undo does not restore it)" for path in plan.left_out]
    lines += [f"{path} (changed too; it governs the agent, so name it with --path)" for path in plan.governing]
    tell("\n".join(lines) or "Nothing to restore.")
    return 0
