"""coilclaw project."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_result, print_rows, print_wrapped, tell
from coilclaw.packets.errors import CoilclawError, UsageError

if TYPE_CHECKING:
    from coilclaw.packets.action import ToolCall
    from coilclaw.runtime import Runtime


@click.group()
def project() -> None:
    """Let the agent work in folders of your own, one project each.

    A conversation works in one folder: the workspace, or a project. `coilclaw agent` started inside a project works
    there; `--project NAME` chooses one.
    """


@project.command(short_help="Let the agent work in a folder of yours.")
@click.argument("path")
@click.option("--name", default="", help="What the project is called; otherwise its folder's name.")
@click.option("--vouch/--no-vouch", default=None, help="Whether its files count as yours. Asked for when not given.")
def add(path: str, name: str, vouch: bool | None) -> int:
    """Let the agent work in a folder of yours. Only you can: it asks like everything that governs the agent.

    Vouch for a folder whose files you or people you trust wrote. Otherwise whatever the agent reads there counts as
    untrusted content, and its AGENTS.md is not loaded.
    """
    from coilclaw.features.projects.folder import add_call, check_folder, check_name

    with opened() as app:
        if vouch is None:  # who is asked should not have to answer for a folder that cannot be one
            folder = check_folder(app, path)
            check_name(app, name, folder.path)
            vouch = _asks_to_vouch(folder.path)
        call = add_call(app, path, name, vouch=vouch)
        code = _carry(app, call)
        if code == 0 and vouch:  # links that others put there do not say what the owner should lend
            _offer_toolchains(app, path)
        return code


@project.command(short_help="Vouch for a project: its files count as yours from now on.")
@click.argument("name")
def vouch(name: str) -> int:
    """Vouch for a project: its files count as yours from now on, except those that are labelled one by one."""
    from coilclaw.cli.project_choice import project_called
    from coilclaw.features.projects.folder import vouch_call

    with opened() as app:
        return _carry(app, vouch_call(project_called(app, name)))


@project.command("list", short_help="List projects.")
@json_option
def list_all(as_json: bool) -> None:
    """List the folders the agent may work in."""
    from coilclaw.features.projects.views import view_of
    from coilclaw.store.projects import open_projects

    with opened() as app:
        found = [view_of(app.db.reader, each, app.redact) for each in open_projects(app.db.reader)]
    if as_json:
        print_json(found)
        return
    rows = [
        (each.name, each.path, "yours" if each.vouched else "untrusted", moment(each.added_at), each.fault or "yes")
        for each in found
    ]
    empty = "There are no projects: the agent works in its workspace. Add one with `coilclaw project add PATH`."
    print_rows(rows, ("project", "folder", "its files are", "since", "usable"), empty=empty)


@project.command(short_help="The agent no longer works in a folder.")
@click.argument("name")
def remove(name: str) -> int:
    """The agent no longer works in that folder. Nothing in it is changed; conversations that worked there end."""
    from coilclaw.cli.project_choice import project_called
    from coilclaw.features.projects.folder import remove_project

    with opened() as app:
        found = project_called(app, name)
        app.db.write_now(lambda tx: remove_project(tx, app.clock, found))
    tell(f"Removed {found.name}. {found.path} stays as it is.")
    return 0


def _asks_to_vouch(path: str) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "say whether the folder's files count as yours.",
            remedy="Use --vouch if you or people you trust wrote them, otherwise --no-vouch.",
        )
    print_wrapped(
        f"Do you vouch for what is in {path}? If others can put files there, say no: then they count as untrusted.",
        err=True,
    )
    return click.confirm("Do its files count as yours?", default=False, prompt_suffix=" ", err=True)


def _offer_toolchains(app: "Runtime", path: str) -> None:
    """What the folder is worked on with and boxes do not see: the owner is asked whether to lend it, or told how."""
    from coilclaw.cli.commands.config import propose
    from coilclaw.packets.settings import SettingChange
    from coilclaw.runtime.roots import lacking_in
    from coilclaw.runtime.settings import proposal
    from coilclaw.sandbox.missing_programs import KEY

    lacking = lacking_in(app, path)
    for each in lacking:
        print_wrapped(each.said)
    if lacking and sys.stdin.isatty() and sys.stderr.isatty():
        changes = tuple(SettingChange(key=KEY, op="add", value=folder) for folder in {each.folder for each in lacking})
        try:
            propose(app, proposal(app, changes), changes)
        except CoilclawError as error:  # such as one that the environment sets: the project is added all the same
            tell(str(error), err=True)


def _carry(app: "Runtime", call: "ToolCall") -> int:
    """Take a call of the owner's through the gate; where nobody can be asked, it waits."""
    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.cli.phrases import result_words, waits_for

    outcome = asyncio.run(run_tool(app, call, yes=False, source="gateway"))
    print_result(result_words(outcome.result), success=outcome.result.success)
    if outcome.pending:
        tell(waits_for(app, outcome.action), err=True)
    return exit_code(outcome)
