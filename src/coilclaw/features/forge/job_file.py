"""The files that every job's pull request carries: what was asked and done, its events, its evidence.

The model writes prose alone. Every fact comes from the runtime, and prose stands where nothing reads it as code.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from coilclaw.features.forge.inert import code, fenced, one_title, shortened
from coilclaw.features.forge.paths import events_path, evidence_path, job_file_path
from coilclaw.features.jobs.evidence import MOST_RECEIPTS, manifest
from coilclaw.features.schedules.store.schedule_runs import load_run
from coilclaw.gate.skills import uses_of
from coilclaw.ledger.audit import AuditEvent, Wanted, events_after
from coilclaw.ledger.chain import last_link
from coilclaw.packets.canonical import Json, JsonObject, NotCanonical, canonical_bytes, parse_object
from coilclaw.packets.decision import Risk
from coilclaw.packets.forge import MergeMode
from coilclaw.packets.ids import Clock
from coilclaw.packets.job import ChangeProposal, Constraints, JobState, Outputs
from coilclaw.packets.labels import untrusted_only
from coilclaw.packets.text import one_line, visible
from coilclaw.sandbox.bot_repository import Written
from coilclaw.store.job_history import ActionReceipt, standing_of, turn_receipts
from coilclaw.store.jobs import JobRow
from coilclaw.store.threads import channel_of
from coilclaw.store.tx import Tx
from coilclaw.store.usage import tokens_of_job

Stands: TypeAlias = Literal["proposed", "merged", "reverted", "unmerged"]
"""What the text is about: a pull request that waits, or a job that is over. What is reverted was merged, and did not
load."""
MOST_EVENTS = 20_000
MOST_SHOWN = 200
"""Files listed in a text; all of them stand in the evidence."""


UNKNOWN: dict[Stands, str] = {
    "proposed": "The commit that merges it names who allowed that.",
    "merged": "It was merged.",
    "reverted": "It was merged.",
    "unmerged": "Nothing of it was merged.",
}
"""What is said of the merge where it is not known who allowed it."""


class JobFileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the forge knows about a job's pull request."""

    branch: str
    base: str
    """The commit on main that the job began with."""
    pr: int | None
    mode: MergeMode
    risk: Risk
    summary: str
    """What was done, in the model's words."""
    files: Mapping[str, str | None]
    """Each changed path and the hash of what it holds now; None when it is gone."""
    models: tuple[str, ...]
    skills: tuple[str, ...]
    stands: Stands
    allowed_by: str
    """Who allowed the merge, as far as that is known; empty while nobody has."""
    runs: tuple[str, ...] = ()
    """Links to runs of the forge that belong to it; the embedded forge has none."""


class EvidenceFile(msgspec.Struct, frozen=True, kw_only=True):
    """Where the evidence of a job stands, and the hash that its manifest carries."""

    path: str
    manifest_hash: str


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """The frontmatter of `jobs/YYYY/MM/<job_id>.md`: a key and a JSON value on each line, which is YAML too."""

    job_id: str
    parent_id: str | None
    """The job that started this one."""
    run_instance_id: str | None
    """The run of a schedule that it is."""
    intent: str
    state: JobState
    """PR_OPENED in the pull request itself; the final one follows with the daily export."""
    reason: str
    requested_at: str
    channel: str
    risk_level: Risk
    mode: MergeMode
    """The merge mode when the file was written."""
    branch: str
    base: str
    """The commit on main that it began with."""
    constraints: Constraints
    outputs: Outputs
    untrusted: tuple[str, ...]
    """The untrusted sources that it took in."""
    skills: tuple[str, ...]
    models: tuple[str, ...]
    tokens: int
    receipts: tuple[str, ...]
    """Ids of the receipts of its actions, in the ledger's order."""
    ledger_head: str
    """The size of the receipt chain and the hash of its last receipt, with a colon between them."""
    evidence: EvidenceFile
    pr: int | None
    runs: tuple[str, ...]
    """Links to runs of the forge."""


def runtime_files(
    db: Tx, clock: Clock, job: JobRow, facts: JobFileFacts, evidence: JsonObject | None = None
) -> list[Written]:
    """The three files that the runtime adds to the pull request of a job; `evidence` is what stands on main already."""
    found = manifest(db, clock, job, facts.files) if evidence is None else evidence
    events = _events(db, job)
    receipts = turn_receipts(db, job.turn_id, MOST_RECEIPTS)
    about = _frontmatter(db, job, facts, receipts, str(found["manifest_hash"]))
    lines = b"".join(_event_line(event) + b"\n" for event in events)
    text = f"---\n{_yaml(about)}---\n\n{_body(job, about, facts, receipts)}"
    return [
        Written(job_file_path(job.job_id, job.created_at), text.encode("utf-8")),
        Written(events_path(job.job_id), lines),
        Written(evidence_path(job.job_id), canonical_bytes(found) + b"\n"),
    ]


def skills_of_job(db: Tx, job: JobRow) -> tuple[str, ...]:
    """The skills a job worked under, each with its hash and why."""
    return tuple(f"{use.skill} sha256:{use.sha256} ({use.why})" for use in uses_of(db, job.turn_id))


def ledger_head(db: Tx) -> str:
    """Where the receipt chain stands: its size and its last hash."""
    size, last = last_link(db)
    return f"{size}:{last}"


def _frontmatter(
    db: Tx, job: JobRow, facts: JobFileFacts, receipts: Sequence[ActionReceipt], manifest_hash: str
) -> JobFile:
    return JobFile(
        job_id=job.job_id,
        parent_id=job.spec.parent_id,
        run_instance_id=_run_of(db, job),
        intent=job.spec.intent,
        state="PR_OPENED" if facts.stands == "proposed" else job.state,
        reason=job.reason,
        requested_at=job.created_at,
        channel=channel_of(db, job.thread_id),
        risk_level=facts.risk,
        mode=facts.mode,
        branch=facts.branch,
        base=facts.base,
        constraints=job.spec.constraints,
        outputs=job.spec.outputs,
        untrusted=untrusted_only((job.checkpoint_label,)),
        skills=facts.skills,
        models=facts.models,
        tokens=tokens_of_job(db, job.job_id),
        receipts=tuple(receipt.id for receipt in receipts),
        ledger_head=ledger_head(db),
        evidence=EvidenceFile(path=evidence_path(job.job_id), manifest_hash=manifest_hash),
        pr=facts.pr,
        runs=facts.runs,
    )


def _run_of(db: Tx, job: JobRow) -> str | None:
    """The schedule's run that made the job. Inputs are anybody's words: only a run that names the job counts."""
    about = job.spec.inputs.get("schedule_run")
    named = about.get("run_instance_id") if isinstance(about, Mapping) else None
    run = load_run(db, named) if isinstance(named, str) else None
    return run.run_instance_id if run is not None and run.job_id == job.job_id else None


def _yaml(about: JobFile) -> str:
    """A key and a JSON value on each line: every YAML reader takes JSON, and a quoted string cannot end the block."""
    fields: dict[str, Json] = msgspec.to_builtins(about)
    return "".join(f"{name}: {canonical_bytes(_shown(value)).decode()}\n" for name, value in fields.items())


def _shown(value: Json) -> Json:
    """The value with every hidden character in its texts shown; line breaks stay, as escapes."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(name): _shown(inner) for name, inner in value.items()}
    return [_shown(inner) for inner in value] if isinstance(value, Sequence) else value


# Events


def _events(db: Tx, job: JobRow) -> list[AuditEvent]:
    """The events of a job and of its actions so far, in order."""
    found: list[AuditEvent] = []
    for entity in (job.job_id, job.turn_id, *standing_of(db, job.turn_id)):
        found += events_after(db, Wanted(entity_id=entity), 0, MOST_EVENTS)
        if len(found) > MOST_EVENTS:
            break
    return sorted(found, key=lambda event: event.seq)[:MOST_EVENTS]


def _event_line(event: AuditEvent) -> bytes:
    about: dict[str, Json] = {
        "seq": event.seq,
        "id": event.entry_id,
        "type": event.event_type,
        "entity": event.entity_id,
        "time": event.created_at,
    }
    try:
        return canonical_bytes({**about, "payload": event.payload})
    except NotCanonical:  # a damaged row is told as far as it can be
        return canonical_bytes({**about, "payload": visible(repr(event.payload))})


# The text


def _body(job: JobRow, about: JobFile, facts: JobFileFacts, receipts: Sequence[ActionReceipt]) -> str:
    sections = {
        "Asked": fenced(job.goal),
        "Done": _done(facts.summary, facts.files),
        "Why": _why(job, about),
        "Who allowed it": _allowed(facts, receipts),
        "Evidence": _evidence(about, "../../../"),
        "Security notes": _security(job, about),
        "How to undo": _undo(facts),
    }
    parts = [f"# Job {job.job_id}", *(part for name, text in sections.items() for part in (f"## {name}", text))]
    return "\n\n".join(parts) + "\n"


def _done(summary: str, files: Mapping[str, str | None]) -> str:
    words = f"In the agent's words:\n\n{fenced(summary)}" if summary.strip() else "The agent said nothing about it."
    return f"{words}\n\n{_listed(files)}"


def _listed(files: Mapping[str, str | None]) -> str:
    if not files:
        return "No file was changed."
    lines = [
        f"- {code(path)} {'is removed' if files[path] is None else f'sha256 {files[path]}'}"
        for path in sorted(files)[:MOST_SHOWN]
    ]
    more = len(files) - MOST_SHOWN
    left = [f"- and {more} more, all of them in the evidence"] if more > 0 else []
    return "\n".join([f"Files changed: {len(files)}", "", *lines, *left])


def _why(job: JobRow, about: JobFile) -> str:
    if about.run_instance_id is not None:
        asked = f"It is the run {code(about.run_instance_id)} of a schedule."
    elif job.spec.by_agent:
        parent = f" while it worked on {code(about.parent_id)}" if about.parent_id else ""
        asked = f"The agent started it{parent}; the goal is in the agent's words."
    else:
        asked = f"The owner asked for it (channel {code(about.channel)}, {about.requested_at})."
    if job.plan is None:
        return asked
    steps = "\n".join(f"{number}. {step.description}" for number, step in enumerate(job.plan.steps, start=1))
    return f"{asked} The plan, made by {'a model' if job.plan.by_model else 'the runtime'}:\n\n{fenced(steps)}"


def _allowed(facts: JobFileFacts, receipts: Sequence[ActionReceipt]) -> str:
    count = {status: sum(each.status == status for each in receipts) for status in sorted({r.status for r in receipts})}
    told = ", ".join(f"{number} {status}" for status, number in count.items()) or "none"
    merge = one_line(facts.allowed_by) if facts.allowed_by.strip() else UNKNOWN[facts.stands]
    return f"{fenced(merge)}\n\nCalls of the job, each decided by the gate, by their receipts: {told}."


def _evidence(about: JobFile, root: str) -> str:
    events, evidence = events_path(about.job_id), about.evidence.path
    return "\n".join(
        (
            f"- [{evidence}]({root}{evidence}), manifest hash {about.evidence.manifest_hash}",
            f"- [{events}]({root}{events}), the audit events so far",
            f"- {len(about.receipts)} receipts; the chain stood at {about.ledger_head}",
        )
    )


def _security(job: JobRow, about: JobFile) -> str:
    sources = ", ".join(code(label) for label in about.untrusted)
    lines = [
        f"- Risk {about.risk_level}; merge mode {about.mode}.",
        f"- Untrusted sources it took in: {sources}." if sources else "- It took in no untrusted content.",
    ]
    if job.reason:
        lines.append(f"- The runtime noted: {code(shortened(job.reason, 400))}")
    return "\n".join(lines)


def _undo(facts: JobFileFacts) -> str:
    takes_back = f"`coilclaw pr revert {facts.pr}` opens a pull request that takes it back."
    return {
        "proposed": f"Once it is merged, {takes_back}",
        "merged": takes_back,
        "reverted": "It was merged and did not load; the security notes say what became of it.",
        "unmerged": "Nothing of it was merged, so there is nothing to undo.",
    }[facts.stands]


# The pull request


def change_proposal(
    job: JobRow, files_touched: Sequence[str], title: str, summary: str, risk_before: Risk, risk_after: Risk
) -> ChangeProposal:
    """What a job proposes: the words are the model's, made harmless; files and risk are the real difference's."""
    return ChangeProposal(
        job_id=job.job_id,
        files_touched=tuple(files_touched),
        pr_title=one_title(title, f"Changes of {job.job_id}"),
        pr_summary=visible(summary.strip()),
        risk_before=risk_before,
        risk_after=risk_after,
    )


def pull_text(job: JobRow, proposal: ChangeProposal, facts: JobFileFacts) -> tuple[str, str]:
    """Title and Markdown body of a job's pull request."""
    record, events, evidence = (
        job_file_path(job.job_id, job.created_at),
        events_path(job.job_id),
        evidence_path(job.job_id),
    )
    sources = untrusted_only((job.checkpoint_label,))
    body = [
        f"Job {job.job_id}. Risk {proposal.risk_after}, from the paths it changes.",
        "## Asked",
        fenced(job.goal),
        "## Done",
        _done(proposal.pr_summary, facts.files),
        "## Evidence",
        "\n".join(f"- [{path}]({path})" for path in (record, evidence, events)),
        "## Security notes",
        f"Untrusted sources: {', '.join(map(code, sources))}." if sources else "It took in no untrusted content.",
    ]
    return one_title(proposal.pr_title, f"Changes of {job.job_id}"), "\n\n".join(body) + "\n"


def commit_message(title: str, job_id: str, evidence_hash: str, policy_hash: str, ledger_head: str) -> str:
    """A commit message whose trailers are the runtime's: of the title nothing but one line is left."""
    trailers = {"Job": job_id, "Evidence": evidence_hash, "Policy-Hash": policy_hash, "Ledger-Head": ledger_head}
    lines = "".join(f"{name}: {one_line(value).strip() or 'none'}\n" for name, value in trailers.items())
    return f"{one_title(title, f'Changes of {job_id}')}\n\n{lines}"


def manifest_hash(own: Sequence[Written]) -> str:
    """The hash of a job's evidence, as the runtime wrote it."""
    evidence = next(each.data for each in own if each.path.startswith("audit/evidence/"))
    assert evidence is not None  # noqa: S101 - the runtime writes it
    return str(parse_object(evidence.strip()).get("manifest_hash"))


def left_out(paths: tuple[str, ...]) -> str:
    """What a pull request says of files that cannot be committed."""
    if not paths:
        return ""
    return f"\n\nLeft out, because it cannot be committed: {'; '.join(paths[:20])}"
