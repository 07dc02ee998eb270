"""coilclaw schedule."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, print_json, print_line, tell
from coilclaw.features.schedules.commands.preview import preview

if TYPE_CHECKING:
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime import Runtime

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def schedule() -> None:
    """Have work done by the clock. Schedules stand in cron/jobs.json; `coilclaw worker` runs them."""


schedule.add_command(preview)


_OPTIONS = (
    click.option("--cron", metavar="CRON", help='When, as five cron fields: "0 9 * * 1-5" is every weekday at nine.'),
    click.option("--interval", metavar="TIME", help="Or the interval between runs: 90m, 24h."),
    click.option("--at", metavar="TIME", help="Or once: 2026-12-01T09:00, in the zone's local time."),
    click.option("--timezone", metavar="ZONE", help="The IANA zone, such as Europe/Berlin."),
    click.option("--goal", metavar="TEXT", help="What each run should do."),
    click.option("--sop", metavar="NAME", help="Or the procedure that each run follows."),
    click.option(
        "--tool",
        "tools",
        multiple=True,
        metavar="NAME",
        help="A tool a run may use; without this, every one available.",
    ),
    click.option(
        "--domain",
        "domains",
        multiple=True,
        metavar="HOST",
        help="A host a run may reach; only hosts on the allowlist.",
    ),
    click.option("--project", metavar="NAME", help="The project each run works in; empty for the workspace."),
    click.option("--max-files", type=click.IntRange(0), help="Number of workspace files a run may change."),
    click.option("--max-prs", type=click.IntRange(0), help="Number of pull requests a run may open."),
    click.option("--step", "steps", multiple=True, metavar="TEXT", help="A step of each run's plan, in order."),
    click.option("--evidence", multiple=True, metavar="NAME", help="An artifact each run must produce."),
    click.option(
        "--misfire",
        type=click.Choice(("run_once", "run_all", "skip")),
        help="Missed slots: run the newest (default), all of them (at most 20), or none.",
    ),
    click.option("--catch-up", "catch_up_window", metavar="TIME", help="How late a missed slot may still be run: 24h."),
    click.option(
        "--overlap",
        type=click.Choice(("skip", "queue_one", "allow", "replace")),
        help="When the previous run has not finished: skip the slot (default), queue one, run in parallel, or"
        " replace it.",
    ),
    click.option(
        "--stagger", metavar="TIME", help="Spread start times over this window; each schedule has a fixed offset."
    ),
    click.option("--max-failures", type=click.IntRange(0, 1000), help="Failures in a row before it pauses (5)."),
)


def _described(command: F) -> F:
    """The options that say what a schedule is."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@schedule.command("list", short_help="List schedules and when each runs next.")
@json_option
def list_schedules(as_json: bool) -> None:
    """List schedules and when each runs next, and the agent's own follow-ups apart."""
    from coilclaw.features.schedules.schedule_views import list_all
    from coilclaw.features.schedules.terminal import show_list

    with opened() as app:
        told = list_all(app)
        if as_json:
            print_json(told)
        else:
            show_list(app, told)


@schedule.command(short_help="Show a schedule: what it does, when it runs, and its past runs.")
@click.argument("schedule_id", shell_complete=completion.schedules)
@json_option
def show(schedule_id: str, as_json: bool) -> None:
    """Show a schedule: what it does, when, what may surprise, how its runs went."""
    from coilclaw.features.schedules.schedule_views import find, story
    from coilclaw.features.schedules.terminal import lines, warn_of_file

    with opened() as app:
        row = find(app, schedule_id)
        told = story(app, row)
        if as_json:
            print_json(told)
            return
        warn_of_file(app)
        for line in lines(told):
            print_line(line)


@schedule.command()
@click.option("--id", "schedule_id", metavar="ID", help="Its id; derived from the goal by default.")
@_described
@click.option("--disabled", is_flag=True, help="Add it disabled.")
@json_option
def add(schedule_id: str | None, disabled: bool, as_json: bool, **given: Any) -> int:
    """Add a schedule. What it is given here only narrows what the configuration grants."""
    from coilclaw.features.schedules.registry_edit import adding
    from coilclaw.features.schedules.schedule_entry import new_entry
    from coilclaw.features.schedules.schedule_faults import check_new
    from coilclaw.features.schedules.schedule_views import find, story
    from coilclaw.features.schedules.scheduler import Scheduler
    from coilclaw.features.schedules.terminal import say_row

    check_new(given)
    with opened() as app:
        entry = new_entry(schedule_id, given, app.clock(), _taken(app), enabled=not disabled)
        asyncio.run(Scheduler(app).edit(adding(entry)))
        row = find(app, str(entry["job_id"]))
        if as_json:
            print_json(story(app, row))
        else:
            say_row(app, row, "added")
    return 0


@schedule.command()
@click.argument("schedule_id", shell_complete=completion.schedules)
@_described
@json_option
def edit(schedule_id: str, as_json: bool, **given: Any) -> int:
    """Change a schedule. A new time counts from now; everything else leaves the next run where it is."""
    from coilclaw.features.schedules.registry_edit import changing
    from coilclaw.features.schedules.schedule_entry import changes
    from coilclaw.features.schedules.schedule_views import find, story
    from coilclaw.features.schedules.scheduler import Scheduler
    from coilclaw.features.schedules.terminal import say_row
    from coilclaw.packets.errors import UsageError

    with opened() as app:
        changed = changes(given, app.clock())
        if not changed:
            raise UsageError("nothing to change.", remedy="See `coilclaw schedule edit --help`.")
        _must_be_declared(app, schedule_id)
        asyncio.run(Scheduler(app).edit(changing(schedule_id, changed)))
        row = find(app, schedule_id)
        if as_json:
            print_json(story(app, row))
        else:
            say_row(app, row, "changed")
    return 0


@schedule.command()
@click.argument("schedule_id", shell_complete=completion.schedules)
@json_option
def remove(schedule_id: str, as_json: bool) -> int:
    """Remove a schedule or a follow-up. A job it started goes on; see `coilclaw job cancel`."""
    from coilclaw.features.schedules.edits import forget_followup, is_followup
    from coilclaw.features.schedules.registry_edit import removing
    from coilclaw.features.schedules.scheduler import Scheduler

    with opened() as app:
        if is_followup(app, schedule_id):
            asyncio.run(forget_followup(app, schedule_id))
        else:
            asyncio.run(Scheduler(app).edit(removing(_known(app, schedule_id))))
    _say(as_json, {"schedule_id": schedule_id, "removed": True}, f"{schedule_id} is removed.")
    return 0


@schedule.command()
@click.argument("schedule_id", shell_complete=completion.schedules)
@json_option
def enable(schedule_id: str, as_json: bool) -> int:
    """Let a schedule run, also one that was paused after failures. It counts from now."""
    from coilclaw.features.schedules.edits import switch
    from coilclaw.features.schedules.schedule_views import find, story
    from coilclaw.features.schedules.terminal import say_row

    with opened() as app:
        _must_be_declared(app, schedule_id)
        asyncio.run(switch(app, schedule_id, on=True))
        row = find(app, schedule_id)
        if as_json:
            print_json(story(app, row))
        else:
            say_row(app, row, "enabled")
    return 0


@schedule.command(short_help="Stop a schedule from running.")
@click.argument("schedule_id", shell_complete=completion.schedules)
@json_option
def disable(schedule_id: str, as_json: bool) -> int:
    """Keep a schedule from running; what came due meanwhile is not caught up."""
    from coilclaw.features.schedules.edits import switch

    with opened() as app:
        _must_be_declared(app, schedule_id)
        asyncio.run(switch(app, schedule_id, on=False))
    _say(as_json, {"schedule_id": schedule_id, "enabled": False}, f"{schedule_id} is disabled.")
    return 0


@schedule.command("run-now")
@click.argument("schedule_id", shell_complete=completion.schedules)
@json_option
def run_now(schedule_id: str, as_json: bool) -> int:
    """Start a run at once. The next run by the clock stays where it is."""
    from coilclaw.features.jobs.background import Background
    from coilclaw.features.schedules.schedule_views import find
    from coilclaw.features.schedules.scheduler import Scheduler

    with opened() as app:
        find(app, schedule_id)
        made = asyncio.run(Scheduler(app).dispatcher(Background(app)).run_now(schedule_id))
        told: dict[str, Json] = {"run_instance_id": made.run_instance_id, "job_id": made.job_id}
        _say(as_json, told, f"{made.job_id}")
        _worker_hint(app)
    return 0


def _say(as_json: bool, told: "dict[str, Json]", line: str) -> None:
    if as_json:
        print_json(told)
    else:
        print_line(line)


def _worker_hint(app: "Runtime") -> None:
    from coilclaw.gate.executor import worker_is_running

    if not worker_is_running(app.home.locks_dir):
        tell("No worker is running: start `coilclaw worker` to run it.", err=True)


def _taken(app: "Runtime") -> list[str]:
    from coilclaw.features.schedules.store.schedules import schedule_ids

    return schedule_ids(app.db.reader)


def _must_be_declared(app: "Runtime", schedule_id: str) -> None:
    from coilclaw.features.schedules.edits import is_followup
    from coilclaw.packets.errors import UsageError

    if is_followup(app, schedule_id):
        raise UsageError(
            f"{schedule_id} is one of the agent's own follow-ups.",
            remedy=f"It can only be removed: `coilclaw schedule remove {schedule_id}`.",
        )
    _known(app, schedule_id)


def _known(app: "Runtime", schedule_id: str) -> str:
    """The id, if the table or the file has it; both may know something the other does not know yet."""
    from coilclaw.features.schedules.edits import known_ids
    from coilclaw.packets.errors import UsageError
    from coilclaw.packets.names import did_you_mean

    known = known_ids(app)
    if schedule_id not in known:
        raise UsageError(f"there is no schedule {schedule_id!r}.", remedy=did_you_mean(schedule_id, known))
    return schedule_id
