"""coilclaw job."""

import asyncio
from typing import TYPE_CHECKING, get_args

import click

from coilclaw.cli import candidates
from coilclaw.cli.output import json_option, moment, print_json, print_line, print_rows, tell
from coilclaw.cli.session import opened
from coilclaw.cli.words import JOBS
from coilclaw.packets.job import ENDED, JobState
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.app import App
    from coilclaw.packets.canonical import Json
    from coilclaw.store.jobs import JobRow

EXIT: dict[JobState, int] = {"DONE": 0, "DENIED": 3, "WAITING_APPROVAL": 4, "PAUSED_BUDGET": 3}
"""How waiting for a job ends; every other ending is 1."""
OPEN = tuple(state for state in get_args(JobState) if state not in ENDED)


@click.group()
def job() -> None:
    """Hand work in, see how it goes, call it off."""


@job.command()
@click.argument("goal")
@click.option("--tool", "tools", multiple=True, metavar="NAME", help="A tool it may use; without any, all it is given.")
@click.option("--domain", "domains", multiple=True, metavar="HOST", help="A host it may reach; only listed ones.")
@click.option("--max-files", type=click.IntRange(0), help="Workspace files it may change.")
@click.option("--max-prs", type=click.IntRange(0), help="Pull requests it may open.")
@click.option("--step", "steps", multiple=True, metavar="TEXT", help="A step of the plan, in order.")
@click.option("--evidence", multiple=True, metavar="NAME", help="An artifact it must leave, or it has failed.")
@click.option("--thread", "thread_id", metavar="ID", help="The conversation it belongs to; a new one otherwise.")
@click.option("--wait", is_flag=True, help="Work on it here, and show how it goes.")
@json_option
def create(
    goal: str,
    tools: tuple[str, ...],
    domains: tuple[str, ...],
    max_files: int | None,
    max_prs: int | None,
    steps: tuple[str, ...],
    evidence: tuple[str, ...],
    thread_id: str | None,
    wait: bool,
    as_json: bool,
) -> int:
    """Make a job out of a goal. What it is given here only narrows what the configuration grants.

    With --wait the exit code is 0 when it is done, 4 when it waits for you, 3 when it was denied or its budget is
    used up, 1 otherwise.
    """
    from coilclaw.cli.agent import thread_of
    from coilclaw.jobs.desk import Request
    from coilclaw.packets.job import Constraints

    with opened() as app:
        request = Request(
            goal=goal,
            thread_id=thread_of(app, thread_id),
            channel="cli",
            constraints=Constraints(
                allowed_tools=tools or None,
                allowed_domains=domains or None,
                max_files_changed=max_files,
                max_prs=max_prs,
            ),
            steps=steps,
            evidence=evidence,
        )
        made = asyncio.run(_create(app, request, wait=wait, quiet=as_json))
        if as_json:
            print_json(told(app, made))
        else:
            _say_made(app, made, waited=wait)
    return EXIT.get(made.state, 1) if wait or made.state in ENDED else 0


async def _create(app: "App", request: "Request", *, wait: bool, quiet: bool) -> "JobRow":
    from coilclaw.app.background import Background

    background = Background(app)
    made = await background.desk().create(request)
    if not wait or made.state in ENDED:
        return made
    from coilclaw.cli.jobs import work_on

    return await work_on(app, background, made, None if quiet else print_line)


def _say_made(app: "App", made: "JobRow", *, waited: bool) -> None:
    if waited or made.state in ENDED:
        print_line(one_line(f"{made.job_id} is {JOBS[made.state]}. {made.reason}").rstrip())
        _say_waiting(app, made)
    else:
        from coilclaw.gate.executor import worker_is_running

        print_line(made.job_id)
        if not worker_is_running(app.home.locks_dir):
            tell("No worker is running: start `coilclaw worker`, and it is worked on.", err=True)


@job.command("list")
@click.option("--state", type=click.Choice(get_args(JobState), case_sensitive=False), help="Only jobs in this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 100_000), help="At most so many.")
@json_option
def list_jobs(state: str | None, limit: int, as_json: bool) -> None:
    """List jobs, the newest first."""
    from coilclaw.store.jobs import list_jobs as rows_of

    chosen = None if state is None else [each for each in get_args(JobState) if each == state]
    with opened() as app:
        found = rows_of(
            app.db.reader, chosen, limit, lambda broken: tell(f"coilclaw: {one_line(str(broken))}", err=True)
        )
    if as_json:
        from coilclaw.app.job_views import summary

        print_json([summary(each) for each in found])
        return
    rows = [(each.job_id, JOBS[each.state], moment(each.created_at), each.goal) for each in found]
    print_rows(rows, ("job", "state", "made", "goal"), empty="There are no jobs.")


@job.command(short_help="Show a job: what was asked, where it stands, what it did.")
@click.argument("job_id", shell_complete=candidates.jobs())
@json_option
def show(job_id: str, as_json: bool) -> None:
    """Show a job: what was asked, where it stands, what waits for you, what it did and left."""
    with opened() as app:
        from coilclaw.app.background import Background

        found = Background(app).desk().find(job_id)
        story = told(app, found)
        if as_json:
            print_json(story)
            return
        from coilclaw.cli.jobs import lines

        for line in lines(app, found):
            print_line(line)


@job.command()
@click.argument("job_id", shell_complete=candidates.jobs(*OPEN))
@click.option("--reason", default="", help="Why; it is kept with the job.")
def cancel(job_id: str, reason: str) -> int:
    """Call a job off. A step that runs is cut; what it did stays, with its receipts."""
    from coilclaw.app.background import Background

    with opened() as app:
        ended = asyncio.run(Background(app).desk().cancel(job_id, reason))
    print_line(f"{ended.job_id} is {JOBS[ended.state]}.")
    return 0


@job.command()
@click.argument("job_id", shell_complete=candidates.jobs(*OPEN))
def resume(job_id: str) -> int:
    """Let a job that is paused, or waits before its next try, go on now."""
    from coilclaw.app.background import Background
    from coilclaw.gate.executor import worker_is_running

    with opened() as app:
        found = asyncio.run(Background(app).desk().resume(job_id))
        print_line(f"{found.job_id} is {JOBS[found.state]} and due.")
        if not worker_is_running(app.home.locks_dir):
            tell("No worker is running: start `coilclaw worker`, and it is worked on.", err=True)
    return 0


def told(app: "App", row: "JobRow") -> "dict[str, Json]":
    """Everything there is to say about a job."""
    from coilclaw.app.job_views import story, summary

    return {**summary(row), **story(app, row)}


def _say_waiting(app: "App", row: "JobRow") -> None:
    from coilclaw.app.job_views import waiting_for

    for action in waiting_for(app, row):
        print_line(f"  {action.call.tool}: coilclaw approvals approve {action.action_id}")


if TYPE_CHECKING:
    from coilclaw.jobs.desk import Request
