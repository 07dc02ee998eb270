"""coilclaw job."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click
import msgspec

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened, thread_of
from coilclaw.cli.output import json_option, moment, print_json, print_line, print_rows, tell
from coilclaw.cli.phrases import JOBS
from coilclaw.cli.project_choice import begin_thread, chosen_project
from coilclaw.cli.yolo_warning import warn_of_yolo
from coilclaw.packets.errors import UsageError
from coilclaw.packets.job import ENDED, JobState
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime import Runtime
    from coilclaw.store.jobs import JobRow

EXIT: dict[JobState, int] = {"DONE": 0, "DENIED": 3, "WAITING_APPROVAL": 4, "PAUSED_BUDGET": 3}
"""How waiting for a job ends; every other ending is 1."""
LONGEST = 1 << 20
OPEN = tuple(state for state in get_args(JobState) if state not in ENDED)


@click.group()
def job() -> None:
    """Hand work in, see how it goes, call it off."""


@job.command()
@click.argument("goal", default="")
@click.option("--spec", metavar="FILE", help="A whole JobSpecPacket as JSON instead of a goal; `-` reads stdin.")
@click.option(
    "--tool",
    "tools",
    multiple=True,
    metavar="NAME",
    help="A tool or program it may use; without this, every one available.",
)
@click.option(
    "--domain", "domains", multiple=True, metavar="HOST", help="A host it may reach; only hosts on the allowlist."
)
@click.option("--max-files", type=click.IntRange(0), help="Number of workspace files it may change.")
@click.option("--max-prs", type=click.IntRange(0), help="Number of pull requests it may open.")
@click.option("--step", "steps", multiple=True, metavar="TEXT", help="A step of the plan, in order.")
@click.option("--evidence", multiple=True, metavar="NAME", help="An artifact it must produce, or it fails.")
@click.option("--thread", "thread_id", metavar="ID", help="The conversation it belongs to; a new one by default.")
@click.option("--project", "project_name", help="The project it works in; otherwise the conversation's folder.")
@click.option(
    "--on",
    "place",
    type=click.Choice(("local", "actions")),
    default="local",
    show_default=True,
    help="Where it runs: here, or in GitHub Actions, where nobody can be asked.",
)
@click.option("--wait", is_flag=True, help="Run it here and show its progress.")
@json_option
def create(
    goal: str,
    spec: str | None,
    tools: tuple[str, ...],
    domains: tuple[str, ...],
    max_files: int | None,
    max_prs: int | None,
    steps: tuple[str, ...],
    evidence: tuple[str, ...],
    thread_id: str | None,
    project_name: str | None,
    place: str,
    wait: bool,
    as_json: bool,
) -> int:
    """Make a job out of a goal or a packet. What it is given here only narrows what the configuration grants.

    With --wait the exit code is 0 when it is done, 4 when it waits for you, 3 when it was denied or its budget is
    used up, 1 otherwise.
    """
    from coilclaw.features.jobs.job_requests import Request
    from coilclaw.packets.job import Constraints

    with opened() as app:
        warn_of_yolo(app)
        thread = thread_of(app, thread_id)
        if project_name is not None:
            if thread_id is not None:
                raise UsageError("a conversation has its folder already.", remedy="Leave out --thread or --project.")
            begin_thread(app, thread, chosen_project(app, project_name, here=False))
        limits = Constraints(
            allowed_tools=tools or None,
            allowed_domains=domains or None,
            max_files_changed=max_files,
            max_prs=max_prs,
        )
        if spec is None:
            request = Request(
                goal=goal, thread_id=thread, channel="cli", constraints=limits, steps=steps, evidence=evidence
            )
        elif goal or steps or evidence or limits != Constraints():
            raise UsageError(
                "--spec already describes the whole job.", remedy="Leave out the goal and the options that describe it."
            )
        else:
            request = _of_packet(spec, thread)
        if place == "actions":
            if wait or project_name is not None or thread_id is not None:
                raise UsageError("a job in Actions is not waited for, and has no conversation or project here.")
            return _hand_in(app, request)
        made = asyncio.run(_create(app, request, wait=wait, quiet=as_json))
        if as_json:
            print_json(told(app, made))
        else:
            _say_made(app, made, waited=wait)
    return EXIT.get(made.state, 1) if wait or made.state in ENDED else 0


def _hand_in(app: "Runtime", request: "Request") -> int:
    """Hand a job in on GitHub; it comes back as a pull request."""
    from coilclaw.packets.job import JobPacket, Outputs

    remote = app.extensions.remote_job
    if remote is None:
        raise UsageError("jobs run here only.")
    packet = JobPacket(
        intent=request.goal,
        inputs={**request.inputs, **({"steps": list(request.steps)} if request.steps else {})},
        constraints=request.constraints,
        outputs=Outputs(pr_required=request.pr_required, evidence_required=request.evidence),
    )
    tell(asyncio.run(remote(app, packet)))
    return 0


def _of_packet(file: str, thread: str) -> "Request":
    from coilclaw.features.jobs.job_requests import Request
    from coilclaw.packets.canonical import NotCanonical, parse_object
    from coilclaw.packets.job import JobPacket

    try:
        data = sys.stdin.buffer.read(LONGEST) if file == "-" else Path(file).read_bytes()
        packet = msgspec.convert(parse_object(data.decode("utf-8")), JobPacket)
    except (OSError, UnicodeDecodeError, NotCanonical, msgspec.ValidationError) as error:
        raise UsageError(f"--spec {file}: {error}.", remedy="See docs/schemas/JobSpecPacket.json.") from error
    return Request(
        goal=packet.intent,
        thread_id=thread,
        channel="cli",
        constraints=packet.constraints,
        evidence=packet.outputs.evidence_required,
        repo=packet.repo,
        pr_required=packet.outputs.pr_required,
        inputs=packet.inputs,
        packet_id=packet.job_id,
    )


async def _create(app: "Runtime", request: "Request", *, wait: bool, quiet: bool) -> "JobRow":
    from coilclaw.features.jobs.background import Background

    background = Background(app)
    made = await background.desk().create(request)
    if not wait or made.state in ENDED:
        return made
    from coilclaw.cli.background import see_out
    from coilclaw.features.jobs.terminal import work_on

    try:
        return await work_on(app, background, made, None if quiet else print_line)
    finally:
        await see_out(app)


def _say_made(app: "Runtime", made: "JobRow", *, waited: bool) -> None:
    if waited or made.state in ENDED:
        print_line(one_line(f"{made.job_id} is {JOBS[made.state]}. {made.reason}").rstrip())
        _say_waiting(app, made)
    else:
        from coilclaw.gate.executor import worker_is_running

        print_line(made.job_id)
        if not worker_is_running(app.home.locks_dir):
            tell("No worker is running: start `coilclaw worker` to run it.", err=True)


@job.command("list")
@click.option("--state", type=click.Choice(get_args(JobState), case_sensitive=False), help="Only jobs in this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 100_000), help="Maximum number to list.")
@json_option
def list_jobs(state: str | None, limit: int, as_json: bool) -> None:
    """List jobs, the newest first."""
    from coilclaw.store.jobs import list_jobs as rows_of

    chosen = None if state is None else [each for each in get_args(JobState) if each == state]
    with opened() as app:
        warn_of_yolo(app)
        found = rows_of(
            app.db.reader, chosen, limit, lambda broken: tell(f"coilclaw: {one_line(str(broken))}", err=True)
        )
    if as_json:
        from coilclaw.features.jobs.job_views import summary

        print_json([summary(each) for each in found])
        return
    rows = [(each.job_id, JOBS[each.state], moment(each.created_at), each.goal) for each in found]
    print_rows(rows, ("job", "state", "made", "goal"), empty="There are no jobs.")


@job.command(short_help="Show a job: its goal, its state and what it did.")
@click.argument("job_id", shell_complete=completion.jobs())
@json_option
def show(job_id: str, as_json: bool) -> None:
    """Show a job, or the `last` one: what was asked, where it stands, what waits for you, what it did and left."""
    from coilclaw.features.jobs.background import Background
    from coilclaw.store.jobs import list_jobs as rows_of

    with opened() as app:
        warn_of_yolo(app)
        newest = rows_of(app.db.reader, None, 1) if job_id == "last" else []
        found = newest[0] if newest else Background(app).desk().find(job_id)
        story = told(app, found)
        if as_json:
            print_json(story)
            return
        from coilclaw.features.jobs.terminal import lines

        for line in lines(app, found):
            print_line(line)


@job.command()
@click.argument("job_id", shell_complete=completion.jobs(*OPEN))
@click.option("--reason", default="", help="The reason; it is stored with the job.")
def cancel(job_id: str, reason: str) -> int:
    """Call a job off. A step that runs is cut; what it did stays, with its receipts."""
    from coilclaw.features.jobs.background import Background

    with opened() as app:
        ended = asyncio.run(Background(app).desk().cancel(job_id, reason))
    print_line(f"{ended.job_id} is {JOBS[ended.state]}.")
    return 0


@job.command()
@click.argument("job_id", shell_complete=completion.jobs(*OPEN))
def resume(job_id: str) -> int:
    """Let a job that is paused, or waits before its next try, go on now."""
    from coilclaw.features.jobs.background import Background
    from coilclaw.gate.executor import worker_is_running

    with opened() as app:
        found = asyncio.run(Background(app).desk().resume(job_id))
        print_line(f"{found.job_id} is {JOBS[found.state]} and due now.")
        if not worker_is_running(app.home.locks_dir):
            tell("No worker is running: start `coilclaw worker` to run it.", err=True)
    return 0


def told(app: "Runtime", row: "JobRow") -> "dict[str, Json]":
    """Everything there is to say about a job."""
    from coilclaw.features.jobs.job_views import story, summary

    return {**summary(row), **story(app, row)}


def _say_waiting(app: "Runtime", row: "JobRow") -> None:
    from coilclaw.features.jobs.job_views import waiting_for

    for action in waiting_for(app, row):
        print_line(f"  {action.call.tool}: coilclaw approvals approve {action.action_id}")


if TYPE_CHECKING:
    from coilclaw.features.jobs.job_requests import Request
