"""An SOP as the work of a job: each step of the job is one step of the procedure."""

from typing import TYPE_CHECKING, Literal, TypeAlias

from coilclaw.features.sops.procedures import Procedures
from coilclaw.gate.skills import uses_of
from coilclaw.packets.errors import StorageError, UsageError
from coilclaw.packets.job import Plan, PlanStep, StepReport
from coilclaw.runtime.extensions import JobKind
from coilclaw.store.job_history import job_artifacts
from coilclaw.tools.approval import with_runtime_tools

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.job import JobLimits
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.jobs import JobRow
    from coilclaw.store.sops import RunRow

Stage: TypeAlias = Literal["called", "waiting", "answered", "held", "failed"]


def sop_of(job: "JobRow") -> str:
    """The SOP a job runs; empty when it runs none."""
    name = job.spec.inputs.get("sop", "")
    return name if isinstance(name, str) else ""


def plan_of_run(run: "RunRow", job_id: str) -> Plan:
    """The steps of a run as the plan of its job: what its progress counts."""
    from coilclaw.features.sops.sop import thaw

    steps = thaw(run.sop_json).steps
    made = tuple(
        PlanStep(
            step_id=step.id, description=f"{step.id}: {step.prompt}" if step.prompt else step.id, tool=step.tool or None
        )
        for step in steps
    )
    return Plan(job_id=job_id, steps=made)


async def step_of_job(app: "Runtime", conveyor: "Conveyor", job: "JobRow", limits: "JobLimits") -> StepReport:
    """Do one step of the SOP a job runs: the first call begins the run, each one goes on where the last stopped."""
    from coilclaw.features.sops.run import Beginning
    from coilclaw.store.sops import run_of_job

    procedures = Procedures(app, conveyor=conveyor, patient=False)
    run = run_of_job(app.db.reader, job.job_id)
    if run is None:
        try:
            file = procedures.load(sop_of(job))
        except UsageError as error:
            return StepReport(stage="failed", reason=str(error))
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
    moved = await procedures.go_on(run.run_id, limits=with_runtime_tools(limits), once=True)
    run = moved.run
    stages: dict[str, Stage] = {"next": "called", "waiting": "waiting", "held": "held", "over": "answered"}
    stage = "failed" if run.state == "FAILED" else stages[moved.stop]
    if stage == "answered" and (lacking := _lacking(app, job)):
        return StepReport(stage="failed", reason=f"evidence missing: {', '.join(lacking)}.")
    return StepReport(stage=stage, reason=run.reason, waiting=moved.waiting, fresh=run.fresh, inherited=run.inherited)


def _lacking(app: "Runtime", job: "JobRow") -> list[str]:
    """What the job, or a skill that its run works under, asks for and no step of it left."""
    from coilclaw.features.jobs.evidence import missing
    from coilclaw.features.jobs.job_spec import with_evidence

    reader = app.db.reader
    required = with_evidence(job.spec, uses_of(reader, job.turn_id)).outputs.evidence_required
    return missing(required, job_artifacts(reader, job.job_id)) if required else []


def _check(app: "Runtime", name: str) -> None:
    from coilclaw.features.sops.sop_files import SopBroken
    from coilclaw.server.problems import Trouble

    try:
        Procedures(app).load(name)
    except SopBroken as error:
        raise Trouble(409, "SOP_BROKEN", error.message, remedy="Fix its file; GET /v1/sops says why.") from error


def _place(app: "Runtime", job_id: str) -> tuple[int, Plan] | None:
    from coilclaw.store.sops import run_of_job

    try:
        run = run_of_job(app.db.reader, job_id)
        return None if run is None else (run.position, plan_of_run(run, job_id))
    except StorageError:  # the job is shown all the same
        return None


SOP_JOB = JobKind(check=_check, step=step_of_job, place=_place)
