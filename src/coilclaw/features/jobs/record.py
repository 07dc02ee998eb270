"""What happens to a job is one transaction: the row, the job's event, the audit event, and a word in its thread."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec

from coilclaw.cli.phrases import JOBS
from coilclaw.features.jobs.checkpoint import Checkpoint, write_checkpoint
from coilclaw.features.jobs.evidence import put_manifest
from coilclaw.features.jobs.job_spec import Rules, faults, objections, plan_of, steps_of, with_programs
from coilclaw.features.jobs.lifecycle import move
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import INTERNAL, OWNER, Label
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.packets.job import ENDED, JobState, Starter
from coilclaw.packets.labels import untrusted_only
from coilclaw.store.job_history import standing_of, told_actions
from coilclaw.store.jobs import JobRow, add_job, add_job_event, save
from coilclaw.store.threads import MessageRow, add_message, ensure_thread, thread_labels
from coilclaw.store.tx import Tx

Words: TypeAlias = tuple[str, Label]
"""What a job is told, and whose words they are."""

SAID: dict[JobState, str] = {**JOBS, "MERGED": "merged", "DEPLOYED": "deployed"}
"""How a job stands, as its thread says it."""
ASKED = "You started the job {job_id} in this conversation. What is its goal?"
GO_AHEAD = "Carry it out now."
REMINDER = "Not everything you must leave is there. Leave what is missing with artifact_put, then answer again."
STEP = "Carry out step {number} of {of} of the plan now."


def create(tx: Tx, clock: Clock, job: JobRow, channel: str, starter: Starter | None = None) -> JobRow:
    """Receive a job: its thread, the words that start it, the row. It begins with every label of its conversation, and
    of the turn whose call started it."""
    ensure_thread(tx, clock, job.thread_id, channel, job.goal.strip().splitlines()[0])
    inherited = (
        thread_labels(tx, job.thread_id) if starter is None else (*thread_labels(tx, job.thread_id), *starter.inherited)
    )
    checkpoint = Checkpoint(
        inherited=untrusted_only(inherited), fresh=() if starter is None else untrusted_only(starter.fresh)
    )
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
    for number, (words, label) in enumerate(_opening(job)):
        _say_words(tx, clock, job, words, label, {}, f"msg_{job.job_id}{f'_goal{number}' if number else ''}")
    add_job_event(tx, clock, job.job_id, "created", {"deadline_at": job.deadline_at})
    add_event(tx, clock, "job_created", job.job_id, {"thread_id": job.thread_id})
    return job


def prepare(tx: Tx, clock: Clock, job: JobRow, rules: Rules, waits: Collection[JobState] = ()) -> JobRow:
    """Take a received job to where its first step can begin, or to its refusal; it stays in a state of `waits`, where a
    model has its say first."""
    if job.state == "RECEIVED" and job.state not in waits:
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
    if job.state == "POLICY_CHECKED" and job.state not in waits:
        plan = job.plan or plan_of(job.spec, steps_of(job.spec))
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
    if SAID[to] != SAID[job.state]:  # between the states of its start there is nothing to say
        _say(tx, clock, job, f"Job {job.job_id} is {SAID[to]}.{' ' + reason if reason else ''}", {"state": to})
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


def evidence_due(job: JobRow, position: int) -> tuple[str, ...]:
    """What must be there when that step is over; with the last one, everything the specification requires."""
    last = job.plan is None or position >= len(job.plan.steps) - 1
    required = job.spec.outputs.evidence_required if last else ()
    return tuple(dict.fromkeys((*evidence_at(job, position), *required)))


def words_of(job: JobRow, position: int) -> tuple[Words, ...]:
    """What is always shown at a place in the plan: the goal, and the step; the goal alone needs no second telling."""
    return (*_opening(job), *_step_words(job, position))


def _opening(job: JobRow) -> tuple[Words, ...]:
    """The owner's goal; one of the agent's own stands as the agent's words, with their label."""
    if not job.spec.by_agent:
        return ((job.goal, OWNER),)
    return ((ASKED.format(job_id=job.job_id), OWNER), (job.goal, job.checkpoint_label), (GO_AHEAD, OWNER))


def _step_words(job: JobRow, position: int) -> tuple[Words, ...]:
    if job.plan is None or not (job.plan.by_model or steps_of(job.spec)):
        return ()
    number, of = position + 1, len(job.plan.steps)
    step = f"Step {number} of {of}: {job.plan.steps[min(position, of - 1)].description}"
    if not (job.spec.by_agent or job.plan.by_model):
        return ((step, OWNER),)
    return ((step, job.checkpoint_label), (STEP.format(number=number, of=of), OWNER))


def say_step(tx: Tx, clock: Clock, job: JobRow, position: int) -> None:
    """Post the next step of the plan."""
    for number, (words, label) in enumerate(_step_words(job, position)):
        message_id = f"msg_{job.job_id}_{position}{f'_{number}' if number else ''}"
        about: dict[str, Json] = {"plan_step": position}
        if job.plan is not None and job.plan.by_model:
            about["told"] = True
        _say_words(tx, clock, job, words, label, about, message_id)


def say_further(tx: Tx, clock: Clock, job: JobRow, words: str, *, by_owner: bool) -> None:
    """Post what a job is to do beyond its plan: the owner's wish, or what the runtime found out."""
    if by_owner:
        _say_words(tx, clock, job, words, OWNER, {}, new_id("msg", clock()))
    else:
        _say(tx, clock, job, words, {})


def say_reminder(tx: Tx, clock: Clock, job: JobRow, position: int) -> None:
    """Post that a step was answered without its evidence. The names, which a model may have chosen, stand in the task:
    these words count as the owner's."""
    _say_words(tx, clock, job, REMINDER, OWNER, {"told": True}, f"msg_{job.job_id}_{position}_reminder")


def _say_words(
    tx: Tx, clock: Clock, job: JobRow, words: str, label: Label, metadata: dict[str, Json], message_id: str
) -> None:
    """Post what starts a job or a step: the owner's words, or the agent's, which may hold anything that was read."""
    row = MessageRow(
        message_id=message_id,
        thread_id=job.thread_id,
        turn_id=job.turn_id,
        role="user" if label == OWNER else "assistant",
        content=words,
        label=label,
        metadata={"job_id": job.job_id, **metadata, **_about_words(job, label)},
    )
    add_message(tx, clock, row)


def _about_words(job: JobRow, label: Label) -> dict[str, Json]:
    """That they are for the job alone and not for its conversation; and that the agent's may hold what was read."""
    told: dict[str, Json] = {"told": True} if job.spec.by_agent else {}
    return told if label == OWNER else {**told, "private": True}


def _say(tx: Tx, clock: Clock, job: JobRow, text: str, metadata: dict[str, Json]) -> None:
    row = MessageRow(
        message_id=new_id("msg", clock()),
        thread_id=job.thread_id,
        turn_id=job.turn_id,
        role="system",
        content=text,
        label=job.checkpoint_label,  # a reason may quote what a tainted model wrote
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
