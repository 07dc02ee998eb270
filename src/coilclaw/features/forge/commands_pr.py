"""coilclaw pr."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, json_option, moment, print_json, print_line, print_rows, tell
from coilclaw.cli.yolo_warning import warn_of_yolo
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import ToolError, UsageError

if TYPE_CHECKING:
    from coilclaw.features.forge.pulls import Pulls
    from coilclaw.packets.forge import PullRequest, PullState
    from coilclaw.runtime import Runtime

POLL_SECONDS = 0.2
MERGE_THERE = "on GitHub, by yourself, or here: it changes what controls the agent"
STATES: "dict[str, tuple[PullState, ...]]" = {
    "open": ("OPEN",),
    "merged": ("MERGED",),
    "closed": ("CLOSED",),
    "all": ("OPEN", "MERGED", "CLOSED"),
}

open_number = click.argument("number", type=click.IntRange(1), shell_complete=completion.pulls("OPEN"))
any_number = click.argument("number", type=click.IntRange(1), shell_complete=completion.pulls())


class _ToRead(click.IntRange):
    """A number, or 0 for `last`, the newest."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return 0 if value == "last" else click.IntRange(1)(value, param, ctx)


to_read = click.argument("number", type=_ToRead(1), shell_complete=completion.pulls())


@click.group()
def pr() -> None:
    """See what jobs want to change, and merge, reject or take it back.

    Every job that changes files ends in one pull request. Nothing in it takes effect before you merge it.
    """


# Looking


@pr.command("list")
@click.option("--state", type=click.Choice(tuple(STATES)), default="open", show_default=True, help="Which ones.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="Maximum number to list.")
@json_option
def list_pulls(state: str, limit: int, as_json: bool) -> None:
    """List pull requests, the newest first."""
    from coilclaw.features.forge.store import pulls_before
    from coilclaw.features.forge.views import pull_view

    with opened() as app:
        found = [pull_view(each, app.redact) for each in pulls_before(app.db.reader, STATES[state], None, limit)]
        warn_of_yolo(app)
    if as_json:
        print_json(found)
        return
    rows = [
        (
            str(it.number), _standing(it.state, it.dormant, it.draft), it.risk, it.checks, moment(it.opened_at),
            f"{it.repository}: {it.title}" if it.repository else it.title,
        )
        for it in found
    ]  # fmt: skip
    empty = "There are no pull requests." if state == "all" else f"No pull request is {state}."
    print_rows(rows, ("#", "state", "risk", "checks", "opened", "title"), empty=empty)


@pr.command(short_help="Show a pull request: what it is, its checks, its story.")
@to_read
@json_option
def show(number: int, as_json: bool) -> None:
    """Show a pull request, or the `last` one: what it changes and why, its checks, who made it, what became of it."""
    from coilclaw.features.forge.views import pull_shown, shown_path

    with opened() as app:
        pulls = _pulls(app)
        pull = _read(pulls, app, number)
        number, forge = pull.number, pulls.forge_of(pull)
        view = pull_shown(app, pull, forge.mode(), app.redact)
        try:
            files = [f"  {each.kind:8} {shown_path(app.redact(each.path))}" for each in forge.changes(pull)]
            listed = f"{counted(len(files), 'file')}:"
        except ToolError as error:  # its commits are gone; what is known of it is shown all the same
            files, listed = [], f"files:    they cannot be read: {error.message}"
        asked = pulls.question(pull)
        warn_of_yolo(app)
    if as_json:
        print_json(view)
        return
    for line in (
        f"#{view.number}:       {view.title}",
        f"state:    {_standing(view.state, view.dormant, view.draft)}{f': {view.reason}' if view.reason else ''}",
        f"risk:     {view.risk}{', from untrusted content' if view.tainted else ''}",
        f"job:      {view.job_id or 'none'}" if not view.session_id else f"session:  {view.session_id}",
        *([f"into:     {view.target} of {view.repository}"] if view.repository else []),
        f"branch:   {view.branch} ({view.head_sha[:12]})",
        f"opened:   {moment(view.opened_at)}",
        *([f"merged:   {view.merged_sha[:12]}"] if view.merged_sha else []),
        *([f"{'undone:   ' if view.reason else 'deployed: '}{moment(view.deployed_at)}"] if view.deployed_at else []),
        *(
            [f"question: {asked.action_id} (answer it: coilclaw pr merge|reject|changes {number})"]
            if asked is not None and asked.status == "PENDING"
            else []
        ),
        *([f"wanted:   {view.wanted}"] if view.wanted else []),
        *([f"GitHub:   {view.github_url}"] if view.github_url else []),
        *([f"merge:    {MERGE_THERE}"] if view.merge_on_github else []),
    ):
        print_line(line)
    for check in view.results:
        print_line(f"  {'passed' if check.passed else 'FAILED'}  {check.name}: {check.summary}")
    print_line(listed)
    for line in files:
        print_line(line)
    print_line("")
    print_line(view.body)


@pr.command(short_help="Show what a pull request changes.")
@to_read
@click.argument("paths", nargs=-1)
def diff(number: int, paths: tuple[str, ...]) -> None:
    """Show the difference a pull request makes, or that of some PATHS: page by page at a terminal, plain in a pipe.

    What the job changed comes first, then the record of it that the runtime adds. Characters that hide or reorder
    others are shown by their numbers.
    """
    from coilclaw.cli.terminal import Terminal
    from coilclaw.features.forge.paths import is_runtime_file

    with opened() as app:
        pulls = _pulls(app)
        pull = _read(pulls, app, number)
        number, forge = pull.number, pulls.forge_of(pull)
        touched = [each.path for each in forge.changes(pull)]
        unknown = [path for path in paths if path not in touched]
        if unknown:
            raise UsageError(f"#{number} does not change {unknown[0]}.", remedy=f"See `coilclaw pr show {number}`.")
        patch = forge.patch(pull, paths)
        parts = (b"\n" + patch).split(b"\ndiff --git ")[1:]  # a line of a text never begins so
        if not paths and len(parts) == len(touched):
            record = [pull.job_id is not None and is_runtime_file(path, pull.job_id) for path in touched]
            ordered = sorted(zip(record, parts, strict=True), key=lambda each: each[0])
            patch = b"".join(b"diff --git " + part.removesuffix(b"\n") + b"\n" for _, part in ordered)
        text = app.redact(patch.decode("utf-8", "replace")).rstrip("\n")
    terminal = Terminal()
    if terminal.interactive and sys.stdout.isatty():
        asyncio.run(terminal.show_difference(text))
    else:
        tell(text)


@pr.command(short_help="Show how the checks of a pull request ended.")
@to_read
@json_option
def checks(number: int, as_json: bool) -> int:
    """Show how the checks of a pull request ended. Exit code: 0 all passed, 1 some failed, 4 not run yet."""
    from coilclaw.features.forge.views import check_view, checked

    with opened() as app:
        pull = _read(_pulls(app), app, number)
        found = [check_view(each, app.redact) for each in pull.checks]
    if as_json:
        print_json(found)
    else:
        rows = [("passed" if each.passed else "FAILED", each.name, each.summary) for each in found]
        print_rows(rows, ("result", "check", "found"), empty="They have not been run yet.")
        for each in found:
            for line in each.details if not each.passed else ():
                tell(f"  {each.name}: {line}")
    return {"passed": 0, "failed": 1, "not run": 4}[checked(pull)]


# Answering


@pr.command(short_help="Approve the merge of a pull request, after you saw all of it.")
@open_number
def approve(number: int) -> int:
    """Approve the merge of a pull request: you see the whole card first, as with `coilclaw approvals approve`.

    If the question has expired, you are asked again. Changes to files that control the agent need your passkey once you
    have one.
    """
    _owner_is_here("approving")
    with opened() as app:
        return asyncio.run(_approve(app, number))


@pr.command(short_help="Approve the merge, and wait until the change is deployed.")
@any_number
def merge(number: int) -> int:
    """Approve the merge of a pull request and wait until the change is deployed.

    Where no worker runs, it is merged and deployed here and now. Exit code: 0 deployed, 1 failed, 3 checks do not
    pass, 4 not approved, 5 ESTOP.
    """
    _owner_is_here("merging")
    with opened() as app:
        return asyncio.run(_merge(app, number))


@pr.command(short_help="Reject the merge of a pull request.")
@open_number
@click.option("--reason", default="", help="The reason; it is stored with the job.")
def reject(number: int, reason: str) -> int:
    """Reject the merge of a pull request: it is closed, and its job ends."""
    with opened() as app:
        asyncio.run(_reject(app, number, reason))
    return 0


@pr.command(short_help="Ask for changes: its job goes on with your words.")
@open_number
@click.argument("words")
def changes(number: int, words: str) -> int:
    """Ask for changes of a pull request: its job goes on with your WORDS, then asks you again."""
    with opened() as app:
        asyncio.run(_pulls(app).want(number, words))
        tell(f"The job of #{number} goes on with your words.")
        _say_worker(app)
    return 0


@pr.command(short_help="Make a draft ready: its merge is asked about.")
@open_number
def ready(number: int) -> int:
    """Make a draft ready, although its patrol did not pass on it: its checks run, and its merge is asked about."""
    with opened() as app:
        pulls = _pulls(app)
        return _say_asked(pulls, asyncio.run(pulls.ask(number)))


@pr.command(short_help="Close a pull request without merging it.")
@open_number
@click.option("--reason", default="", help="The reason; it is stored with the pull request and its job.")
def close(number: int, reason: str) -> int:
    """Close a pull request without merging it. Its branch stays, its job ends."""
    with opened() as app:
        asyncio.run(_close(app, number, reason))
    return 0


@pr.command(short_help="Open a closed pull request again.")
@click.argument("number", type=click.IntRange(1), shell_complete=completion.pulls("CLOSED"))
def reopen(number: int) -> int:
    """Open a closed pull request again and put its question, while its branch is there and its job is not over."""
    with opened() as app:
        pulls = _pulls(app)
        return _say_asked(pulls, asyncio.run(pulls.reopen(number)))


@pr.command(short_help="Open a pull request that takes a merged one back.")
@click.argument("number", type=click.IntRange(1), shell_complete=completion.pulls("MERGED"))
def revert(number: int) -> int:
    """Open a new pull request that takes a merged one back. What is on record about its job stays."""
    with opened() as app:
        pulls = _pulls(app)
        pull = asyncio.run(pulls.revert(number))
        tell(f"#{pull.number} takes back #{number}.")
        return _say_asked(pulls, pull)


async def _approve(app: "Runtime", number: int) -> int:
    pulls = _pulls(app)
    code = await _put_to_owner(app, pulls, number)
    pull = pulls.forge.find(number)
    if code == 0 and pull.state == "MERGED" and pull.deployed_at is None and not _worker_runs(app):
        tell(f"It is deployed by the next worker, or now by `coilclaw pr merge {number}`.", err=True)
    return code


async def _put_to_owner(app: "Runtime", pulls: "Pulls", number: int) -> int:
    """Have the owner answer the merge question; one that expired is asked again."""
    from coilclaw.cli.terminal import Terminal
    from coilclaw.features.approvals.commands.approvals import approve_here

    warn_of_yolo(app)
    pull = await pulls.ask(number)
    if pull.state != "OPEN":  # the merge mode answered it
        tell(f"#{number} is {pull.state.lower()}.")
        return 0
    action = pulls.question(pull)
    return _say_failing(pull) if action is None else await approve_here(app, action, Terminal())


async def _merge(app: "Runtime", number: int) -> int:
    from coilclaw.features.forge.deployment import kept_edits

    pulls = _pulls(app)
    pull = pulls.forge.find(number)
    if pull.state == "CLOSED":
        raise UsageError(f"#{number} is CLOSED.", remedy=f"See `coilclaw pr reopen {number}`.")
    if pull.state == "OPEN":
        code = await _put_to_owner(app, pulls, number)
        if code:
            return code
    await _go_on(app, pulls, number)
    pull = pulls.forge.find(number)
    if pull.state == "MERGED" and pull.reason:
        tell(app.redact(pull.reason))
        return 1
    if pull.deployed_at is None:
        fault = _fault_of(app, pull)
        tell(fault or f"#{number} is {pull.state.lower()}, but not deployed yet: see `coilclaw pr show {number}`.")
        return 1 if fault else 0
    where = f"into {pull.target} of {pull.repository} " if pull.session_id else ""
    tell(f"#{number} is merged {where}as {pull.merged_sha[:12]}{'' if where else ' and deployed'}.")
    if kept := kept_edits(app, pull):
        tell(app.redact(f"But {kept}. The next commit of the workspace takes these edits to main."), err=True)
    return 0


async def _reject(app: "Runtime", number: int, reason: str) -> None:
    from coilclaw.features.approvals.commands.approvals import reject_here

    pulls = _pulls(app)
    pull = pulls.forge.find(number)
    action = pulls.question(pull)
    if pull.state != "OPEN" or action is None:
        remedy = f"Close it with `coilclaw pr close {number}`." if pull.state == "OPEN" else "See `coilclaw pr list`."
        raise UsageError(
            f"#{number} asks nothing now: it is {_standing(pull.state, pull.dormant, pull.draft)}.", remedy=remedy
        )
    await reject_here(app, action, reason)
    await _go_on(app, pulls, number)
    tell(f"#{number} is {pulls.forge.find(number).state.lower()}.")


async def _close(app: "Runtime", number: int, reason: str) -> None:
    pulls = _pulls(app)
    await pulls.close(number, reason)
    await _go_on(app, pulls, number)
    tell(f"#{number} is closed.")


async def _go_on(app: "Runtime", pulls: "Pulls", number: int) -> None:
    """Let the job of an answered pull request take it to its end: here, unless a worker does; then wait for it."""
    from coilclaw.cli.background import see_out
    from coilclaw.features.approvals.commands.approvals import WORKER_SECONDS
    from coilclaw.features.forge.heads import anchor_new
    from coilclaw.features.jobs.background import Background

    if app.estop.engaged():
        return
    pull = pulls.forge.find(number)
    if not _worker_runs(app):
        if pull.job_id is None:
            await pulls.settle_plain()
            await anchor_new(app)
        else:
            background = Background(app)
            with background.named() as name:
                await background.worker(name, slots=1, only={pull.job_id}).drain(asyncio.Event())
        await see_out(app)
        return
    for _ in range(round(WORKER_SECONDS / POLL_SECONDS)):
        pull = pulls.forge.find(number)
        if pull.state == "CLOSED" or pull.deployed_at is not None:
            return
        await asyncio.sleep(POLL_SECONDS)


def _fault_of(app: "Runtime", pull: "PullRequest") -> str:
    """Why the job of a merged pull request failed."""
    from coilclaw.store.jobs import load_job

    job = load_job(app.db.reader, pull.job_id) if pull.job_id else None
    return app.redact(job.reason) if job is not None and job.state == "FAILED" else ""


def _pulls(app: "Runtime") -> "Pulls":
    from coilclaw.features.forge.pulls import Pulls

    return Pulls(app, app.conveyor(nobody))


def _read(pulls: "Pulls", app: "Runtime", number: int) -> "PullRequest":
    from coilclaw.features.forge.store import pulls_before

    if number:
        return pulls.forge.find(number)
    newest = pulls_before(app.db.reader, STATES["all"], None, 1)
    if not newest:
        raise UsageError("there are no pull requests.")
    return newest[0]


def _standing(state: str, dormant: bool, draft: bool) -> str:
    if state == "OPEN" and draft:
        return "draft"
    return "open, not asked" if state == "OPEN" and dormant else state.lower()


def _say_asked(pulls: "Pulls", pull: "PullRequest") -> int:
    if pull.state == "OPEN" and pull.action_id is None:
        return _say_failing(pull)
    if pull.state == "OPEN" and pulls.question(pull) is None:
        tell(f"Its merge was denied, not put to you; ask again with `coilclaw pr approve {pull.number}`.", err=True)
        return 4
    if pull.state == "OPEN":
        tell(f"Approve it with `coilclaw pr approve {pull.number}`, or in the panel.")
    else:
        tell(f"#{pull.number} is {pull.state.lower()}.")
    return 0


def _say_failing(pull: "PullRequest") -> int:
    tell(f"The checks of #{pull.number} do not pass, so it cannot be merged:", err=True)
    for check in pull.checks:
        if not check.passed:
            tell(f"  {check.name}: {check.summary}", err=True)
    return 3


def _say_worker(app: "Runtime") -> None:
    if not _worker_runs(app):
        tell("No worker is running: start `coilclaw worker` to run it.", err=True)


def _worker_runs(app: "Runtime") -> bool:
    from coilclaw.gate.executor import worker_is_running

    return worker_is_running(app.home.locks_dir)


def _owner_is_here(doing: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{doing} needs the owner at an interactive terminal.", remedy="Run it there.")
