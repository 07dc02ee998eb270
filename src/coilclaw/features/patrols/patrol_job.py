"""A patrol as the work of a job: each room and kind is one call through the gate, each done once."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.patrols.store import PatrolRun, load_run
from coilclaw.features.patrols.target import (
    INPUT,
    QUEST,
    REF,
    PatrolTarget,
    parts_of,
    read_target,
    run_id_of,
    settings_of,
)
from coilclaw.features.patrols.tools import RUN, RunPatrolArgs
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action, ToolCall
from coilclaw.packets.errors import CoilclawError, UsageError
from coilclaw.packets.ids import new_id
from coilclaw.packets.job import Plan, PlanStep, StepReport
from coilclaw.runtime.extensions import JobKind
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.store.actions import result_of
from coilclaw.store.jobs import load_job

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.job import JobLimits
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.jobs import JobRow


async def start_patrol(
    app: "Runtime", target: PatrolTarget, *, channel: str, key: str = "", ref: str = "", quest_id: str = ""
) -> "JobRow":
    """Hand a patrol in as a job; the same key again gives the job it made."""
    from coilclaw.features.jobs.background import Background
    from coilclaw.features.jobs.job_requests import Request

    parts_of(app, target)  # an unknown repository is refused before anything is stored
    inputs = {INPUT: target.text, REF: ref, QUEST: quest_id}
    request = Request(
        goal=f"Patrol {target.text}.",
        thread_id=new_id("conv", app.clock()),
        channel=channel,
        inputs={name: value for name, value in inputs.items() if value},
        key=key,
    )
    return await Background(app).desk().create(request)


def job_of_run(app: "Runtime", run_id: str) -> "JobRow | None":
    """The job that a run belongs to, also before the run has begun."""
    return load_job(app.db.reader, f"job_{run_id.removeprefix('patrol_')[:-10]}")


async def _step(app: "Runtime", conveyor: "Conveyor", job: "JobRow", limits: "JobLimits") -> StepReport:
    """Do what is left of a patrol. A call that needs the owner waits; the others are done meanwhile."""
    from coilclaw.features.patrols.suggestions import SUGGEST, suggest

    if job.spec.by_agent or job.spec.generation:
        return StepReport(stage="failed", reason="Patrols are started by you, a schedule or a webhook only.")
    try:
        target = read_target(app, str(job.spec.inputs[INPUT]))
        parts = parts_of(app, target)
    except CoilclawError as error:
        return StepReport(stage="failed", reason=str(error))
    turn = Turn(job.turn_id, job.thread_id, "gateway", job=limits)
    calls = OwnerCalls(app, conveyor)
    waiting: list[str] = []
    wrong: list[str] = []
    for room, kind in parts:
        if app.estop.engaged():
            return StepReport(stage="held")
        if kind == SUGGEST:
            done = await suggest(app, conveyor, job, target.repo, room)
            wrong += [f"{kind}: {done.reason}"] if done.state == "error" else []
            continue
        call, run_id = _call(app, job, target, room, kind)
        action = await _carried(calls, call, turn, run_id)
        if action.status in ("PENDING", "APPROVED"):
            waiting.append(action.action_id)
        elif fault := _fault(app, action, load_run(app.db.reader, run_id), target):
            wrong.append(f"{kind}: {fault}")
    if waiting:
        return StepReport(stage="waiting", waiting=tuple(waiting))
    if wrong:
        return StepReport(stage="failed", reason=" ".join(wrong)[:1000])
    return StepReport(stage="answered")


def _call(app: "Runtime", job: "JobRow", target: PatrolTarget, room: str, kind: str) -> tuple[ToolCall, str]:
    settings = settings_of(app, target.repo)
    run_id = run_id_of(job.job_id, room, kind)
    inputs = job.spec.inputs
    args = msgspec.convert(
        {
            "run_id": run_id,
            "job_id": job.job_id,
            "repo": target.repo,
            "room": room,
            "kind": kind,
            "command": {**settings.patrols}.get(kind, ""),
            "ref": str(inputs.get(REF, "")),
            "quest_id": str(inputs.get(QUEST, "")),
            "domains": settings.patrol_domains if kind == "deps" else (),
        },
        RunPatrolArgs,
    )
    return ToolCall.of(RUN, msgspec.to_builtins(args), justification=f"Job {job.job_id}"), run_id


async def _carried(calls: OwnerCalls, call: ToolCall, turn: Turn, run_id: str) -> Action:
    """The action of a part, as far as it goes now. What was begun under other settings goes on as it was."""
    key = f"{RUN}:{run_id}"
    known = calls.earlier(RUN, key)
    if known is None:
        return await calls.make(call, by="patrol", key=key, turn=turn, at_once=False)
    return known if known.status == "PENDING" else await calls.go_on(known, by="patrol")  # it was cut off


def _fault(app: "Runtime", action: Action, run: PatrolRun | None, target: PatrolTarget) -> str:
    """Why a part could not be done; empty when it was, whatever it found."""
    result = result_of(app.db.reader, action.action_id)
    if run is not None and run.state != "running":
        return run.reason if run.state == "error" else ""
    if result is not None and result.code == "NO_COMMAND":
        return "" if target.everything else result.output
    return (result.output if result is not None else action.rejection_reason) or "it was not carried out."


def _check(app: "Runtime", text: str) -> None:
    parts_of(app, read_target(app, text))


def _place(app: "Runtime", job_id: str) -> tuple[int, Plan] | None:
    job = load_job(app.db.reader, job_id)
    if job is None:
        return None
    try:
        parts = parts_of(app, read_target(app, str(job.spec.inputs[INPUT])))
    except (CoilclawError, UsageError):
        return None
    runs = [load_run(app.db.reader, run_id_of(job_id, room, kind)) for room, kind in parts]
    done = sum(run is not None and run.state != "running" for run in runs)
    steps = tuple(PlanStep(step_id=f"{room}:{kind}", description=f"{kind} {room}".strip()) for room, kind in parts)
    return done, Plan(job_id=job_id, steps=steps)


PATROL_JOB = JobKind(check=_check, step=_step, place=_place, writes=False)
