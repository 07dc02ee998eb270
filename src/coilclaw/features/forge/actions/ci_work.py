"""The broker's and the untrusted part of a run: plan, fetch, analyse, author. Each reads what was handed to it, and
hands on a sealed folder."""

import asyncio
import io
import os
import tarfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.actions.handover import Handed
from coilclaw.features.forge.actions.remote_jobs import RemoteJobs
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.store import pull_of_job
from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.job_spec import check_goal, check_spec, covered, objections, steps_of, with_programs
from coilclaw.features.jobs.planning import plan_task, read_plan
from coilclaw.features.jobs.record import create
from coilclaw.packets.action import OWNER, ToolCall, untrusted
from coilclaw.packets.canonical import Json, JsonObject, canonical_bytes
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import CoilclawError, UsageError
from coilclaw.packets.ids import stamp
from coilclaw.packets.job import JobLimits, JobPacket, JobSpec
from coilclaw.store.job_history import add_job_artifact
from coilclaw.store.jobs import JobBudget, JobRow
from coilclaw.store.threads import MessageRow, add_message
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

MOST_FETCHES = 20
ANALYSE_SECONDS = 1800.0
CHANNEL = "actions"


class RunDenied(CoilclawError):
    """The policy does not let this job begin, or go on, where nobody can be asked."""

    exit_code = 3


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """One address that was fetched, the file with what came back, and whose words that is."""

    url: str
    file: str
    label: str


class RunPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the run may do, as it was decided before anything else."""

    spec: JobSpec
    fetch: tuple[str, ...]
    analyse: str
    image: str


# Plan


async def make_plan(app: "Runtime", job_id: str, into: Path) -> None:
    """Decide whether a job may begin, have a model plan it, and pack the tree for those that check nothing out."""
    packet = await RemoteJobs(app).packet(job_id)
    background = Background(app)
    rules = background.rules()
    spec = with_programs(_spec(packet), rules)
    check_spec(spec)
    if against := objections(spec, rules):
        raise RunDenied(" ".join(against))
    fetch, analyse = _fetches(spec, rules.allowed_domains), spec.inputs.get("analyse", "")
    image = app.config.forge.github.image
    if not isinstance(analyse, str) or (analyse and not image):
        raise UsageError("inputs.analyse is a command, and needs forge.github.image.")
    if not steps_of(spec):
        spec = await _planned(app, spec)
    plan = RunPlan(spec=spec, fetch=fetch, analyse=analyse, image=image)
    (into / "plan.json").write_bytes(msgspec.json.encode(plan))
    await asyncio.to_thread(_pack, app, into / "tree.tar")


def _spec(packet: JobPacket) -> JobSpec:
    return JobSpec(
        job_id=packet.job_id, intent=check_goal(packet.intent), inputs=packet.inputs,
        constraints=packet.constraints, outputs=packet.outputs,
    )  # fmt: skip


def _fetches(spec: JobSpec, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """The addresses a job names, each within what the owner and the job allow."""
    try:
        urls = msgspec.convert(spec.inputs.get("fetch", []), tuple[str, ...])
    except msgspec.ValidationError as error:
        raise UsageError("inputs.fetch is a list of addresses.") from error
    own = spec.constraints.allowed_domains
    for url in urls:
        scheme, _, rest = url.partition("://")
        host = rest.partition("/")[0]
        lists = [allowed] if own is None else [allowed, own]
        if not all(covered(host, each) or covered(f"{scheme}://{host}", each) for each in lists):
            raise RunDenied(f"{host[:200]!r} is not among the domains that this job may reach.")
    if len(urls) > MOST_FETCHES:
        raise UsageError(f"a job may name {MOST_FETCHES} addresses.")
    return urls


async def _planned(app: "Runtime", spec: JobSpec) -> JobSpec:
    """The specification with the steps that a model drafted; without them when its draft cannot be used."""
    from coilclaw.agent.drafts import Drafter
    from coilclaw.gate.turn import Turn

    rules, job = Background(app).rules(), _row(app, spec)
    drafter = Drafter(
        db=app.db, clock=app.clock, provider=app.provider(), model=app.config.default_model, estop=app.estop
    )
    limits = JobLimits(job_id=spec.job_id, constraints=spec.constraints)
    turn = Turn(job.turn_id, job.thread_id, "job", job=limits)
    draft = await drafter.draft(turn, "plan", plan_task(job, rules), (spec.intent, OWNER), read_plan)
    if draft.value is None:
        app.warn(f"no plan of a model is used: {draft.fault}")
        return spec
    steps: list[Json] = [step.description for step in draft.value.steps]
    return msgspec.structs.replace(spec, inputs={**spec.inputs, "steps": steps})


def _row(app: "Runtime", spec: JobSpec) -> JobRow:
    config, now = app.config, app.clock()
    return JobRow(
        job_id=spec.job_id,
        thread_id=f"conv_{spec.job_id.removeprefix('job_')}",
        goal=app.redact(spec.intent),
        state="RECEIVED",
        spec=spec,
        budget=JobBudget(tokens=config.budgets.job_tokens, steps=config.jobs.max_steps),
        deadline_at=stamp(now + timedelta(hours=config.jobs.max_hours)),
    )


def _pack(app: "Runtime", into: Path) -> None:
    """Pack the files of main: no link, no owner, no date of this machine."""
    forge = LocalForge(app)
    entries = forge.repository.entries(forge.bot.main())
    blobs = forge.repository.blobs(entry.blob for entry in entries.values())
    with tarfile.open(into, "w", format=tarfile.PAX_FORMAT) as tar:
        for path, entry in sorted(entries.items()):
            about = tarfile.TarInfo(path)
            about.size, about.mode = entry.size, 0o755 if entry.mode == "100755" else 0o644
            tar.addfile(about, io.BytesIO(blobs[entry.blob]))


def read_run_plan(handed: Handed) -> RunPlan:
    """The plan that was handed over."""
    return msgspec.json.decode(handed.read("plan.json"), type=RunPlan)


# Fetch


async def fetch_all(app: "Runtime", plan: RunPlan, into: Path) -> None:
    """Fetch every address the plan names, through the gate, which lets listed domains pass; what comes back is
    somebody else's words."""
    from coilclaw.cli.commands.tool import run_tool

    index: list[Fetched] = []
    for number, url in enumerate(plan.fetch):
        call = ToolCall.of("http", {"url": url})
        outcome = await run_tool(app, call, yes=False, approve=nobody, source="job")
        if outcome.pending or not outcome.result.success:
            raise RunDenied(f"{url[:200]} was not fetched: {outcome.result.error or 'it needs the owner'}")
        name = f"fetched-{number}.txt"
        (into / name).write_text(outcome.result.output, "utf-8")
        index.append(Fetched(url=url, file=name, label=outcome.result.label))
    (into / "index.json").write_bytes(msgspec.json.encode(index))


# Analyse


def analyse_tree(plan: RunPlan, handed: Handed, fetched: Handed, temp: Path, into: Path) -> None:
    """Run the job's command over the tree and what was fetched, in a container that can reach nothing."""
    from coilclaw.sandbox.container import run_container

    told: dict[str, Json] = {"ran": bool(plan.analyse)}
    output = b""
    if plan.analyse:
        tree = temp / "tree"
        tree.mkdir(mode=0o755)
        with tarfile.open(fileobj=io.BytesIO(handed.read("tree.tar"))) as tar:
            tar.extractall(tree, filter="data")
        (tree / "fetched").mkdir(exist_ok=True)
        for name in fetched.names("fetched-"):
            (tree / "fetched" / name).write_bytes(fetched.read(name))
        for place, _, names in os.walk(tree):  # nobody must be able to read it
            Path(place).chmod(0o755)
            for name in names:
                Path(place, name).chmod(Path(place, name).stat().st_mode | 0o444)
        done = run_container(plan.image, plan.analyse, tree, ANALYSE_SECONDS)
        output = done.output
        told |= {"exit_code": done.exit_code, "cut": done.cut}
    (into / "analysis.txt").write_bytes(output)
    (into / "analysis.json").write_bytes(canonical_bytes(told))


# Author


async def write_change(app: "Runtime", plan: RunPlan, fetched: Handed, analysed: Handed, into: Path) -> None:
    """Run the job to its pull request, which stays here, and hand on what it would change."""
    from coilclaw.features.jobs.terminal import work_on

    background = Background(app)
    job = await app.db.write(lambda tx: _begin(tx, app, plan, fetched, analysed))
    job = await work_on(app, background, job, None)
    pull = pull_of_job(app.db.reader, job.job_id)
    if pull is None or pull.state != "OPEN":
        if job.state == "DONE":
            (into / "nothing.json").write_bytes(canonical_bytes({"job_id": job.job_id, "reason": "no file changed"}))
            return
        raise RunDenied(f"{job.job_id} is {job.state}: {job.reason or 'a call would need the owner, who is not here'}")
    forge = LocalForge(app)
    changes = forge.repository.changes(pull.base_sha, pull.head_sha)
    blobs = forge.repository.blobs(change.new_blob for change in changes if change.new_blob)
    (into / "blobs").mkdir()
    for blob, data in blobs.items():
        (into / "blobs" / blob).write_bytes(data)
    files: list[Json] = [{"path": change.path, "mode": change.new_mode, "blob": change.new_blob} for change in changes]
    about, _, message = forge.repository.raw(pull.head_sha).partition(b"\n\n")
    when = int(about.rpartition(b"committer ")[2].split(b"> ")[1].split()[0])
    made: JsonObject = {"base": pull.base_sha, "files": files, "message": message.decode(), "when": when}
    (into / "change.json").write_bytes(canonical_bytes(made))
    (into / "pull.json").write_bytes(msgspec.json.encode(pull))
    resting = msgspec.structs.replace(job, checkpoint=None, worker=None)
    (into / "job.json").write_bytes(msgspec.json.encode(resting))


def _begin(tx: Tx, app: "Runtime", plan: RunPlan, fetched: Handed, analysed: Handed) -> JobRow:
    """Take the job in; what was fetched and analysed lies beside it, labelled, and is read by a call like any other."""
    index = msgspec.json.decode(fetched.read("index.json"), type=list[Fetched])
    kept = [(each.url, fetched.read(each.file), each.label) for each in index]
    if plan.analyse:
        kept.append(("the analysis", analysed.read("analysis.txt"), untrusted("analysis")))
    job = create(tx, app.clock, _row(app, plan.spec), CHANNEL)
    lines: list[str] = []
    for name, data, label in kept:
        made = add_job_artifact(tx, app.clock, job, kind="prepared", name=name, content=data, label=label)
        lines.append(f"`artifact_get {made}` shows {name}.")
    if lines:
        message = MessageRow(
            message_id=f"msg_{job.job_id}_prepared",
            thread_id=job.thread_id,
            turn_id=job.turn_id,
            role="user",
            content=app.redact("\n".join(("Prepared for it, and written by others:", *lines))),
            label=OWNER,
            metadata={"job_id": job.job_id},
        )
        add_message(tx, app.clock, message)
    return job
