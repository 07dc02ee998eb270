"""coilclaw evolve: an agent that works on its own code, in a container."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import (
    counted,
    json_option,
    print_json,
    print_line,
    print_result,
    print_rows,
    print_wrapped,
    tell,
)
from coilclaw.packets.errors import BoxUnavailable, UsageError

if TYPE_CHECKING:
    from coilclaw.features.evolve.views import EvolveView
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime.runtime import Runtime


@click.group()
def evolve() -> None:
    """An agent that works on its own code, in a container, and talks to you through COMMS.md.

    It works on branches, restarts itself into them, falls back to main when one fails, and asks you before main moves.
    """


@evolve.command(short_help="Make its repository from CoilClaw's own source, or from a folder.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="The folder to begin with; by default CoilClaw's own source.",
)
@click.option("--wheels", type=click.Path(path_type=Path), help="A folder of packages for it, as for `evolve wheels`.")
def init(source: Path | None, wheels: Path | None) -> None:
    """Make its repository from CoilClaw's own source, or from a folder, and add what the agent needs to it."""
    from coilclaw.features.evolve.box import evolve_box
    from coilclaw.features.evolve.init import make_repository
    from coilclaw.features.evolve.places import places_of
    from coilclaw.features.evolve.wheels import admit_wheels

    with opened() as app:
        if wheels is not None:
            wheels = wheels.resolve()
            admit_wheels(wheels)
        commit = make_repository(app, None if source is None else source.resolve())
        record = places_of(app.home.root).record
        print_wrapped(f"The repository is {record}, main at {commit[:12]}. Clone it to read and to push.")
        if wheels is not None:
            _take_wheels(app, wheels)
        try:
            tell(f"It will run in {_held_by(evolve_box(app).tier)}.")
        except BoxUnavailable as error:
            tell(f"It cannot run here yet: {error}", err=True)
    tell("Next: `coilclaw evolve say 'what it should do'`, then `coilclaw evolve up`.")


@evolve.command(short_help="Give it packages to install from.")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--off", is_flag=True, help="Take away those that it has.")
def wheels(folder: Path | None, off: bool) -> None:
    """Give the agent the packages in FOLDER, wheels and nothing else, in place of those that it has.

    They are copied, and the copy is read again before each start: one that changed does not start. It has them at
    /mnt/wheels, where pip and uv install from. The agent must not be up.
    """
    from coilclaw.features.evolve.init import needed
    from coilclaw.features.evolve.up import held

    if (folder is None) != off:
        raise UsageError("this needs a folder, or --off.", remedy="See `coilclaw evolve wheels --help`.")
    with opened() as app, held(needed(app)):
        _take_wheels(app, None if folder is None else folder.resolve())


def _take_wheels(app: "Runtime", folder: Path | None) -> None:
    from coilclaw.features.evolve.wheels import take_wheels

    taken = asyncio.run(take_wheels(app, folder))
    if taken is None:
        tell("It has no wheels any more.")
    else:
        tell(f"It has {counted(taken.wheels, 'wheel')} to install from, sha256 {taken.digest}.")


def _held_by(tier: str) -> str:
    return "a container of Podman's (tier C)" if tier == "C" else f"a box (tier {tier})"


@evolve.command(short_help="Run the agent until stopped.")
def up() -> int:
    """Run the agent until stopped: its watcher, and the desk that asks you. Ctrl-C or SIGTERM ends all of it.

    ESTOP ends the agent at once and holds it until you clear it.
    """
    from coilclaw.features.evolve.init import needed
    from coilclaw.features.evolve.up import held, run

    async def serve() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await run(app, stopped, ready)

    def ready(tier: str) -> None:
        tell(f"The agent is up, in {_held_by(tier)}.")
        tell("`coilclaw evolve status` and `logs` show what it does; Ctrl-C ends it.")
        sys.stdout.flush()

    with opened() as app, held(needed(app)):
        asyncio.run(serve())
    return 0


@evolve.command()
def stop() -> int:
    """End the agent that runs, and its watcher."""
    from coilclaw.features.evolve.init import needed
    from coilclaw.features.evolve.up import stop as end

    with opened() as app:
        ended = end(needed(app))
    tell("The agent is stopped." if ended else "The agent is not up.")
    return 0


@evolve.command()
@json_option
def status(as_json: bool) -> None:
    """Show what runs, since when, and what became of its starts."""
    from coilclaw.features.evolve.views import evolve_view

    with opened() as app:
        view = evolve_view(app)
    if as_json:
        print_json(view)
        return
    _print_status(view)


def _print_status(view: "EvolveView") -> None:
    phase = "waiting to start" if view.phase == "idle" else view.phase
    print_line(f"state:  {phase}" if view.up else f"state:  not up (last: {view.phase})")
    for name, value in (("branch", view.branch), ("commit", view.sha), ("since", view.since), ("held", view.held),
                        ("trouble", view.trouble), ("wheels", view.wheels)):  # fmt: skip
        if value:
            print_line(f"{name + ':':8}{value}")
    if view.phase == "held":
        print_line(
            "It is held until you act: `coilclaw evolve release`, `coilclaw evolve rollback REF`, or push to main."
        )
    for action_id in view.waiting:
        print_line(f"A merge waits for you: `coilclaw approvals approve {action_id}`.")
    rows = [(each.at, each.what, each.branch, each.detail) for each in view.starts[-10:]]
    print_rows(rows, ("time", "what", "branch", "commit or reason"), empty="It has not been started yet.")


@evolve.command(short_help="Show what it prints, its starts, or the watcher's log.")
@click.option("--follow", "-f", is_flag=True, help="Go on as more is written.")
@click.option("--boot", "which", flag_value="boot", help="The starts and what became of them.")
@click.option("--errors", "which", flag_value="errors", default=True, help="What the agent prints (the default).")
@click.option("--watcher", "which", flag_value="watcher", help="What the watcher did.")
def logs(follow: bool, which: str) -> None:
    """Show what the agent prints; or its starts, or the watcher's log."""
    from coilclaw.features.evolve.views import read_log

    with opened() as app:
        place = None
        while True:
            text, place = read_log(app, which, place)
            if text:
                print_line(text.rstrip("\n"))
                sys.stdout.flush()
            if not follow:
                return
            time.sleep(0.5)


@evolve.command(short_help="Add a directive for the agent to COMMS.md.")
@click.argument("directive")
def say(directive: str) -> None:
    """Add a DIRECTIVE to COMMS.md on main; the agent reads it within ten minutes."""
    from coilclaw.features.evolve.changes import say as add_directive

    with opened() as app:
        commit = asyncio.run(add_directive(app, directive))
    tell(f"It is in COMMS.md, main at {commit[:12]}.")


@evolve.command(short_help="Start it from an earlier commit.")
@click.argument("ref")
def rollback(ref: str) -> int:
    """Start it from REF (a branch, a tag, a commit) on a new branch there. Main and all history stay.

    This needs your proof: a passkey, or the terminal until you have one.
    """
    from coilclaw.features.evolve.changes import resolved
    from coilclaw.features.evolve.tools import ROLLBACK

    with opened() as app:
        return _decide(app, ROLLBACK, {"ref": ref, "commit": asyncio.run(resolved(app, ref))})


@evolve.command(short_help="Allow it a route to public addresses, or forbid it again.")
@click.option("--off", is_flag=True, help="Forbid it again.")
def route(off: bool) -> int:
    """Allow the agent a route to public addresses, which `[evolve] network = "routed"` then uses.

    Whatever it can read can leave that way. This needs your proof: a passkey, or the terminal until you have one.
    """
    from coilclaw.features.evolve.init import needed
    from coilclaw.features.evolve.tools import ROUTE

    with opened() as app:
        needed(app)
        return _decide(app, ROUTE, {"allowed": not off})


def _decide(app: "Runtime", tool: str, arguments: "dict[str, Json]") -> int:
    """Propose something that needs the owner's proof, and say what came of it."""
    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.cli.phrases import result_words, waits_for
    from coilclaw.packets.action import ToolCall

    outcome = asyncio.run(run_tool(app, ToolCall.of(tool, arguments), yes=False, source="gateway"))
    if outcome.pending:
        tell(waits_for(app, outcome.action), err=True)
    else:
        print_result(result_words(outcome.result), success=outcome.result.success)
    return exit_code(outcome)


@evolve.command()
def release() -> None:
    """Let the agent go on after the watcher held it."""
    from coilclaw.features.evolve.desk_files import order
    from coilclaw.features.evolve.init import needed

    with opened() as app:
        needed(app)
        order(app, {"kind": "release"})
    tell("The watcher starts it again; `coilclaw evolve status` shows how that goes.")


@evolve.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def destroy(yes: bool) -> int:
    """Remove the agent with its repository, all branches and all logs. This cannot be undone."""
    from coilclaw.features.evolve.changes import destroy as remove
    from coilclaw.features.evolve.init import needed
    from coilclaw.features.evolve.up import held

    with opened() as app:
        places = needed(app)
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError("this removes everything the agent made.", remedy="Say --yes if you mean it.")
            if not click.confirm(f"Remove {places.root} with everything in it?", default=False, err=True):
                return 4
        with held(places):
            asyncio.run(remove(app))
    tell("The agent and its repository are gone.")
    return 0
