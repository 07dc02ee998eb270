"""Intake: from a request to a job's specification, what the rules in force say to it, and its plan. Pure."""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.jobs.repositories import place_of
from coilclaw.packets.errors import UsageError
from coilclaw.packets.job import Constraints, JobSpec, Plan, PlanStep
from coilclaw.packets.names import did_you_mean
from coilclaw.packets.skill import SkillUse

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

GOAL_BYTES = 64 * 1024
MAX_NAMES = 200
MAX_STEPS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")
_DOMAIN = re.compile(r"((\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|https?://[A-Za-z0-9.\[\]:-]{1,260})\Z")
"""As security.allowed_domains spells them."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's constraints are held against."""

    tools: frozenset[str]
    """Every tool there is."""
    allowed_tools: frozenset[str]
    """What the channel allows."""
    allowed_domains: tuple[str, ...]
    """What the configuration allows."""
    pull_requests: bool = False
    """Whether jobs end in pull requests."""
    keeps: bool = True
    """Whether anything may be kept at all: nothing in `readonly`."""
    has_repository: Callable[[str], bool] = str.isspace
    """Whether there is a folder here for that repository; by default for none."""


def rules_of(app: "Runtime") -> Rules:
    """What the constraints of jobs, and the needs of skills, are held against now."""
    config = app.config
    return Rules(
        tools=frozenset(app.tools),
        allowed_tools=app.allowed_tools,
        allowed_domains=tuple(config.security.allowed_domains),
        pull_requests=config.forge.enabled,
        keeps=config.security.autonomy != "readonly",
        has_repository=lambda repository: place_of(app, repository) is not None,
    )


def check_goal(goal: str, what: str = "the goal") -> str:
    """The goal, or another text of the owner's, if it can be taken."""
    if not goal.strip():
        raise UsageError(f"{what} is empty.", remedy="Say what you want done.")
    if "\0" in goal:
        raise UsageError(f"{what} contains NUL bytes.", remedy="Send text; put binary data in a workspace file.")
    try:
        size = len(goal.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} is not valid UTF-8 text.") from error
    if size > GOAL_BYTES:
        raise UsageError(
            f"{what} is {size} bytes; at most {GOAL_BYTES} are allowed.",
            remedy="Put the text in a workspace file and name that file in the goal.",
        )
    return goal


def check_spec(spec: JobSpec) -> JobSpec:
    """A specification that holds in itself, or a UsageError that names every fault."""
    steps_of(spec)
    wrong = faults(spec)
    if wrong:
        raise UsageError(f"{'; '.join(wrong)}.", remedy="See `coilclaw job create --help`.")
    return spec


def faults(spec: JobSpec) -> list[str]:
    """What is wrong with a specification in itself."""
    found: list[str] = []
    limits = spec.constraints
    if not spec.intent.strip():
        found.append("the intent is empty")
    for name, values, shape in (
        ("allowed_tools", limits.allowed_tools or (), _NAME),
        ("allowed_programs", limits.allowed_programs or (), _NAME),
        ("allowed_domains", limits.allowed_domains or (), _DOMAIN),
        ("evidence_required", spec.outputs.evidence_required, _NAME),
    ):
        if len(values) > MAX_NAMES:
            found.append(f"{name} has more than {MAX_NAMES} entries")
        found += [f"{name}: {value[:80]!r} is not a valid name" for value in values if not shape.match(value)]
    for name, number in (("max_files_changed", limits.max_files_changed), ("max_prs", limits.max_prs)):
        if number is not None and number < 0:
            found.append(f"{name} is negative")
    if spec.outputs.pr_required and limits.max_prs == 0:
        found.append("a pull request is required but none is allowed")
    return found


def with_programs(spec: JobSpec, rules: Rules) -> JobSpec:
    """The specification with programs told from tools: `allowed_tools` may name both, as the packet's document does.

    Our tools are named with an underscore or are known; any other name is a program's. Naming only programs narrows
    commands and leaves the tools as they are.
    """
    named = spec.constraints.allowed_tools
    programs = tuple(name for name in named or () if name not in rules.tools and "_" not in name)
    if named is None or not programs:
        return spec
    tools = tuple(name for name in named if name not in programs)
    limits = msgspec.structs.replace(
        spec.constraints,
        allowed_tools=tuple(dict.fromkeys((*tools, "shell"))) if tools else None,
        allowed_programs=(*(spec.constraints.allowed_programs or ()), *programs),
    )
    return msgspec.structs.replace(spec, constraints=limits)


def narrowed(limits: Constraints, by: Constraints) -> Constraints:
    """What both leave; whatever one of them does not say, the other does."""
    return Constraints(
        allowed_tools=_both(limits.allowed_tools, by.allowed_tools),
        allowed_programs=_both(limits.allowed_programs, by.allowed_programs),
        allowed_domains=_both_domains(limits.allowed_domains, by.allowed_domains),
        max_files_changed=_least(limits.max_files_changed, by.max_files_changed),
        max_prs=_least(limits.max_prs, by.max_prs),
    )


def _both(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(name for name in one if name in other)


def _both_domains(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    shared = (*(each for each in one if covered(each, other)), *(each for each in other if covered(each, one)))
    return tuple(dict.fromkeys(shared))


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def under_skills(limits: Constraints, uses: Iterable[SkillUse]) -> Constraints:
    """What skills leave of these limits, for work that a turn under them starts."""
    for use in uses:
        limits = narrowed(limits, Constraints(allowed_tools=use.tools, allowed_domains=use.domains))
    return limits


def unmet(spec: JobSpec, uses: Iterable[SkillUse], rules: Rules) -> list[str]:
    """Which preconditions of the skills of a job, or of a turn, do not hold, of those that can be checked."""
    used = tuple(uses)
    left = msgspec.structs.replace(spec, constraints=under_skills(spec.constraints, used))
    needed = [(use.skill, *need.split(":", 1)) for use in used for need in use.needs]
    return [
        f"the skill {skill} needs the {kind} {name}, {_WHY_NOT[kind]}"
        for skill, kind, name in needed
        if not _holds(left, kind, name, rules)
    ]


def unmet_in_turn(limits: Constraints, uses: Iterable[SkillUse], rules: Rules) -> list[str]:
    """The same for a turn of a conversation, whose inputs are in the owner's own words and cannot be looked up."""
    asked = tuple(
        msgspec.structs.replace(use, needs=tuple(need for need in use.needs if not need.startswith("input:")))
        for use in uses
    )
    return unmet(JobSpec(job_id="", intent="turn", constraints=limits), asked, rules)


def with_evidence(spec: JobSpec, uses: Iterable[SkillUse]) -> JobSpec:
    """The specification with the evidence that its skills ask for."""
    asked = (need.removeprefix("evidence:") for use in uses for need in use.needs if need.startswith("evidence:"))
    evidence = tuple(dict.fromkeys((*spec.outputs.evidence_required, *asked)))
    return msgspec.structs.replace(spec, outputs=msgspec.structs.replace(spec.outputs, evidence_required=evidence))


_WHY_NOT = {
    "tool": "which is not allowed here",
    "domain": "which is not allowed here",
    "input": "which was not given",
    "evidence": "which cannot be left without artifact_put",
}


def _holds(spec: JobSpec, kind: str, name: str, rules: Rules) -> bool:
    tools, domains = spec.constraints.allowed_tools, spec.constraints.allowed_domains
    match kind:
        case "tool":
            return name in rules.allowed_tools and (tools is None or name in tools)
        case "domain":
            return covered(name, rules.allowed_domains) and (domains is None or covered(name, domains))
        case "input":
            return name in spec.inputs
        case _:
            return can_put_evidence(spec, rules)


def objections(spec: JobSpec, rules: Rules) -> list[str]:
    """Why the rules in force do not let this job begin; a job narrows what is granted, it never widens it."""
    found: list[str] = []
    for tool in spec.constraints.allowed_tools or ():
        if tool not in rules.tools:
            found.append(f"There is no tool {tool!r}. {did_you_mean(tool, sorted(rules.tools))}")
        elif tool not in rules.allowed_tools:
            found.append(f"{tool} is not in channels.cli.tools_allow, and a job cannot extend that.")
    found += [
        f"{domain} is not in security.allowed_domains, and a job cannot extend that."
        for domain in spec.constraints.allowed_domains or ()
        if not covered(domain, rules.allowed_domains)
    ]
    if spec.repo is not None and not rules.has_repository(spec.repo):
        found.append(
            f"This job is about the repository {spec.repo}, of which no project here is a clone; add one with"
            " `coilclaw project add FOLDER`."
        )
    if spec.outputs.pr_required and not rules.pull_requests:
        found.append("This job requires a pull request, but forge.enabled is off.")
    if spec.outputs.evidence_required and not can_put_evidence(spec, rules):
        found.append("Evidence is required, but the job may not use artifact_put, which produces it.")
    return found


def can_put_evidence(spec: JobSpec, rules: Rules) -> bool:
    """Whether a job could leave an artifact."""
    chosen = spec.constraints.allowed_tools
    return rules.keeps and "artifact_put" in rules.allowed_tools and (chosen is None or "artifact_put" in chosen)


def covered(domain: str, allowed: Iterable[str]) -> bool:
    """Whether a listed domain covers this one: the same, or a wildcard above it."""
    wanted = domain.casefold()
    for each in allowed:
        listed = each.casefold()
        if listed == wanted or (listed.startswith("*.") and wanted.removeprefix("*.").endswith(listed[1:])):
            return True
    return False


def plan_of(spec: JobSpec, steps: tuple[str, ...]) -> Plan:
    """One step for each that was asked for, else one for the goal."""
    descriptions = steps or (spec.intent,)
    required = spec.outputs.evidence_required
    last = len(descriptions) - 1
    return Plan(
        job_id=spec.job_id,
        steps=tuple(
            PlanStep(step_id=f"s{number + 1}", description=text, evidence=required if number == last else ())
            for number, text in enumerate(descriptions)
        ),
        required_evidence=required,
    )


def steps_of(spec: JobSpec) -> tuple[str, ...]:
    """The steps that were asked for, as the specification carries them."""
    value = spec.inputs.get("steps", [])
    try:
        steps = msgspec.convert(value, tuple[str, ...])
    except msgspec.ValidationError as error:
        raise UsageError(f"the steps of the job are not a list of strings: {error}.") from error
    if len(steps) > MAX_STEPS:
        raise UsageError(f"a plan has at most {MAX_STEPS} steps; this one has {len(steps)}.")
    for number, step in enumerate(steps, start=1):
        check_goal(step, f"step {number}")
    return steps
