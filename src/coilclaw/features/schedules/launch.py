"""Launching a run: the job that a schedule's slot makes, in the transaction that claims the slot."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import msgspec

from coilclaw.features.jobs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from coilclaw.features.jobs.job_spec import GOAL_BYTES
from coilclaw.features.jobs.record import create, end
from coilclaw.features.schedules.durations import in_words
from coilclaw.features.schedules.store.schedule_runs import LastRun, RunRow
from coilclaw.features.schedules.store.schedules import JobPayload, ScheduleRow, SopPayload, project_name
from coilclaw.gate.root import folder_fault
from coilclaw.packets.action import INTERNAL, OWNER, Label
from coilclaw.packets.canonical import Json, canonical_bytes
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.packets.job import JobSpec
from coilclaw.packets.labels import join_labels, untrusted_only
from coilclaw.packets.text import one_line
from coilclaw.store.job_history import add_job_artifact
from coilclaw.store.jobs import JobBudget, JobRow, save
from coilclaw.store.projects import last_named
from coilclaw.store.threads import MessageRow, add_message, ensure_thread
from coilclaw.store.tx import Tx

CHANNEL = "schedule"
LATE_SECONDS = 600
"""From here on a job is told that it is late."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What every run's job is given."""

    budget: JobBudget
    max_hours: int
    redact: Callable[[str], str]


def launch(tx: Tx, clock: Clock, row: ScheduleRow, run: RunRow, last: LastRun | None, terms: Terms) -> JobRow:
    """Make the job of a run, which names it; `last` is the run before it. The owner's own schedule text starts it; a
    follow-up's words stay the agent's."""
    now = clock()
    job_id = run.job_id or new_id("job", now)
    followup = row.origin == "followup"
    thread_id = row.thread_id if followup and row.thread_id else f"conv_{job_id.removeprefix('job_')}"
    spec = _redacted(_spec(row, run, last, job_id), terms.redact)
    goal = terms.redact(_asked(row) if followup else _goal(row, run, last))
    named = project_name(row.payload)
    project = None if named is None else last_named(tx, named)
    if project is not None:  # a removed one too: its conversation works there or nowhere
        ensure_thread(tx, clock, thread_id, CHANNEL, goal.strip().splitlines()[0], project=project.project_id)
    job = create(
        tx,
        clock,
        JobRow(
            job_id=job_id,
            thread_id=thread_id,
            goal=goal,
            state="RECEIVED",
            spec=spec,
            budget=terms.budget,
            deadline_at=stamp(now + timedelta(hours=terms.max_hours)),
        ),
        CHANNEL,
    )
    if fault := project_fault(tx, named):
        return end(tx, clock, job, "FAILED", f"PROJECT_GONE: {fault}", {})
    if followup and isinstance(row.payload, JobPayload):
        return _tell_plan(tx, clock, row, terms.redact(row.payload.intent), job)
    return job


def project_fault(db: Tx, named: str | None) -> str:
    """Why runs cannot work in the project of that name, or empty. The workspace never takes its place."""
    if named is None:
        return ""
    project = last_named(db, named)
    if project is None:
        return f"there is no project {one_line(named)!r}."
    return folder_fault(project) if project.removed_at is None else f"the project {project.name} was removed."


def _spec(row: ScheduleRow, run: RunRow, last: LastRun | None, job_id: str) -> JobSpec:
    about: dict[str, Json] = {
        "schedule_id": row.schedule_id,
        "run_instance_id": run.run_instance_id,
        "scheduled_at": run.scheduled_at,
        "lateness_seconds": run.lateness_seconds,
        "last_run": None if last is None else {"at": last.at, "status": last.status},
    }
    payload = row.payload
    if isinstance(payload, SopPayload):
        inputs: dict[str, Json] = {**payload.inputs, "sop": payload.sop, "schedule_run": about}
    else:
        inputs = {**payload.inputs, "schedule_run": about}
    return JobSpec(
        job_id=job_id,
        intent=_intent(row),
        inputs=inputs,
        constraints=payload.constraints,
        outputs=payload.outputs,
        generation=payload.generation if isinstance(payload, JobPayload) else 0,
        parent_id=(payload.parent_id or None) if isinstance(payload, JobPayload) else None,
    )


def _redacted(spec: JobSpec, redact: Callable[[str], str]) -> JobSpec:
    """What was no secret when it was declared may be one by now; none is stored with a job."""
    inputs = {redact(name): _without(value, redact) for name, value in spec.inputs.items()}
    return msgspec.structs.replace(spec, intent=redact(spec.intent), inputs=inputs)


def _without(value: Json, redact: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(name): _without(inner, redact) for name, inner in value.items()}
    return [_without(inner, redact) for inner in value] if isinstance(value, Sequence) else value


def _intent(row: ScheduleRow) -> str:
    """The owner's words; for a follow-up, which has none of theirs, what it is."""
    if row.origin == "followup":
        return f"Carry out the follow-up {row.schedule_id}."
    return row.payload.intent if isinstance(row.payload, JobPayload) else f"Follow the procedure {row.payload.sop}."


def _goal(row: ScheduleRow, run: RunRow, last: LastRun | None) -> str:
    """The owner's words, what they gave along, and which run this is."""
    given = {name: value for name, value in row.payload.inputs.items() if name != "steps"}
    intent = _intent(row)
    parts = [intent]
    if given:
        parts.append(f"Inputs: {canonical_bytes(given).decode()}")
    which = "asked for by hand" if run.cause == "manual" else f"scheduled for {run.scheduled_at}"
    late = f", {in_words(run.lateness_seconds)} late" if run.lateness_seconds >= LATE_SECONDS else ""
    parts.append(f"({row.schedule_id}, {which}{late}.)")
    parts.append("It has not run before." if last is None else f"The previous run was at {last.at}: {last.status}.")
    goal = "\n\n".join(parts)
    return goal if len(goal.encode()) <= GOAL_BYTES else intent


def _asked(row: ScheduleRow) -> str:
    return f"The follow-up {row.schedule_id} that you planned on {row.created_at[:16]}Z is due. What did you plan?"


def _tell_plan(tx: Tx, clock: Clock, row: ScheduleRow, plan: str, job: JobRow) -> JobRow:
    """The plan is told as the agent's own words with their label: nothing of it counts as said by the owner."""
    label = join_labels(row.labels) if row.labels else INTERNAL
    kept = add_job_artifact(
        tx, clock, job, kind="followup", name=row.schedule_id, content=plan.encode("utf-8"), label=label
    )
    said: tuple[tuple[str, str, Label], ...] = (
        ("assistant", plan, label),
        ("user", f"Carry it out now. `artifact_get {kept}` shows your plan again.", OWNER),
    )
    for number, (role, text, its) in enumerate(said):
        message = MessageRow(
            message_id=f"msg_{job.job_id}_followup{number}",
            thread_id=job.thread_id,
            turn_id=job.turn_id,
            role="assistant" if role == "assistant" else "user",
            content=text,
            label=its,
            metadata={"job_id": job.job_id, "private": role == "assistant"},  # a plan may hold anything that was read
        )
        add_message(tx, clock, message)
    return _inherit(tx, clock, job, row.labels)


def _inherit(tx: Tx, clock: Clock, job: JobRow, labels: tuple[Label, ...]) -> JobRow:
    """A job starts with the labels of the turn that planned it."""
    if not untrusted_only(labels):
        return job
    before = Checkpoint() if job.checkpoint is None else read_checkpoint(job.checkpoint)
    after = msgspec.structs.replace(before, inherited=untrusted_only((*before.inherited, *labels)))
    tainted = msgspec.structs.replace(job, checkpoint=write_checkpoint(after), checkpoint_label=after.label)
    return save(tx, clock, tainted, job.version)
