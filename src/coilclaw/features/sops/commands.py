"""coilclaw sop."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened, thread_of
from coilclaw.cli.output import counted, json_option, moment, print_json, print_line, print_rows, tell
from coilclaw.cli.phrases import to_owner
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.features.sops.procedures import Procedures
    from coilclaw.features.sops.run import Moved
    from coilclaw.features.sops.sop import Sop
    from coilclaw.features.sops.sop_files import SopFile
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime import Runtime
    from coilclaw.store.sops import RunRow, StepRow

SHOWN = 200
unsafe_option = click.option(
    "--unsafe", is_flag=True, help="Run commands without a box. This is announced, logged and receipted."
)


@click.group()
def sop() -> None:
    """Run procedures you wrote down: sops/NAME/SOP.toml in the workspace."""


@sop.command("list")
@json_option
def list_sops(as_json: bool) -> None:
    """List the procedures in the workspace."""
    from coilclaw.features.sops.procedures import Procedures

    with opened() as app:
        files = Procedures(app).shelf.every()
    if as_json:
        print_json([_listed(file) for file in files])
        return
    rows = [(file.name, _steps(file), _about(file)) for file in files]
    print_rows(
        rows,
        ("procedure", "steps", "what it does"),
        empty="There are no procedures; `coilclaw docs sops` says how to write one.",
    )


@sop.command(short_help="Validate procedures and list every error.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.sops)
@json_option
def validate(names: tuple[str, ...], as_json: bool) -> int:
    """Check procedures, all of them or those named, and tell every fault with its step.

    Exit code: 0 all hold, 2 some do not.
    """
    from coilclaw.features.sops.procedures import Procedures

    with opened() as app:
        shelf = Procedures(app).shelf
        files = [shelf.read(name) for name in names] if names else shelf.every()
    if as_json:
        print_json([_listed(file) for file in files])
    for file in files if not as_json else ():
        if file.read.sop is not None:
            print_line(f"{one_line(file.name)}: valid, {_steps(file)}.")
        for fault in file.read.faults:
            tell(f"{one_line(file.name)}: {fault}", err=True)
    if not files and not as_json:
        print_line("There are no procedures.")
    return 2 if any(file.read.sop is None for file in files) else 0


@sop.command()
@click.argument("name", shell_complete=completion.sops)
@click.option("--job", "as_job", is_flag=True, help="Run it as a job in the background.")
@unsafe_option
@json_option
def run(name: str, as_job: bool, unsafe: bool, as_json: bool) -> int:
    """Run a procedure here, step by step. At a terminal you are asked in place; otherwise it stops and waits.

    Exit code: 0 done, 1 a step failed, 3 denied, 4 it waits for you or you rejected it, 5 ESTOP holds it.
    """
    with opened(unsafe=unsafe) as app:
        procedures = _procedures(app, quiet=as_json)
        if as_job:
            return asyncio.run(_hand_in(app, procedures, name, as_json=as_json))
        return asyncio.run(_run(app, procedures, name, as_json=as_json))


async def _hand_in(app: "Runtime", procedures: "Procedures", name: str, *, as_json: bool) -> int:
    from coilclaw.features.jobs.background import Background
    from coilclaw.features.jobs.job_requests import Request
    from coilclaw.features.jobs.job_views import summary
    from coilclaw.gate.executor import worker_is_running

    procedures.load(name)
    request = Request(goal=f"Run the procedure {name}.", thread_id=thread_of(app, None), channel="cli", sop=name)
    made = await Background(app).desk().create(request)
    if as_json:
        print_json(summary(made))
    else:
        print_line(made.job_id)
    if not worker_is_running(app.home.locks_dir):
        tell("No worker is running: start `coilclaw worker` to run it.", err=True)
    return 0


async def _run(app: "Runtime", procedures: "Procedures", name: str, *, as_json: bool) -> int:
    file = procedures.load(name)
    if app.estop.engaged():
        from coilclaw.cli.commands.estop import way_out

        passkey = app.owner_proof.registered(app.db.reader)
        tell(f"ESTOP is engaged: nothing was started. {way_out(passkey=passkey)}", err=True)
        return 5
    begun = await procedures.start(name)
    if not as_json:
        print_line(f"{begun.run_id}: procedure {file.name}, {_steps(file)}.")
    if file.labels:
        app.warn(
            f"{name} contains untrusted content ({', '.join(file.labels)}), so its run is tainted. Read it,"
            " then vouch for"
            f" it: `coilclaw labels forget sops/{name}/SOP.toml`."
        )
    return _end(app, await procedures.go_on(begun.run_id), as_json=as_json)


@sop.command()
@click.argument("run_id", required=False, metavar="[RUN]", shell_complete=completion.sop_runs)
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Maximum number of runs to list."
)
@json_option
def status(run_id: str | None, limit: int, as_json: bool) -> None:
    """Show a run and each of its steps, or the recent runs."""
    from coilclaw.features.sops.procedures import Procedures

    with opened() as app:
        procedures = Procedures(app)
        if run_id is not None:
            found = procedures.find(run_id)
            if as_json:
                print_json(told(app, found))
                return
            _show(app, found)
            if found.state == "WAITING" and found.job_id is None and not procedures.answered(found):
                _how_to_go_on(app, found)
            elif procedures.cut_off(found):
                print_line(f"Nothing is running it now. Continue with: coilclaw sop resume {found.run_id}")
            return
        runs = procedures.runs(limit)
    if as_json:
        print_json([_summary(each) for each in runs])
        return
    rows = [(each.run_id, each.name, each.state, moment(each.created_at), each.reason) for each in runs]
    print_rows(rows, ("run", "procedure", "state", "started", "reason"), empty="No procedure has been run yet.")


@sop.command(short_help="Answer the run's pending approval and continue it here.")
@click.argument("run_id", metavar="RUN", shell_complete=completion.sop_runs)
@unsafe_option
@json_option
def approve(run_id: str, unsafe: bool, as_json: bool) -> int:
    """Answer what a run waits for, at the terminal, and let it go on here.

    Exit code as for `sop run`.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("only the owner at an interactive terminal can approve.", remedy="Run it there.")
    with opened(unsafe=unsafe) as app:
        procedures = _procedures(app, quiet=as_json)
        found = _open_run(procedures, run_id)
        if found.state != "WAITING":
            raise UsageError(
                f"{run_id} is not waiting for you.", remedy=f"Continue with `coilclaw sop resume {run_id}`."
            )
        return asyncio.run(_resume(app, procedures, found, as_json=as_json))


@sop.command(short_help="Resume a run that waited or was interrupted.")
@click.argument("run_id", metavar="RUN", shell_complete=completion.sop_runs)
@unsafe_option
@json_option
def resume(run_id: str, unsafe: bool, as_json: bool) -> int:
    """Go on with a run that waited, was held or was cut off, where it stopped.

    Exit code as for `sop run`.
    """
    with opened(unsafe=unsafe) as app:
        procedures = _procedures(app, quiet=as_json)
        return asyncio.run(_resume(app, procedures, _open_run(procedures, run_id), as_json=as_json))


async def _resume(app: "Runtime", procedures: "Procedures", found: "RunRow", *, as_json: bool) -> int:
    if procedures.changed(found):
        app.warn(f"sops/{found.name}/SOP.toml has changed since; this run continues with the steps it started with.")
    return _end(app, await procedures.go_on(found.run_id), as_json=as_json)


def _open_run(procedures: "Procedures", run_id: str) -> "RunRow":
    from coilclaw.store.sops import OVER

    found = procedures.find(run_id)
    if found.state in OVER:
        raise UsageError(
            f"{run_id} is {found.state} ({found.reason.rstrip('.')}).",
            remedy=f"Start over: coilclaw sop run {found.name}",
        )
    if found.job_id is not None:
        raise UsageError(
            f"{run_id} belongs to {found.job_id}; a worker continues it.",
            remedy="Answer what it waits for with `coilclaw approvals`.",
        )
    return found


def _procedures(app: "Runtime", *, quiet: bool) -> "Procedures":
    from coilclaw.cli.terminal import Terminal
    from coilclaw.features.sops.procedures import Procedures

    return Procedures(app, terminal=Terminal(), say=None if quiet else _tell)


def _tell(procedure: "Sop", row: "StepRow") -> None:
    """One line for a step that begins, waits or ends."""
    step = procedure.steps[row.position]
    head = f"[{row.position + 1}/{len(procedure.steps)}] {row.step_id}"
    if row.state == "RUNNING":
        again = f", try {row.attempt + 1}" if row.attempt else ""
        print_line(f"{head}: {step.tool or step.kind}{again} …")
        return
    words = {"SUCCEEDED": "done", "FAILED": "failed", "SKIPPED": "skipped", "WAITING": "waits", "HELD": "held"}
    code = f" ({row.code})" if row.code and row.state in ("FAILED", "HELD") else ""
    about = one_line(to_owner(row.output, row.code).strip().replace("\n", " "))
    print_line(f"{head}: {words[row.state]}{code}. {about[:SHOWN]}{'…' if len(about) > SHOWN else ''}".rstrip())


def _end(app: "Runtime", moved: "Moved", *, as_json: bool) -> int:
    """Tell how far it came; the exit code that says so."""
    if as_json:
        print_json({**told(app, moved.run), "stopped": moved.stop})
    elif moved.stop == "held":
        print_line(f"{moved.run.run_id} is held by ESTOP. Once cleared: coilclaw sop resume {moved.run.run_id}")
    else:
        print_line(f"{moved.run.run_id} is {moved.run.state}. {one_line(moved.run.reason)}")
        if moved.stop == "waiting":
            _how_to_go_on(app, moved.run)
    if moved.stop in ("held", "waiting"):
        return 5 if moved.stop == "held" else 4
    return 0 if moved.run.state == "DONE" else _failed(app, moved.run)


def _how_to_go_on(app: "Runtime", found: "RunRow") -> None:
    """What the owner can do about a run that waits; what it waits for stands in its reason."""
    from coilclaw.gate.executor import worker_is_running
    from coilclaw.store.sops import steps_of_run

    rows = steps_of_run(app.db.reader, found.run_id).values()
    if any(row.state == "WAITING" and row.code == "APPROVAL_NEEDED" for row in rows):
        print_line(f"Answer and continue: coilclaw sop approve {found.run_id}")
        if worker_is_running(app.home.locks_dir):
            print_line("Or answer with `coilclaw approvals` or in the panel: the worker continues it.")
        else:
            print_line(f"Or answer with `coilclaw approvals`, then: coilclaw sop resume {found.run_id}")
    else:
        print_line(f"Afterwards, continue: coilclaw sop resume {found.run_id}")


def _failed(app: "Runtime", found: "RunRow") -> int:
    from coilclaw.store.actions import load_action
    from coilclaw.store.sops import steps_of_run

    failed = [row for row in steps_of_run(app.db.reader, found.run_id).values() if row.state == "FAILED"]
    if not failed:
        return 1
    if failed[-1].code in ("OWNER_REFUSED", "EXPIRED"):
        return 4
    action = load_action(app.db.reader, failed[-1].action_id) if failed[-1].action_id else None
    return 3 if action is not None and action.status == "REJECTED" else 1


# Showing


def _steps(file: "SopFile") -> str:
    return counted(len(file.read.sop.steps), "step") if file.read.sop is not None else "-"


def _about(file: "SopFile") -> str:
    if file.read.sop is not None:
        return file.read.sop.description
    return f"broken: {file.read.faults[0]}"


def _listed(file: "SopFile") -> "dict[str, Json]":
    made = file.read.sop
    return {
        "name": file.name,
        "valid": made is not None,
        "description": made.description if made is not None else "",
        "steps": [{"id": step.id, "kind": step.kind} for step in made.steps] if made is not None else [],
        "faults": [{"step": fault.step, "message": fault.message} for fault in file.read.faults],
        "file_hash": file.file_hash,
        "labels": list(file.labels),
    }


def _summary(found: "RunRow") -> "dict[str, Json]":
    return {
        "run_id": found.run_id,
        "name": found.name,
        "state": found.state,
        "reason": found.reason,
        "position": found.position,
        "job_id": found.job_id,
        "conversation_id": found.thread_id,
        "file_hash": found.file_hash,
        "taint": [*found.fresh, *found.inherited],
        "created_at": found.created_at,
        "updated_at": found.updated_at,
    }


def told(app: "Runtime", found: "RunRow") -> "dict[str, Json]":
    """Everything there is to say about a run."""
    from coilclaw.features.sops.sop import thaw
    from coilclaw.store.sops import steps_of_run

    rows = steps_of_run(app.db.reader, found.run_id)
    steps: list[Json] = []
    for step in thaw(found.sop_json).steps:
        row = rows.get(step.id)
        about: dict[str, Json] = {"id": step.id, "kind": step.kind, "state": "TO DO"}
        if row is not None:
            about |= {
                "state": row.state,
                "code": row.code,
                "attempt": row.attempt,
                "failures": row.failures,
                "action_id": row.action_id,
                "output": row.output,
                "output_hash": row.output_hash,
                "artifact_id": row.artifact_id,
                "label": row.label,
                "started_at": row.started_at,
                "ended_at": row.ended_at,
            }
        steps.append(about)
    return {**_summary(found), "steps": steps}


def _show(app: "Runtime", found: "RunRow") -> None:
    from coilclaw.features.sops.sop import thaw
    from coilclaw.store.sops import steps_of_run

    print_line(f"run:    {found.run_id}")
    print_line(f"sop:    {found.name}")
    print_line(f"state:  {found.state}{': ' + one_line(found.reason) if found.reason else ''}")
    print_line(f"thread: {found.thread_id}")
    if found.fresh or found.inherited:
        print_line(f"taint:  {', '.join((*found.fresh, *found.inherited))}")
    rows = steps_of_run(app.db.reader, found.run_id)
    for step in thaw(found.sop_json).steps:
        row = rows.get(step.id)
        state = "to do" if row is None else f"{row.state}{' ' + row.code if row.code else ''}"
        action = f"  {row.action_id}" if row is not None and row.action_id else ""
        print_line(f"  {step.id}  {step.kind}  {state}{action}")
