"""coilclaw bot check-workflows, and bot setup --actions: the workflows, held to the matrix and written."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, json_option, print_json, print_line, tell
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime

LEFT_TO_DO = """\
Left to do, as yourself (docs/github.md says more):
1. Push main: the App may not push workflows.
2. Give the App the permissions Actions and Variables: read and write.
3. Environments, on GitHub, each for the branch main alone (`--token` makes them): set the secret COILCLAW_MODEL_KEY in
   `model` and COILCLAW_APP_KEY (the App's key) in `propose`; make yourself the reviewer of `production`, if you want to
   be asked.
4. Set the variable COILCLAW_BOT_ID to the number of the App's account, if the App is to hand work in.
"""


@click.command("check-workflows", short_help="Check the workflow files of a checkout against what each job may hold.")
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False))
@json_option
def check_workflows(path: str | None, as_json: bool) -> int:
    """Check the files in .github/workflows below PATH, or of the workspace. Nothing in them is run.

    Exit code 1 when one of them could hold or start more than its row of the matrix allows.
    """
    from coilclaw.features.forge.actions.workflow_check import folder_faults

    owner_id = 0
    if path is None:
        with opened() as app:
            path, owner_id = str(app.workspace), app.config.forge.github.owner_id
    found = folder_faults(Path(path), owner_id)
    wrong = sum(bool(faults) for faults in found.values())
    if as_json:
        print_json(found)
        return int(wrong > 0)
    for name, faults in found.items():
        for fault in faults:
            print_line(f"{name}: {fault}", style="red")
    print_line(f"{counted(len(found), 'workflow')}: {f'{wrong} with faults' if wrong else 'nothing is wrong'}.")
    return int(wrong > 0)


def set_up_actions(app: "Runtime") -> int:
    """Write what is missing or differs, each through the gate; 0 when everything is in place."""
    import msgspec

    from coilclaw.features.forge.actions.packing import packed_program
    from coilclaw.features.forge.actions.run_home import SETTINGS
    from coilclaw.features.forge.actions.run_settings import run_settings
    from coilclaw.features.forge.actions.shipped import shipped_workflows
    from coilclaw.features.forge.commands_bot import carry
    from coilclaw.packets.action import ToolCall

    github = app.config.forge.github
    if app.config.forge.kind != "github" or not github.owner_id:
        raise UsageError("the bot is not connected to GitHub.", remedy="Run `coilclaw bot connect` first.")
    settings = run_settings(app.home.config_file.read_text("utf-8"))
    if app.redact(settings) != settings:
        raise UsageError("the configuration holds a secret, so it is not copied.", remedy="Name secrets by variables.")
    for path, text in {SETTINGS: settings, **shipped_workflows(github.owner_id)}.items():
        place = app.workspace / path
        if place.is_file() and not place.is_symlink() and place.read_text("utf-8", "replace") == text:
            continue
        if code := carry(app, ToolCall.of("file_write", {"path": path, "content": text}), "cli"):
            return code
    packed = packed_program()
    if not packed.stands_in(app.workspace):
        call = ToolCall.of("bot_pack", msgspec.to_builtins(packed.args))
        if code := carry(app, call, "gateway"):
            return code
    tell(LEFT_TO_DO.rstrip())
    return 0
