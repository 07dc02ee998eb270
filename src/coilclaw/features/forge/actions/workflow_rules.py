"""Whether a workflow file keeps to the matrix. Pure: bytes in, every fault out, each with its place.

Whatever is not allowed by name is a fault: a key, an action, an expression, a command, a job, a file.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from coilclaw.features.forge.actions.workflow_rows import (
    ACTIONS,
    CHECKOUT,
    DOWNLOAD,
    FOLDER,
    INSTALL,
    MOST_MINUTES,
    PROGRAM,
    ROWS,
    RUNNER,
    STOP_ENV,
    STOP_RUN,
    UNPACK,
    JobRights,
    WorkflowRow,
)
from coilclaw.features.forge.actions.workflow_yaml import NotPlainYaml, Yaml, read_yaml

Faults: TypeAlias = Iterator[str]
_TOP = ("name", "run-name", "on", "permissions", "concurrency", "jobs")
_JOB = (
    "name", "needs", "if", "runs-on", "timeout-minutes", "environment", "permissions", "outputs", "steps",
)  # fmt: skip
_STEP = ("name", "id", "env", "run", "uses", "with")
_INPUT = ("description", "required", "default", "type")
_WHY = {
    "env": "what it holds would reach every step; give it to a step",
    "defaults": "it changes how every step runs",
    "container": "a job runs on the runner; untrusted code is contained by `coilclaw ci`",
    "services": "a job has no services",
    "strategy": "each job runs once",
    "secrets": "no secret is passed on whole, and none to a reusable workflow",
    "uses": "reusable workflows are not used: what they do is not in this file",
    "continue-on-error": "a failure must stop what follows",
    "shell": "every command is read by the same shell",
    "working-directory": "every command runs at the root of the checkout",
}
_FORBIDDEN_TRIGGERS = (
    "pull_request_target", "workflow_run", "issues", "issue_comment", "workflow_call", "repository_dispatch",
)  # fmt: skip
_ENV_NAME = r"CI_[A-Z][A-Z_]{0,39}"
_VALUE = r"\$\{\{ (inputs\.[a-z_]+|needs\.[a-z]+\.outputs\.manifest|vars\.COILCLAW_[A-Z_]+|github\.sha) \}\}"
_SECRET = r"\$\{\{ secrets\.([A-Z][A-Z0-9_]*) \}\}"  # noqa: S105 - an expression
_TOKEN = "${{ github.token }}"  # noqa: S105 - an expression, not a token
_EXPRESSION = re.compile(r"\$\{\{")


def workflow_faults(name: str, data: bytes, owner_id: int) -> Faults:
    """Everything in a file below `.github/workflows` that its row does not allow. The owner is known by number; 0 where
    the settings name none, so that any may stand there."""
    row = ROWS.get(name)
    if row is None:
        yield f"there is no such workflow: only {', '.join(ROWS)} may run here"
        return
    try:
        found = read_yaml(data)
    except NotPlainYaml as error:
        yield str(error)
        return
    if not isinstance(found, dict):
        yield "it must be a map with on, permissions and jobs"
        return
    yield from _keys("", found, _TOP)
    yield from _triggers(_map(found.get("on")), found.get("on"), row)
    if found.get("permissions") != {}:
        yield "permissions: it must be {} at the top, so that a job has only what it names"
    yield from _concurrency(found.get("concurrency"), row)
    yield from _plain("name", found.get("name", ""))
    if found.get("run-name", "") != row.run_name:
        yield f"run-name: it must be {row.run_name or 'left out'}"
    jobs = _map(found.get("jobs"))
    yield from (f"jobs.{job}: it has no row in the matrix" for job in jobs if job not in row.jobs)
    for job, wanted in row.jobs.items():
        if job not in jobs:
            yield f"jobs.{job}: it is missing"
        elif not isinstance(jobs[job], dict):
            yield f"jobs.{job}: it must be a map"
        else:
            yield from _job(f"jobs.{job}", _map(jobs[job]), wanted, owner_id)


def is_workflow(path: str) -> bool:
    """Whether GitHub, or a file system that folds names, would take a path for a workflow."""
    name = path.casefold()
    return name.startswith(f"{FOLDER}/") and name.endswith((".yml", ".yaml"))


def workflow_name(path: str) -> str:
    """The name by which a workflow has its row; a path in another spelling or deeper down has none."""
    return path.removeprefix(f"{FOLDER}/")


# The whole file


def _triggers(given: Mapping[str, Yaml], raw: Yaml | None, row: WorkflowRow) -> Faults:
    if not isinstance(raw, dict):
        yield "on: it must be a map of triggers"
        return
    for name in given:
        if name in _FORBIDDEN_TRIGGERS:
            yield f"on.{name}: strangers or other workflows would start it"
        elif name not in row.triggers:
            yield f"on.{name}: this workflow starts on {', '.join(row.triggers)} only"
    for name, wanted in row.triggers.items():
        if name not in given:
            yield f"on.{name}: it is missing"
            continue
        value = given[name]
        if name == "workflow_dispatch":
            yield from _inputs(_map(value), wanted)
        elif name == "schedule":
            yield from _schedule(value)
        elif value != {"branches": ["main"]}:
            yield f"on.{name}: it must be for the branch main alone"


def _inputs(given: Mapping[str, Yaml], wanted: Collection[str]) -> Faults:
    yield from _keys("on.workflow_dispatch", given, ("inputs",))
    inputs = _map(given.get("inputs"))
    if set(inputs) != set(wanted):
        yield f"on.workflow_dispatch.inputs: they must be {', '.join(wanted) or 'none'}"
    for name, about in inputs.items():
        yield from _keys(f"on.workflow_dispatch.inputs.{name}", _map(about), _INPUT)
        yield from _plain(f"on.workflow_dispatch.inputs.{name}", about)


def _schedule(value: Yaml) -> Faults:
    if not isinstance(value, list) or len(value) != 1 or set(_map(value[0])) != {"cron"}:
        yield "on.schedule: it must hold one cron expression"
    else:
        yield from _plain("on.schedule", value)


def _concurrency(value: Yaml | None, row: WorkflowRow) -> Faults:
    if value != {"group": row.group, "cancel-in-progress": "false"}:
        yield f"concurrency: its group must be {row.group!r}, and cancel-in-progress false"


# A job


def _job(place: str, job: Mapping[str, Yaml], row: JobRights, owner_id: int) -> Faults:
    yield from _keys(place, job, _JOB)
    yield from _plain(f"{place}.name", job.get("name", ""))
    if job.get("runs-on") != RUNNER:
        yield f"{place}.runs-on: it must be {RUNNER}: no self-hosted runner, and one image"
    yield from _permissions(f"{place}.permissions", job.get("permissions"), row)
    if job.get("environment", "") != row.environment:
        yield f"{place}.environment: it must be {row.environment or 'left out'}"
    yield from _minutes(f"{place}.timeout-minutes", job.get("timeout-minutes"))
    needs = job.get("needs", [])
    if (tuple(needs) if isinstance(needs, list) else (needs,)) != row.needs:
        yield f"{place}.needs: it must be {', '.join(row.needs) or 'left out'}"
    condition = job.get("if", "")
    if not isinstance(condition, str) or not re.fullmatch(row.condition, condition):
        yield f"{place}.if: it must be {row.condition or 'left out'}"
    elif owner_id and (named := re.search(r"'([0-9]+)'", condition)) is not None and named[1] != str(owner_id):
        yield f"{place}.if: it must name the account {owner_id}, which is yours"
    yield from _outputs(f"{place}.outputs", job.get("outputs", {}), row)
    steps = job.get("steps")
    if not isinstance(steps, list) or not steps:
        yield f"{place}.steps: they are missing"
        return
    first = _map(steps[0])
    if {key: value for key, value in first.items() if key != "name"} != {"env": STOP_ENV, "run": STOP_RUN}:
        yield f"{place}.steps[0]: the first step must read the kill switch COILCLAW_STOP"
    for number, step in enumerate(steps):
        yield from _step(f"{place}.steps[{number}]", step, row)


def _permissions(place: str, value: Yaml | None, row: JobRights) -> Faults:
    if not isinstance(value, dict):
        yield f"{place}: they must be a map of what this job needs"
        return
    for name, given in value.items():
        most = row.permissions.get(name, "none")
        if given != most and (given, most) != ("read", "write") and given != "none":
            yield f"{place}.{name}: its row allows {most}"


def _minutes(place: str, value: Yaml | None) -> Faults:
    minutes = int(value) if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,3}", value) else 0
    if not 0 < minutes <= MOST_MINUTES:
        yield f"{place}: it must be a number of at most {MOST_MINUTES}"


def _outputs(place: str, value: Yaml, row: JobRights) -> Faults:
    allowed = {"manifest": f"${{{{ steps.{row.verb}.outputs.manifest }}}}"}
    if value not in ({}, allowed):
        yield f"{place}: only the hash of a manifest leaves a job"


# A step


def _step(place: str, value: Yaml, row: JobRights) -> Faults:
    step = _map(value)
    if not step:
        yield f"{place}: it must be a map"
        return
    yield from _keys(place, step, _STEP)
    for key in ("name", "id"):
        yield from _plain(f"{place}.{key}", step.get(key, ""))
    if ("run" in step) == ("uses" in step):
        yield f"{place}: it must have either run or uses"
    yield from _env(f"{place}.env", step.get("env", {}), row)
    if "run" in step:
        yield from _run(f"{place}.run", step["run"], row)
        if "env" in step and step["env"] != STOP_ENV and not str(step["run"]).startswith(PROGRAM):
            yield f"{place}.env: only the step that runs `coilclaw ci` is given variables"
        if "with" in step:
            yield f"{place}.with: only an action has inputs"
    if "uses" in step:
        yield from _uses(place, step, row)
        if "env" in step:
            yield f"{place}.env: an action is given no environment"


def _env(place: str, value: Yaml, row: JobRights) -> Faults:
    if not isinstance(value, dict):
        yield f"{place}: it must be a map"
        return
    for name, text in value.items():
        if not re.fullmatch(_ENV_NAME, name):
            yield f"{place}.{name}: a variable of a step is named CI_…"
        if not isinstance(text, str):
            yield f"{place}.{name}: it must be a text"
        elif found := re.fullmatch(_SECRET, text):
            if not row.secrets or not re.fullmatch(row.secrets, found[1]):
                yield f"{place}.{name}: this job may not hold the secret {found[1]}"
        elif text == _TOKEN:
            if not row.token:
                yield f"{place}.{name}: this job may not hold a token"
        elif not re.fullmatch(_VALUE, text):
            yield from _plain(f"{place}.{name}", text)


def _run(place: str, value: Yaml, row: JobRights) -> Faults:
    text = value.strip() if isinstance(value, str) else ""
    if _EXPRESSION.search(text):
        yield f"{place}: no expression stands in a command; give it to the step's env"
    if text not in (STOP_RUN, INSTALL, UNPACK, f"{PROGRAM}{row.verb}"):
        yield f"{place}: this job runs `coilclaw ci {row.verb}`, and nothing else"
    if text == UNPACK and row.permissions:
        yield f"{place}: a job that may check out installs the program from its own checkout"


def _uses(place: str, step: Mapping[str, Yaml], row: JobRights) -> Faults:
    action = step["uses"]
    known = ACTIONS.get(action) if isinstance(action, str) else None
    if known is None:
        yield f"{place}.uses: {str(action)[:100]!r} is not an allowed action at its commit"
        return
    given = _map(step.get("with"))
    yield from _keys(f"{place}.with", given, known)
    for name, value in given.items():
        if name != "path" or value != _place_of(given):
            yield from _plain(f"{place}.with.{name}", value)
    if action == CHECKOUT:
        if not row.permissions:
            yield f"{place}.uses: this job checks nothing out; its tree is an artifact"
        if given.get("persist-credentials") != "false":
            yield f"{place}.with: persist-credentials must be false, or the token stays in the checkout"
        return
    yield from _artifact(f"{place}.with", given, row, taken=action == DOWNLOAD)


def _artifact(place: str, given: Mapping[str, Yaml], row: JobRights, *, taken: bool) -> Faults:
    """What an untrusted job made never lies over a checkout, and nothing leaves a job but what its command made."""
    name = given.get("name")
    if taken and name not in row.needs:
        yield f"{place}.name: this job takes artifacts only from {', '.join(row.needs) or 'nobody'}"
    if not taken and not row.hands_on:
        yield f"{place}: this job hands on nothing"
    elif not taken and name != row.verb:
        yield f"{place}.name: this job hands on {row.verb} and nothing else"
    if given.get("path") != _place_of(given):
        yield f"{place}.path: an artifact has a folder of its own below runner.temp, with its name"


def _place_of(given: Mapping[str, Yaml]) -> str:
    return f"${{{{ runner.temp }}}}/{given.get('name')}"


# Small things


def _keys(place: str, given: Mapping[str, Yaml], known: Collection[str]) -> Faults:
    for key in given:
        if key not in known:
            why = _WHY.get(key, "it is not used here")
            yield f"{place}{'.' if place else ''}{key[:80]}: {why}"


def _plain(place: str, value: Yaml) -> Faults:
    """Texts without expressions, all the way down."""
    if isinstance(value, str):
        if _EXPRESSION.search(value):
            yield f"{place}: this expression is not allowed here"
        return
    for each in value.values() if isinstance(value, dict) else value:
        yield from _plain(place, each)


def _map(value: Yaml | None) -> Mapping[str, Yaml]:
    return value if isinstance(value, dict) else {}
