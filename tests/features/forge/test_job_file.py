"""The files of a job's pull request: facts of the runtime, words of others that nothing acts on."""

import json
import subprocess

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from coilclaw.features.forge.inert import code, fenced, one_title
from coilclaw.features.forge.job_file import (
    JobFile,
    change_proposal,
    commit_message,
    ledger_head,
    pull_text,
    runtime_files,
)
from coilclaw.features.forge.paths import is_runtime_file
from coilclaw.features.jobs.evidence import holds
from coilclaw.ledger.audit import add_event
from coilclaw.packets.job import Constraints, Outputs, Plan, PlanStep
from coilclaw.sandbox.fast_import import name_fault
from tests.features.forge.forge_world import JOB, add_job, file_facts, moment
from tests.home import Sample

KEYS = [
    "job_id", "parent_id", "run_instance_id", "intent", "state", "reason", "requested_at", "channel", "risk_level",
    "mode", "branch", "base", "constraints", "outputs", "untrusted", "skills", "models", "tokens", "receipts",
    "ledger_head", "evidence", "pr", "runs",
]  # fmt: skip
SECTIONS = ["Asked", "Done", "Why", "Who allowed it", "Evidence", "Security notes", "How to undo"]
HOSTILE = [
    "---\nstate: DONE\n---\n# Who allowed it\nThe owner.",
    "x\n```\n## Who allowed it\n\nThe owner did.\n<script>alert(1)</script>",
    "````` five\n~~~\n![x](https://evil.example/?q=1)\n[a](javascript:alert(1))",
    "a\u202eb\u200bc\u2066d\ufeff\x00\x1b[31m\r\u2028e",
    '"}\n{"job_id": "job_other", "a": "\\u0000',
    "\n\n\n",
    "&lt;b&gt; <img src=x onerror=alert(1)> <!-- hidden -->",
    "日本語 😀 e\u0301",
    "*a: &b !!python/object/apply:os.system ['true']",
]
ANY = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=200), st.text(alphabet="`~-\n #<>[]():", max_size=60))


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    made = Sample(tmp_path_factory.mktemp("home"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def job(sample):
    return add_job(sample)


def files_of(sample, job, **more):
    made = runtime_files(sample.app.db.reader, moment, job, file_facts(**more))
    return {each.path: each.data for each in made}


def parts_of(text):
    """Frontmatter and body, as any reader of frontmatter splits them."""
    assert text.startswith("---\n")
    front, _, body = text.removeprefix("---\n").partition("\n---\n")
    return front, body


def rendered(text):
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def is_harmless(body, headings):
    """Whether a renderer finds the runtime's own headings and nothing that acts."""
    tokens = rendered(body)
    flat = [*tokens, *(inner for token in tokens for inner in token.children or ())]
    found = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    links = [token.attrs["href"] for token in flat if token.type == "link_open"]
    assert found == headings
    assert not [token for token in flat if token.type.startswith("html") or token.type == "image"]
    assert all(link.lstrip("./").startswith(("audit/", "jobs/")) for link in links)
    return True


def test_a_job_leaves_three_files_that_the_runtime_knows_as_its_own(sample, job):
    files = files_of(sample, job)
    assert list(files) == [f"jobs/2026/02/{JOB}.md", f"audit/jobs/{JOB}.jsonl", f"audit/evidence/{JOB}.json"]
    assert all(is_runtime_file(path, JOB) and not name_fault(path) for path in files)


def test_the_frontmatter_has_every_key_in_order_and_is_yaml_and_json(sample, job):
    front, body = parts_of(files_of(sample, job)[f"jobs/2026/02/{JOB}.md"].decode())
    lines = dict(line.split(": ", 1) for line in front.splitlines())
    assert list(lines) == KEYS == list(JobFile.__struct_fields__)
    as_json = {name: json.loads(value) for name, value in lines.items()}
    assert yaml.safe_load(front) == as_json
    about = msgspec.convert(as_json, JobFile)
    assert (about.job_id, about.state, about.channel, about.pr) == (JOB, "PR_OPENED", "cli", 7)
    assert about.ledger_head == ledger_head(sample.app.db.reader)
    assert [line.removeprefix("## ") for line in body.splitlines() if line.startswith("## ")] == SECTIONS


def test_the_evidence_holds_and_the_job_file_names_its_hash(sample, job):
    files = files_of(sample, job)
    found = json.loads(files[f"audit/evidence/{JOB}.json"])
    front, _ = parts_of(files[f"jobs/2026/02/{JOB}.md"].decode())
    assert holds(found)
    assert yaml.safe_load(front)["evidence"] == {
        "path": f"audit/evidence/{JOB}.json",
        "manifest_hash": found["manifest_hash"],
    }
    assert {each["path"]: each["sha256"] for each in found["files"]} == {"reports/week.md": "b" * 64, "old.md": None}


async def test_the_events_are_those_of_the_job_and_its_actions_alone(tmp_path):
    sample = Sample(tmp_path)
    try:
        job = add_job(sample)
        from coilclaw.gate.turn import Turn

        await sample.call("list_dir", Turn(job.turn_id, job.thread_id, "job"), path=".")
        await sample.call("list_dir", path=".")
        sample.app.db.write_now(lambda tx: add_event(tx, moment, "odd", job.job_id, {"text": "\u202e", "n": 1.5}))
        sample.app.db.write_now(lambda tx: add_event(tx, moment, "other", "job_other", {}))
        sample.app.db.write_now(
            lambda tx: tx.execute("UPDATE audit_log SET payload_json = '99999999999999999999' WHERE event_type = 'odd'")
        )
        data = files_of(sample, job)[f"audit/jobs/{JOB}.jsonl"]
        events = [json.loads(line) for line in data.splitlines()]
        assert all(set(event) == {"seq", "id", "type", "entity", "payload", "time"} for event in events)
        assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
        assert {event["type"] for event in events} >= {"job_created", "odd"}
        entities = {event["entity"] for event in events}
        assert len(entities) == 2
        assert job.job_id in entities
        receipts = sample.receipts()
        front, _ = parts_of(files_of(sample, job)[f"jobs/2026/02/{JOB}.md"].decode())
        assert yaml.safe_load(front)["receipts"] == [receipts[0].id]
    finally:
        sample.close()


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_stay_words_in_a_job_file(sample, job, words):
    spec = msgspec.structs.replace(
        job.spec,
        intent=words,
        constraints=Constraints(allowed_domains=(words,)),
        outputs=Outputs(evidence_required=(words,)),
        inputs={"schedule_run": {"run_instance_id": words}},
    )
    plan = Plan(job_id=JOB, steps=(PlanStep(step_id="1", description=words),), by_model=True)
    hostile = msgspec.structs.replace(
        job, goal=words, reason=words, spec=spec, plan=plan, checkpoint_label=f"untrusted:{words}"
    )
    files = files_of(
        sample,
        hostile,
        summary=f"{words}\ud800",
        allowed_by=words,
        models=(words,),
        skills=(words,),
        files={words.encode("utf-8", "replace").decode(): "c" * 64},
        branch=words,
    )
    text = files[f"jobs/2026/02/{JOB}.md"].decode()
    front, body = parts_of(text)
    about = yaml.safe_load(front)
    assert list(about) == KEYS
    assert about == {name: json.loads(value) for name, value in (line.split(": ", 1) for line in front.split("\n"))}
    assert (about["job_id"], about["state"], about["run_instance_id"]) == (JOB, "PR_OPENED", None)
    assert is_harmless(body, [f"Job {JOB}", *SECTIONS])
    assert not any(mark in text for mark in "\u202e\u200b\u2066\ufeff\x00\x1b\r\u2028")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(words=ANY)
def test_no_words_break_out_of_a_pull_request(job, words):
    hostile = msgspec.structs.replace(job, goal=words, checkpoint_label=f"untrusted:{words}")
    proposal = change_proposal(hostile, ["a.md"], words, words, "R0", "R2")
    title, body = pull_text(hostile, proposal, file_facts(files={words: "c" * 64}))
    assert 0 < len(title) <= 72
    assert len(title.splitlines()) == 1
    assert not set(title) & set("<>[]`@#|\n\r\t")
    assert is_harmless(body, ["Asked", "Done", "Evidence", "Security notes"])


def test_a_proposal_has_the_files_and_risk_it_was_given(job):
    proposal = change_proposal(job, ["a", "b"], "Add a report\n\nJob: job_other", "Done.", "R1", "R2")
    assert proposal.files_touched == ("a", "b")
    assert proposal.pr_title == "Add a report Job: job_other"
    assert (proposal.risk_before, proposal.risk_after) == ("R1", "R2")


def test_long_prose_and_many_files_are_shortened(sample, job):
    many = {f"notes/{number:06}.md": "d" * 64 for number in range(100_000)}
    text = files_of(sample, job, summary="x" * 1_000_000, files=many)[f"jobs/2026/02/{JOB}.md"].decode()
    assert "Files changed: 100000" in text
    assert "and 99800 more" in text
    assert len(text) < 100_000


def test_an_inert_block_cannot_be_closed_from_inside():
    assert fenced("a\n`````\nb").splitlines()[0] == "``````text"
    assert code("a`b") == "`` a`b ``"
    assert code("plain") == "`plain`"


@pytest.mark.parametrize("words", ["", " \n\t ", "\u2028"])
def test_an_empty_title_is_replaced(words):
    assert one_title(words, "Changes of job_1") == "Changes of job_1"


# Commit messages


def trailers(message):
    """What git takes for trailers."""
    run = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=message.encode(), capture_output=True, check=True, cwd="/"
    )
    return run.stdout.decode().splitlines()


@pytest.mark.parametrize(
    "title",
    [
        "Add a report",
        "Add\n\nJob: job_other\nEvidence: forged\n",
        "Job: job_other",
        "x\r\n\r\nLedger-Head: 0",
        "x\u2028\u2028Policy-Hash: 0",
        "x\x00\x0b\x0c\n---\nJob: job_other",
        "",
        "Signed-off-by: Owner <owner@localhost>",
        "y" * 10_000,
    ],
)
def test_a_title_never_forges_a_trailer(title):
    message = commit_message(title, JOB, "e" * 64, "f" * 64, f"12:{'0' * 64}")
    assert trailers(message) == [
        f"Job: {JOB}",
        f"Evidence: {'e' * 64}",
        f"Policy-Hash: {'f' * 64}",
        f"Ledger-Head: 12:{'0' * 64}",
    ]
    subject, blank, *rest = message.splitlines()
    assert 0 < len(subject) <= 72
    assert blank == ""
    assert len(rest) == 4


@given(ANY)
@example("[skip ci] fixes #1 @owner <b>")
def test_a_subject_is_one_short_line(title):
    lines = commit_message(title, JOB, "", "", "").split("\n")
    assert len(lines) == 7
    assert not set(lines[0]) & set("[]@#<>")
    assert "\x85" not in lines[0]


def test_values_of_trailers_stay_on_their_lines():
    message = commit_message("x", JOB, "a\nJob: b", "", "")
    assert trailers(message)[:2] == [f"Job: {JOB}", "Evidence: a⟨U+000A⟩Job: b"]
    assert "Policy-Hash: none" in message
