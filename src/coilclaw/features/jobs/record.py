"""What happens to a job is one transaction: the row, the job's event, the audit event, and a word in its thread."""

from collections.abc import Mapping, Sequence

import msgspec

from coilclaw.features.jobs.checkpoint import Checkpoint, write_checkpoint
from coilclaw.features.jobs.evidence import put_manifest
from coilclaw.features.jobs.job_spec import Rules, faults, objections, plan_of, steps_of, with_programs
from coilclaw.features.jobs.lifecycle import move
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import INTERNAL, OWNER
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.packets.job import ENDED, JobState
from coilclaw.packets.labels import untrusted_only
from coilclaw.store.job_history import standing_of, told_actions
from coilclaw.store.jobs import JobRow, add_job, add_job_event, save
from coilclaw.store.threads import MessageRow, add_message, ensure_thread, thread_labels
from coilclaw.store.tx import Tx


def create(tx: Tx, clock: Clock, job: JobRow, channel: str) -> JobRow:
    """Receive a job: its thread, the owner's words that start it, the row."""
    ensure_thread(tx, clock, job.thread_id, channel, job.goal.strip().splitlines()[0])
    checkpoint = Checkpoint(inherited=untrusted_only(thread_labels(tx, job.thread_id)))
    job = add_job(
        tx,
        clock,
        msgspec.structs.replace(
            job,
            state="RECEIVED",
            next_wakeup_at=stamp(clock()),
            checkpoint=write_checkpoint(checkpoint),
            checkpoint_label=checkpoint.label,
        ),
    )
    _say(tx, clock, job, "user", job.goal, {}, f"msg_{job.job_id}")
    add_job_event(tx, clock, job.job_id, "created", {"deadline_at": job.deadline_at})
    add_event(tx, clock, "job_created", job.job_id, {"thread_id": job.thread_id})
    return job


def prepare(tx: Tx, clock: Clock, job: JobRow, rules: Rules) -> JobRow:
    """Take a received job to where its first step can begin, or to its refusal."""
    if job.state == "RECEIVED":
        wrong = faults(job.spec)
        try:
            steps_of(job.spec)
        except UsageError as error:
            wrong.append(error.message.rstrip("."))
        if wrong:
            return end(tx, clock, job, "FAILED", f"The specification is invalid: {'; '.join(wrong)}.", {})
        job = to_state(tx, clock, job, "PARSED")
    if job.state == "PARSED":
        job = msgspec.structs.replace(job, spec=with_programs(job.spec, rules))
        against = objections(job.spec, rules)
        if against:
            return end(tx, clock, job, "DENIED", " ".join(against), {})
        job = to_state(tx, clock, job, "POLICY_CHECKED")
    if job.state == "POLICY_CHECKED":
        plan = plan_of(job.spec, steps_of(job.spec))
        job = to_state(tx, clock, msgspec.structs.replace(job, plan=plan), "PLANNED")
    if job.state == "PLANNED":
        job = to_state(tx, clock, job, "EXECUTING")
        say_step(tx, clock, job, 0)
    return job


def to_state(
    tx: Tx, clock: Clock, job: JobRow, to: JobState, *, reason: str = "", evidence: Sequence[str] = ()
) -> JobRow:
    """Move a job, with whatever else changed about it."""
    paused_from = move(job.state, to, paused_from=job.paused_from, reason=reason, evidence=evidence)
    moved = msgspec.structs.replace(job, state=to, paused_from=paused_from, reason=reason)
    if to in ENDED:
        moved = msgspec.structs.replace(moved, worker=None, next_wakeup_at=None)
    moved = save(tx, clock, moved, job.version)
    add_job_event(
        tx, clock, job.job_id, "state", {"from": job.state, "to": to, "reason": reason, "evidence": list(evidence)}
    )
    add_event(tx, clock, "job_state", job.job_id, {"from": job.state, "to": to, "evidence": list(evidence)})
    text = f"Job {job.job_id}: {job.state} → {to}.{' ' + reason if reason else ''}"
    _say(tx, clock, job, "system", text, {"state": to})
    return moved


def end(tx: Tx, clock: Clock, job: JobRow, to: JobState, reason: str, files: Mapping[str, str | None]) -> JobRow:
    """End a job with its reason and its evidence."""
    ended = msgspec.structs.replace(job, state=to, reason=reason)
    manifest = put_manifest(tx, clock, ended, files)
    return to_state(tx, clock, job, to, reason=reason, evidence=(manifest,))


def keep(tx: Tx, clock: Clock, job: JobRow, kind: str, payload: dict[str, Json]) -> JobRow:
    """Save a job that stays in its state, and say what happened."""
    kept = save(tx, clock, job, job.version)
    add_job_event(tx, clock, job.job_id, kind, payload)
    add_event(tx, clock, f"job_{kind}", job.job_id, payload)
    return kept


def evidence_at(job: JobRow, position: int) -> tuple[str, ...]:
    """What the step at a place of the plan must leave."""
    return () if job.plan is None else job.plan.steps[min(position, len(job.plan.steps) - 1)].evidence


def words_of(job: JobRow, position: int) -> tuple[str, ...]:
    """The owner's words for a place in the plan: the goal, and the step; the goal alone needs no second telling."""
    if job.plan is None or not steps_of(job.spec):
        return (job.goal,)
    step = job.plan.steps[min(position, len(job.plan.steps) - 1)]
    return (job.goal, f"Step {position + 1} of {len(job.plan.steps)}: {step.description}")


def say_step(tx: Tx, clock: Clock, job: JobRow, position: int) -> None:
    """Post the owner's next step of the plan."""
    for words in words_of(job, position)[1:]:
        _say(tx, clock, job, "user", words, {"plan_step": position}, f"msg_{job.job_id}_{position}")


def _say(
    tx: Tx,
    clock: Clock,
    job: JobRow,
    role: str,
    text: str,
    metadata: dict[str, Json],
    message_id: str = "",
) -> None:
    row = MessageRow(
        message_id=message_id or new_id("msg", clock()),
        thread_id=job.thread_id,
        turn_id=job.turn_id,
        role="user" if role == "user" else "system",
        content=text,
        label=OWNER if role == "user" else job.checkpoint_label,  # a reason may quote what a tainted model wrote
        metadata={"job_id": job.job_id, **metadata},
    )
    add_message(tx, clock, row)


def told_outcomes(tx: Tx, clock: Clock, job: JobRow, action_ids: Sequence[str]) -> None:
    """See that the outcome of every action a job waited for stands in its thread, each once."""
    standing = standing_of(tx, job.turn_id)
    told = told_actions(tx, job.thread_id, job.turn_id)
    for action_id in action_ids:
        action = standing.get(action_id)
        if action is None or action_id in told:
            continue
        result = action.result
        text = result.output if result is not None else f"{action.status}. {action.rejection_reason or ''}".strip()
        row = MessageRow(
            message_id=new_id("msg", clock()),
            thread_id=job.thread_id,
            turn_id=job.turn_id,
            role="system",
            content=f"{action.tool} ({action_id}): {text}",
            label=result.label if result is not None else INTERNAL,
            action_id=action_id,
        )
        add_message(tx, clock, row)
