"""coilclaw bot connect, sync and accept: the bot's repository on GitHub."""

import asyncio
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, print_json, print_line, tell
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.packets.box import Probe
    from coilclaw.runtime import Runtime

STEPS = """\
Pull requests can stand on GitHub too, where you review and merge them from anywhere. Once:

1. Make a private repository for the bot alone, empty, and push main to it as yourself:
     git -C {workspace} push https://github.com/YOUR-NAME/bot.git main
2. Make a GitHub App of your own (Settings, Developer settings): no webhook; permissions Contents, Pull requests and
   Checks: read and write; nothing else. Install it on that repository alone, and make a private key.
3. Store the key, in one line:  base64 -w0 KEY.pem | coilclaw secret set BOT_KEY
4. Set in {config}, in the sections that stand there:
     [forge]
     kind = "github"
     [forge.github]
     repository = "YOUR-NAME/bot"
     owner_id = 12345            # the `id` at https://api.github.com/users/YOUR-NAME
     app_id = 123
     installation_id = 456       # the number at the end of the installation's address
     private_key_env = "BOT_KEY"
5. Run `coilclaw bot connect` again: it tries each step. docs/github.md says more.
"""


@click.command(short_help="Connect the bot's repository to GitHub, step by step.")
@json_option
def connect(as_json: bool) -> int:
    """Connect the bot's repository to GitHub: without settings the steps, with them whether each one holds.

    Exit code 1 when a step fails.
    """
    with opened() as app:
        if app.config.forge.kind != "github":
            tell(STEPS.format(workspace=app.workspace, config=app.home.config_file).rstrip())
            return 1
        from coilclaw.features.forge.github.connection import connection_probes

        found = asyncio.run(connection_probes(app))
    if as_json:
        print_json(found)
    else:
        show_steps(found)
        if all(probe.state != "fail" for probe in found):
            print_line("Connected. `coilclaw up` keeps both sides together; `coilclaw bot sync` does it now.")
    return int(any(probe.state == "fail" for probe in found))


def show_steps(found: "list[Probe]") -> None:
    """Each step, and what to do about one that failed."""
    for probe in found:
        sign, style = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}[probe.state]
        print_line(f"{sign} {probe.name}: {probe.detail}", style=style)
        if probe.state != "ok":
            print_line(f"    {probe.remedy}")


def set_up_there(app: "Runtime", *, with_token: bool, actions: bool) -> int:
    """Set up labels, protection and environments on GitHub with a token that is asked for, or say how by hand."""
    from coilclaw.cli.commands.secret import ask_value
    from coilclaw.features.forge.forge import LocalForge
    from coilclaw.features.forge.github.setting_up import by_hand, set_up

    must_be_on(app)
    mode = LocalForge(app).mode()
    if fault := asyncio.run(_brought(app)):  # once main is protected, what was just written can no longer go there
        print_line(f"! main: {fault}", style="yellow")
    if not with_token:
        tell(by_hand(app, mode).rstrip())
        return 0
    found = asyncio.run(set_up(app, ask_value("your token").strip(), mode, environments=actions))
    show_steps(found)
    print_line(f"Set up for the merge mode {mode}. The token was not kept: delete it on GitHub.")
    return int(any(probe.state == "fail" for probe in found))


@click.command(short_help="Bring the repository and GitHub together now.")
@json_option
def sync(as_json: bool) -> int:
    """Show pull requests on GitHub, and take in what you did with them there. Exit code 1 when something is wrong."""
    from coilclaw.features.forge.github.store import github_state

    with opened() as app:
        must_be_on(app)
        fault = asyncio.run(_brought(app))
        state = github_state(app.db.reader)
    if as_json:
        print_json(state)
    else:
        print_line(fault or f"Everything is in order; main is {state.main[:12]}.", style="red" if fault else "")
    return int(bool(fault))


async def _brought(app: "Runtime") -> str:
    """Bring both sides together; what is not in order."""
    from coilclaw.features.forge.github.mirror import GitHubMirror
    from coilclaw.features.forge.github.store import github_state
    from coilclaw.packets.card import nobody

    await GitHubMirror(app, app.conveyor(nobody)).sync()
    return github_state(app.db.reader).fault


@click.command(short_help="Take in a commit on main that somebody pushed to GitHub.")
@click.argument("commit")
def accept(commit: str) -> int:
    """Take in COMMIT, which stands on main on GitHub and which neither you nor the gate merged there. You see the whole
    difference and are asked."""
    from coilclaw.features.forge.commands_bot import carry
    from coilclaw.features.forge.github.accepting import ACCEPT
    from coilclaw.features.forge.github.store import github_state
    from coilclaw.packets.action import ToolCall

    with opened() as app:
        must_be_on(app)
        if github_state(app.db.reader).held != commit:
            raise UsageError("no such commit is held.", remedy="See `coilclaw bot sync`.")
        code = carry(app, ToolCall.of(ACCEPT, {"commit": commit}), "gateway")
    if code == 0:
        tell("Run `coilclaw bot sync`, or wait a minute.")
    return code


def must_be_on(app: "Runtime") -> None:
    """Refuse what needs GitHub."""
    if app.config.forge.kind != "github":
        raise UsageError("the bot is not connected to GitHub.", remedy="Run `coilclaw bot connect`.")
