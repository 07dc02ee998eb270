"""Planning: what a model's drafts make of a job's specification and plan. Pure; a draft only ever narrows."""

from typing import Annotated

import msgspec

from coilclaw.features.jobs.job_spec import (
    Rules,
    can_put_evidence,
    check_goal,
    covered,
    faults,
    narrowed,
    plan_of,
    steps_of,
)
from coilclaw.packets.errors import UsageError
from coilclaw.packets.job import Constraints, JobSpec, Outputs, Plan, PlanStep
from coilclaw.store.jobs import JobRow

MOST_STEPS = 20
DESCRIPTION = 2000
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=50)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]

SPEC_TASK = """
The message is the goal of a job. Say which limits the goal itself sets, and nothing that it does not say: a limit that
is too narrow makes the job fail. All four keys are required:
{{"allowed_tools": null, or a list of the only tools it is to use,
"allowed_domains": null, or a list of the only hosts it is to reach,
"max_files_changed": null, or a number,
"evidence_required": a list of short names of reports that it asks to be left, mostly empty}}
The tools are: {tools}.
""".strip()

PLAN_TASK = """
The message is the goal of a job. Plan it: as few steps as it needs, at most {most}, each complete in itself, in order.
All keys are required:
{{"steps": [{{"description": what to do,
"writes": whether it writes or changes files,
"evidence": a list of short names of artifacts that show it was done, mostly empty}}]}}
It may use these tools: {tools}.
""".strip()


class SpecDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits that a goal sets, as a model read it."""

    allowed_tools: Names | None
    allowed_domains: Names | None
    max_files_changed: Count | None
    evidence_required: Names


class StepDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step as a model planned it."""

    description: Annotated[str, msgspec.Meta(min_length=1, max_length=DESCRIPTION)]
    writes: bool
    evidence: Names


class PlanDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan as a model made it."""

    steps: Annotated[tuple[StepDraft, ...], msgspec.Meta(min_length=1, max_length=MOST_STEPS)]


_SPEC = msgspec.json.Decoder(SpecDraft)
_PLAN = msgspec.json.Decoder(PlanDraft)


def may_plan(job: JobRow) -> bool:
    """Whether a model plans this job: the owner gave no steps, and it is not a follow-up, which has its plan."""
    try:
        return not steps_of(job.spec) and not (job.spec.generation > 0 and not job.spec.by_agent)
    except UsageError:
        return False


def spec_task(job: JobRow, rules: Rules) -> str:
    """What a model is told before it reads a goal."""
    return SPEC_TASK.format(tools=", ".join(tools_of(job.spec, rules)))


def plan_task(job: JobRow, rules: Rules) -> str:
    """What a model is told before it plans."""
    return PLAN_TASK.format(most=MOST_STEPS, tools=", ".join(tools_of(job.spec, rules)))


def tools_of(spec: JobSpec, rules: Rules) -> list[str]:
    """The tools that a job may use."""
    chosen = spec.constraints.allowed_tools
    return sorted(name for name in rules.allowed_tools if chosen is None or name in chosen)


def read_spec(data: bytes, rules: Rules) -> SpecDraft:
    """A draft of a specification that holds in itself; ValueError with what is wrong."""
    draft = _SPEC.decode(data)
    unknown = [name for name in draft.allowed_tools or () if name not in rules.tools]
    if unknown:
        raise ValueError(f"there is no tool {', '.join(unknown)}")
    wrong = faults(JobSpec(job_id="", intent="x", constraints=_limits(draft), outputs=_outputs(draft)))
    if wrong:
        raise ValueError("; ".join(wrong))
    return draft


def read_plan(data: bytes) -> PlanDraft:
    """A draft of a plan that holds in itself; ValueError with what is wrong."""
    draft = _PLAN.decode(data)
    for number, step in enumerate(draft.steps, start=1):
        try:
            check_goal(step.description, f"step {number}")
        except UsageError as error:
            raise ValueError(error.message) from error
    named = tuple(name for step in draft.steps for name in step.evidence)
    wrong = faults(JobSpec(job_id="", intent="x", outputs=Outputs(evidence_required=named)))
    if wrong:
        raise ValueError("; ".join(wrong))
    return draft


def _limits(draft: SpecDraft) -> Constraints:
    return Constraints(
        allowed_tools=draft.allowed_tools,
        allowed_domains=draft.allowed_domains,
        max_files_changed=draft.max_files_changed,
    )


def _outputs(draft: SpecDraft) -> Outputs:
    return Outputs(evidence_required=draft.evidence_required)


def narrowed_spec(spec: JobSpec, draft: SpecDraft, rules: Rules) -> JobSpec:
    """The owner's specification within what the draft and the rules leave of it; never anything more.

    What it must leave behind grows only where it could leave it.
    """
    tools, domains = draft.allowed_tools, draft.allowed_domains
    if not all(covered(each, rules.allowed_domains) for each in domains or ()):
        domains = None  # pages elsewhere can still be opened, which a list without them would forbid
    wanted = Constraints(
        allowed_tools=None if tools is None else tuple(name for name in tools if name in rules.allowed_tools),
        allowed_domains=domains,
        max_files_changed=draft.max_files_changed,
    )
    limits = narrowed(spec.constraints, wanted)
    evidence = spec.outputs.evidence_required
    if can_put_evidence(msgspec.structs.replace(spec, constraints=limits), rules):
        evidence = tuple(dict.fromkeys((*evidence, *draft.evidence_required)))
    elif evidence:  # the draft would keep it from leaving what the owner asked for
        return spec
    outputs = msgspec.structs.replace(spec.outputs, evidence_required=evidence)
    return msgspec.structs.replace(spec, constraints=limits, outputs=outputs)


def planned(spec: JobSpec, draft: PlanDraft, rules: Rules) -> Plan:
    """The plan that a draft makes; what the specification requires is due with its last step in any case."""
    plain, can_put = plan_of(spec, ()), can_put_evidence(spec, rules)
    last = len(draft.steps) - 1
    steps = tuple(
        PlanStep(
            step_id=f"s{number + 1}",
            description=step.description,
            writes=step.writes,
            evidence=tuple(
                dict.fromkeys(
                    (*(step.evidence if can_put else ()), *(plain.required_evidence if number == last else ()))
                )
            ),
        )
        for number, step in enumerate(draft.steps)
    )
    return msgspec.structs.replace(plain, steps=steps, by_model=True)
