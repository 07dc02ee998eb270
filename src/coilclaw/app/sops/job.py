"""An SOP as the work of a job: each step of the job is one step of the procedure."""

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.app.sops.procedures import Procedures
from coilclaw.packets.action import Label
from coilclaw.packets.errors import UsageError
from coilclaw.packets.job import Plan, PlanStep
from coilclaw.tools.approval import RUNTIME_TOOLS

if TYPE_CHECKING:
    from coilclaw.app.app import App
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.job import JobLimits
    from coilclaw.store.jobs import JobRow
    from coilclaw.store.sops import RunRow

Stage: TypeAlias = Literal["called", "waiting", "answered", "held", "failed"]


class JobStep(msgspec.Struct, frozen=True, kw_only=True):
    """How far one step of a job came that runs an SOP."""

    stage: Stage
    """A step is over; some action waits; every step is over; ESTOP holds it; the SOP has failed."""
    reason: str = ""
    waiting: tuple[str, ...] = ()
    fresh: tuple[Label, ...] = ()
    inherited: tuple[Label, ...] = ()


def sop_of(job: "JobRow") -> str:
    """The SOP a job runs; empty when it runs none."""
    name = job.spec.inputs.get("sop", "")
    return name if isinstance(name, str) else ""


def with_questions(limits: "JobLimits") -> "JobLimits":
    """The limits of a job, which never keep its SOP from asking the owner."""
    allowed = limits.constraints.allowed_tools
    if allowed is None:
        return limits
    wider = msgspec.structs.replace(limits.constraints, allowed_tools=(*allowed, *sorted(RUNTIME_TOOLS)))
    return msgspec.structs.replace(limits, constraints=wider)


def plan_of_run(run: "RunRow", job_id: str) -> Plan:
    """The steps of a run as the plan of its job: what its progress counts."""
    from coilclaw.agent.sops.sop import thaw

    steps = thaw(run.sop_json).steps
    made = tuple(
        PlanStep(
            step_id=step.id, description=f"{step.id}: {step.prompt}" if step.prompt else step.id, tool=step.tool or None
        )
        for step in steps
    )
    return Plan(job_id=job_id, steps=made)


async def step_of_job(app: "App", conveyor: "Conveyor", job: "JobRow", limits: "JobLimits") -> JobStep:
    """Do one step of the SOP a job runs: the first call begins the run, each one goes on where the last stopped."""
    from coilclaw.agent.sops.run import Beginning
    from coilclaw.store.sops import run_of_job

    procedures = Procedures(app, conveyor=conveyor, patient=False)
    run = run_of_job(app.db.reader, job.job_id)
    if run is None:
        try:
            file = procedures.load(sop_of(job))
        except UsageError as error:
            return JobStep(stage="failed", reason=str(error))
        assert file.read.sop is not None  # noqa: S101 - load looked
        run = await procedures.begin(
            Beginning(
                sop=file.read.sop,
                file_hash=file.file_hash,
                labels=file.labels,
                thread_id=job.thread_id,
                channel="job",
                turn_id=job.turn_id,
                job_id=job.job_id,
            )
        )
    moved = await procedures.go_on(run.run_id, limits=with_questions(limits), once=True)
    run = moved.run
    stages: dict[str, Stage] = {"next": "called", "waiting": "waiting", "held": "held", "over": "answered"}
    stage = "failed" if run.state == "FAILED" else stages[moved.stop]
    return JobStep(stage=stage, reason=run.reason, waiting=moved.waiting, fresh=run.fresh, inherited=run.inherited)
