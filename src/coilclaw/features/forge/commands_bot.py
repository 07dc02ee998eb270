"""coilclaw bot and coilclaw intel."""

import asyncio
import re
import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, json_option, moment, print_json, print_line, print_result, print_rows, tell
from coilclaw.cli.yolo_warning import warn_of_yolo
from coilclaw.features.forge.commands_actions import check_workflows, set_up_actions
from coilclaw.features.forge.commands_github import accept, connect, must_be_on, set_up_there, sync
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.features.forge.forge import LocalForge
    from coilclaw.features.forge.views import GitHubView
    from coilclaw.packets.action import Source, ToolCall
    from coilclaw.runtime import Runtime

MODES = ("strict", "whitelist", "yolo")
LONGEST = "24h"


@click.group()
def bot() -> None:
    """The bot's repository: its state, its history, and what merges by itself.

    The workspace is a git repository with the files of its branch main. Pull requests and your own edits change it.
    """


@bot.command(short_help="Show how the repository stands and what merges by itself.")
@json_option
def status(as_json: bool) -> int:
    """Show how the bot's repository stands and what merges by itself. Exit code 1 when pull requests cannot work."""
    from coilclaw.features.forge.views import bot_view

    with opened() as app:
        view = bot_view(app, _forge(app), app.redact)
        warn_of_yolo(app)
    if as_json:
        print_json(view)
        return 1 if view.fault else 0
    state = view.fault or ("ready" if view.enabled else "off: jobs write the workspace (forge.enabled = false)")
    until = f" until {moment(view.yolo_until)}, then {view.configured}" if view.yolo_until else ""
    print_line(f"pull requests: {state}", style="red" if view.fault else "")
    print_line(f"merge mode:    {view.mode}{until}", style="red" if view.mode == "yolo" else "")
    if view.mode == "whitelist":
        print_line(f"whitelist:     {', '.join(view.allow)}")
    print_line(f"main:          {view.main[:12] or 'none'}")
    print_line(f"deployed:      {view.deployed[:12] or 'nothing yet'}{_behind(view.main, view.deployed)}")
    print_line(f"open:          {view.open_pulls}")
    print_line(f"trees:         {view.trees}")
    if view.github is not None:
        _show_github(view.github)
    return 1 if view.fault else 0


def _show_github(view: "GitHubView") -> None:
    print_line(f"GitHub:        {view.url}")
    if view.runs_url:
        print_line(f"  runs:        {view.runs_url}")
    print_line(
        f"  in order:    {moment(view.synced_at) if view.synced_at else 'not yet'}, main {view.main[:12] or 'none'}"
    )
    if view.requests_left is not None:
        print_line(f"  limit:       {view.requests_left} requests left this hour")
    if view.fault:
        print_line(f"  now:         {view.fault}", style="red")


def _behind(main: str, deployed: str) -> str:
    return " (main is ahead: `coilclaw bot commit` deploys it)" if main and deployed and main != deployed else ""


@bot.command(short_help="Name yourself as the owner of what controls the agent, and set up GitHub.")
@click.option("--owner", default="@owner", show_default=True, help="Your name on the forge that reads CODEOWNERS.")
@click.option("--actions", is_flag=True, help="Write what jobs in GitHub Actions need: workflows, settings, CoilClaw.")
@click.option("--token", is_flag=True, help="Set up GitHub with a token of yours: asked for, used once, not kept.")
def setup(owner: str, actions: bool, token: bool) -> int:
    """Write .github/CODEOWNERS: you review changes to files that control the agent. You are asked first.

    Where the bot is connected to GitHub, labels and the protection of main for the merge mode in force follow: with
    --token they are set, without it the steps are listed. With --actions also the five workflows, the settings of
    their runs and the CoilClaw that they install.
    """
    from coilclaw.features.forge.codeowners import OWNERS, codeowners
    from coilclaw.packets.action import ToolCall

    if not re.fullmatch(r"@?[A-Za-z0-9][A-Za-z0-9._@/-]{0,99}", owner):
        raise UsageError(f"{owner[:100]!r} is not a name.", remedy="Use @name, @organisation/team or an address.")
    text = codeowners(owner)
    with opened() as app:
        if token:
            must_be_on(app)
        place = app.workspace / OWNERS
        if place.is_file() and not place.is_symlink() and place.read_text("utf-8", "replace") == text:
            tell(f"{OWNERS} is as it should be.")
            code = 0
        else:
            code = carry(app, ToolCall.of("file_write", {"path": OWNERS, "content": text}), "cli")
        code = code or (set_up_actions(app) if actions else 0)
        if code or app.config.forge.kind != "github":
            return code
        return set_up_there(app, with_token=token, actions=actions)


@bot.command(short_help="Commit what changed in the workspace to main now.")
def commit() -> int:
    """Commit what changed in the workspace to main now, and deploy what was merged."""
    with opened() as app:
        forge = _forge(app)
        before = forge.repository.resolve("refs/heads/main")
        now = forge.bot.settle("by hand")
    tell(f"main is {now[:12]}; nothing had changed." if now == before else f"Committed {now[:12]}.")
    return 0


@bot.command(short_help="List the commits on main, and who allowed each.")
@click.option("--limit", default=30, show_default=True, type=click.IntRange(1, 10_000), help="Maximum number to list.")
@json_option
def log(limit: int, as_json: bool) -> None:
    """List the commits on main, the newest first, and who allowed each."""
    from coilclaw.features.forge.store import pulls_before
    from coilclaw.features.forge.views import commit_view
    from coilclaw.packets.forge import MAIN

    with opened() as app:
        merged = {each.merged_sha for each in pulls_before(app.db.reader, ("MERGED",), None, limit)}
        found = [commit_view(each, app.redact, merged) for each in _ready(app).repository.log(MAIN, limit)]
    if as_json:
        print_json(found)
        return
    rows = [(each.sha[:12], moment(each.time), each.allowed_by, each.subject) for each in found]
    print_rows(rows, ("commit", "when", "allowed by", "what"), empty="There are no commits.")


@bot.command(short_help="Show or set which pull requests merge without asking you.")
@click.argument("name", metavar="[strict|whitelist|yolo]", required=False, type=click.Choice(MODES))
@click.option("--for", "span", metavar="HOURS", default="", help=f"How long yolo lasts, such as 8h; at most {LONGEST}.")
def mode(name: str | None, span: str) -> int:
    """Show or set which pull requests merge without asking you.

    strict: none. whitelist: those that touch only forge.merge_allow. yolo, for some hours: every job's whose checks
    pass. Making it stricter needs no approval; anything else does, like every change of the agent's own settings.
    """
    if (name == "yolo") != bool(span):
        raise UsageError("yolo lasts for some hours, and only yolo does.", remedy="coilclaw bot mode yolo --for 8h")
    with opened() as app:
        if name is None:
            warn_of_yolo(app)
            print_line(_forge(app).mode())
            return 0
        if name == "yolo":
            return _yolo(app, span)
        from coilclaw.features.forge.merge_mode import ending_yolo, tightening

        call = tightening(app) if name == "strict" else ending_yolo(app)
        code = 0 if call is None else carry(app, call, "gateway")
        if name == "strict" or code:
            tell("You approve every merge already.") if call is None else None
            return code
    from coilclaw.cli.commands.config import set_keys

    return set_keys.main(["forge.merge_mode", name], standalone_mode=False)


@bot.command(short_help="Check a clone by itself: every change, and who allowed it.")
@click.argument("clone", required=False, type=click.Path(exists=True, file_okay=False))
@json_option
def verify(clone: str | None, as_json: bool) -> int:
    """Check a CLONE with nothing else at hand: every change, who allowed it and on what evidence.

    Without a CLONE the workspace is checked, and every merge on its main against the ledger of this home.

    Exit code: 0 nothing is wrong, 1 something is.
    """
    from pathlib import Path

    from coilclaw.features.forge.merge_records import home_records
    from coilclaw.features.forge.verify import verify_clone

    if clone is None:
        with opened() as app:
            report = verify_clone(app.workspace, home_records(app.db.reader))
    else:
        report = verify_clone(Path(clone))
    if as_json:
        print_json(report)
        return 0 if report.valid else 1
    for finding in report.findings:
        place = f"{finding.commit[:12]} {finding.path}".strip()
        print_line(f"{finding.kind}: {finding.words}{f' ({place})' if place else ''}", style="red")
    if report.more:
        print_line(f"and {report.more} more", style="red")
    for note in report.notes:
        print_line(f"note: {note}")
    counts = ((report.commits, "commit"), (report.jobs, "job"), (report.heads, "signed head"))
    about = ", ".join(counted(number, noun) for number, noun in counts)
    print_line(f"{about}: {'nothing is wrong' if report.valid else 'something is wrong'}.")
    return 0 if report.valid else 1


def _yolo(app: "Runtime", span: str) -> int:
    from coilclaw.packets.action import ToolCall

    found = re.fullmatch(r"([0-9]{1,2})h", span)
    if found is None or not 1 <= int(found[1]) <= 24:
        raise UsageError(f"{span[:20]!r} is not a number of hours.", remedy=f"From 1h to {LONGEST}.")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("yolo needs the owner at an interactive terminal.", remedy="Run it there, or in the panel.")
    hours = int(found[1])
    words = (
        f"For {counted(hours, 'hour')} every job's pull request whose checks pass would be merged without asking you."
    )
    print_line(words, style="red", err=True)
    if click.prompt("Type yolo if you want that", default="", show_default=False, err=True).strip() != "yolo":
        tell("Nothing was changed.")
        return 4
    return carry(app, ToolCall.of("bot_yolo", {"hours": hours}), "gateway")


def carry(app: "Runtime", call: "ToolCall", source: "Source") -> int:
    """Take a call of the owner's through the gate; where nobody can be asked, it waits."""
    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.cli.phrases import result_words, waits_for

    outcome = asyncio.run(run_tool(app, call, yes=False, source=source))
    print_result(result_words(outcome.result), success=outcome.result.success)
    if outcome.pending:
        tell(waits_for(app, outcome.action), err=True)
    return exit_code(outcome)


def _forge(app: "Runtime") -> "LocalForge":
    from coilclaw.features.forge.forge import LocalForge

    return LocalForge(app)


def _ready(app: "Runtime") -> "LocalForge":
    forge = _forge(app)
    if fault := forge.bot.fault():
        raise UsageError(fault)
    return forge


for each in (connect, sync, accept, check_workflows):
    bot.add_command(each)


@click.group()
def intel() -> None:
    """Read what the agent found out and you merged: the files below intel/ on main."""


@intel.command("list")
@json_option
def list_intel(as_json: bool) -> None:
    """List findings, the last first."""
    from coilclaw.features.forge.views import IntelView, intel_files, shown_path

    with opened() as app:
        found = [
            IntelView(path=shown_path(app.redact(path)), size=entry.size) for path, entry in intel_files(_ready(app))
        ]
    if as_json:
        print_json(found)
        return
    print_rows([(each.path, str(each.size)) for each in found], ("file", "bytes"), empty="There is no intel yet.")


@intel.command()
@click.argument("path")
def show(path: str) -> None:
    """Show a file of findings as it stands on main."""
    from coilclaw.features.forge.views import INTEL, intel_files

    path = path if path.startswith(INTEL) else f"{INTEL}{path}"
    with opened() as app:
        forge = _ready(app)
        entry = dict(intel_files(forge)).get(path)
        if entry is None:
            raise UsageError(f"there is no {path} on main.", remedy="See `coilclaw intel list`.")
        text = app.redact(forge.repository.blobs([entry.blob])[entry.blob].decode("utf-8", "replace"))
    tell(text.rstrip("\n"))
