"""job_start and job_status: the agent hands work to the background, and sees how it goes."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.job import Constraints, JobSpec, Starter
from coilclaw.packets.labels import join_labels, untrusted_only
from coilclaw.packets.ports import Context, ToolOutput
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import Declared, nothing, outlasting

if TYPE_CHECKING:
    from coilclaw.features.jobs.job_requests import Request
    from coilclaw.features.jobs.job_spec import Rules
    from coilclaw.packets.action import Label
    from coilclaw.packets.ports import Tool
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.jobs import JobRow

CHANNEL = "agent"
LISTED = 10
SAID = 2000
"""Characters of a job's last words."""

START = (
    "Start a job that works in the background when this turn is over. Its answer comes to this conversation. At most"
    " three a turn, and not for what you can do now."
)

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=200)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]


class JobStartArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of job_start."""

    goal: Annotated[
        str, msgspec.Meta(description="What is to be done, complete in itself.", min_length=1, max_length=8192)
    ]
    steps: Annotated[
        tuple[Text, ...], msgspec.Meta(description="The steps of the plan, in order.", max_length=100)
    ] = ()
    tools: Annotated[Names, msgspec.Meta(description="The tools it may use; every one you have by default.")] = ()
    domains: Annotated[Names, msgspec.Meta(description="Hosts it may reach; only hosts on the allowlist.")] = ()
    max_files: Annotated[int, msgspec.Meta(description="Workspace files it may change.", ge=0)] | None = None
    evidence: Annotated[Names, msgspec.Meta(description="Artifacts it must leave, or it fails.")] = ()


class JobStatusArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of job_status."""

    job_id: Annotated[
        str, msgspec.Meta(description="Its id; without one, the latest jobs of this conversation.", max_length=128)
    ] = ""


def job_tools(runtime: "Runtime | None") -> "tuple[Tool, ...]":
    """The tools over a home; without one they can only be described."""

    async def job_start(args: JobStartArgs, context: Context) -> ToolOutput:
        if runtime is None or context.starter is None:
            raise ToolError("starting jobs was not granted to this call.", code="NOT_GRANTED", begun=False)
        return await _start(runtime, args, context, context.starter)

    async def job_status(args: JobStatusArgs, context: Context) -> ToolOutput:
        """See how a job that works in the same folder goes: its state, its steps and what it said last."""
        if runtime is None:
            raise ToolError("seeing jobs was not granted to this call.", code="NOT_GRANTED", begun=False)
        return _status(runtime, args.job_id, context.thread_id)

    job_start.__doc__ = START
    return (
        Declared(
            job_start,
            JobStartArgs,
            effect="WRITE",
            destination="internal",
            idempotent=True,
            always_ask=False,
            touches=outlasting,
            summary=lambda args: f"Start a job: {one_line(args.goal)[:200]}",
        ),
        Declared(
            job_status,
            JobStatusArgs,
            effect="READ",
            destination="internal",
            idempotent=True,
            always_ask=False,
            touches=nothing,
            summary=lambda args: f"See how {one_line(args.job_id) or 'the jobs of this conversation'} goes.",
        ),
    )


# Starting


async def _start(runtime: "Runtime", args: JobStartArgs, context: Context, starter: Starter) -> ToolOutput:
    from coilclaw.features.jobs.background import Background

    if not context.thread_id:
        raise _refused("there is no conversation to answer in.", "Start it from a conversation.", "NO_THREAD")
    in_a_row = runtime.config.schedules.followups_in_a_row
    if starter.generation >= in_a_row:
        raise _refused(
            f"{starter.generation} jobs and follow-ups followed one another without a message from the owner.",
            "Tell the owner what is left with reach_out; their next message resets the count.",
            "TOO_MANY_IN_A_ROW",
        )
    background = Background(runtime)
    try:
        request = _request(args, context, starter, background.rules())
        job = await background.desk().create(request)
    except UsageError as error:
        raise _refused(error.message, error.remedy, "BAD_JOB") from error
    return ToolOutput(
        text=f"Started {job.job_id}. It works in the background; job_status shows how it goes.",
        label=INTERNAL,
        metadata={"job_id": job.job_id},
    )


def _request(args: JobStartArgs, context: Context, starter: Starter, rules: "Rules") -> "Request":
    """The request for the job, with what it asked for and what its turn leaves; UsageError when it could not begin."""
    from coilclaw.features.jobs.job_requests import Request
    from coilclaw.features.jobs.job_spec import narrowed, objections, under_skills, with_programs
    from coilclaw.packets.job import Outputs

    asked = Constraints(
        allowed_tools=args.tools or None, allowed_domains=args.domains or None, max_files_changed=args.max_files
    )
    spec = with_programs(JobSpec(job_id="", intent=args.goal, constraints=asked), rules)
    spec = msgspec.structs.replace(spec, outputs=Outputs(evidence_required=args.evidence))
    against = objections(spec, rules)
    if against:
        raise UsageError(" ".join(against), remedy="Leave it out: a job only narrows what you may do.")
    limits = under_skills(narrowed(spec.constraints, starter.constraints), starter.skills)
    if limits.allowed_tools is not None:
        # A procedure's own tools stand in what its job leaves; no other job has them.
        own = tuple(name for name in limits.allowed_tools if name in rules.allowed_tools)
        limits = msgspec.structs.replace(limits, allowed_tools=own)
    return Request(
        goal=args.goal,
        thread_id=context.thread_id,
        channel=CHANNEL,
        constraints=limits,
        steps=args.steps,
        evidence=args.evidence,
        starter=starter,
        key=context.idempotency_key,
    )


def _refused(message: str, remedy: str, code: str) -> ToolError:
    return ToolError(message, remedy=remedy, code=code, begun=False)


# Seeing


def _status(runtime: "Runtime", job_id: str, thread_id: str) -> ToolOutput:
    from coilclaw.packets.names import did_you_mean
    from coilclaw.store.jobs import JobsWanted, jobs_before, load_job
    from coilclaw.store.projects import project_of

    db = runtime.db.reader
    if not job_id:
        rows, _ = jobs_before(db, JobsWanted(thread_id=thread_id), None, LISTED)
        lines = [f"{row.job_id}  {row.state}  {one_line(row.goal)[:120]}" for row in rows]
        text = "\n".join(lines) or "This conversation has no jobs."
        return ToolOutput(text=text, label=_label(runtime, rows), metadata={"jobs": len(rows)})
    row = load_job(db, job_id)
    if row is None:
        near, _ = jobs_before(db, JobsWanted(thread_id=thread_id), None, LISTED)
        hint = did_you_mean(job_id, [each.job_id for each in near])
        raise _refused(f"there is no job {one_line(job_id)!r}.", hint, "NO_SUCH_JOB")
    if row.thread_id != thread_id and project_of(db, row.thread_id) != project_of(db, thread_id):
        text = f"{job_id} works in another folder than this conversation, and nothing of it is told here."
        raise _refused(text, f"The owner sees it with `coilclaw job show {job_id}`.", "OTHER_FOLDER")
    return ToolOutput(text=_told(runtime, row), label=_label(runtime, [row]), metadata={"state": row.state})


def _told(runtime: "Runtime", row: "JobRow") -> str:
    from coilclaw.features.jobs.checkpoint import CheckpointRefused, read_checkpoint
    from coilclaw.features.jobs.job_views import waiting_for
    from coilclaw.packets.text import visible
    from coilclaw.store.job_history import last_answer

    try:
        position = read_checkpoint(row.checkpoint).position if row.checkpoint else 0
    except CheckpointRefused:
        position = 0
    lines = [f"{row.job_id} is {row.state}.{f' {one_line(row.reason)}' if row.reason else ''}"]
    lines.append(f"Goal: {one_line(row.goal)[:500]}")
    steps = row.plan.steps if row.plan is not None else ()
    if len(steps) > 1:
        done = len(steps) if row.state == "DONE" else position
        lines += [
            f"{'done' if number < done else 'open'}  {number + 1}. {one_line(step.description)[:200]}"
            for number, step in enumerate(steps)
        ]
    waiting = waiting_for(runtime, row) if row.state == "WAITING_APPROVAL" else []
    lines += [f"It waits for the owner's answer to {action.call.tool} ({action.action_id})." for action in waiting]
    said = visible(runtime.redact(last_answer(runtime.db.reader, row)))
    if said:
        lines.append(f"It said: {said[:SAID]}{'…' if len(said) > SAID else ''}")
    return "\n".join(lines)


def _label(runtime: "Runtime", rows: "list[JobRow]") -> "Label":
    """Everything the jobs ever took in, also in a step that left no checkpoint yet."""
    from coilclaw.store.job_history import brought_in

    found = [row.checkpoint_label for row in rows]
    for row in rows:
        found += [label for label, _ in brought_in(runtime.db.reader, row.thread_id, row.turn_id)]
    return join_labels(untrusted_only(found))
