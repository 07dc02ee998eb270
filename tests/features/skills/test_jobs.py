"""Jobs under a skill: matched by intent, preconditions checked before the first step, evidence asked for."""

import pytest

from coilclaw.features.forge.job_file import skills_of_job
from coilclaw.features.sops.procedures import Procedures
from coilclaw.gate.skills import uses_of
from tests.features.conftest import calls
from tests.features.skills.shelf import PROCEDURE, put


async def test_a_job_with_the_intent_works_under_the_skill_and_leaves_its_evidence(office):
    at = office()
    put(
        at.home.workspace, "pay", "allowed-tools: file_read artifact_put", body=PROCEDURE,
        intent="pay_bills", evidence="report",
    )  # fmt: skip
    at.home.script(
        calls(
            ("file_list", {"path": "."}),
            ("artifact_put", {"name": "report", "kind": "report", "content": "paid"}),
        ),
        {"text": "done"},
    )
    job = await at.create("pay_bills")
    await at.drain()
    job = at.job(job)
    assert job.state == "DONE", at.said(job)
    (use,) = uses_of(at.app.db.reader, job.turn_id)
    assert (use.skill, use.why) == ("pay", "intent")
    assert job.spec.outputs.evidence_required == ("report",)
    assert "skill:pay" in at.said(job)[1][1]
    assert skills_of_job(at.app.db.reader, job) == (f"pay sha256:{use.sha256} (intent)",)


@pytest.mark.parametrize(
    ("ours", "precondition", "limits", "words"),
    [
        ({"inputs": "month"}, "", {}, "needs the input month, which was not given"),
        ({}, "- tool: shell", {}, "needs the tool shell, which is not allowed here"),
        ({}, "- domain: bank.example", {}, "needs the domain bank.example"),
        ({}, "", {"allowed_tools": ("artifact_put",)}, "needs the tool file_read"),
        ({"evidence": "report"}, "", {}, "needs the evidence report, which cannot be left without artifact_put"),
    ],
)
async def test_a_job_whose_skill_lacks_something_does_not_begin(office, ours, precondition, limits, words):
    at = office()
    body = PROCEDURE.replace("- The owner is awake.", precondition)
    put(at.home.workspace, "pay", "allowed-tools: file_read", body=body, intent="pay_bills", **ours)
    at.home.script({"text": "never said"})
    job = await at.create("pay_bills", **limits)
    await at.drain()
    job = at.job(job)
    assert job.state == "FAILED"
    assert "SKILL_PRECONDITION" in job.reason
    assert words in job.reason
    assert at.said(job) == []


async def test_an_input_that_was_given_lets_the_job_begin(office):
    at = office()
    put(at.home.workspace, "pay", body=PROCEDURE, intent="pay_bills", inputs="month")
    at.home.script({"text": "done"})
    job = await at.create("pay_bills", inputs={"month": "May"})
    await at.drain()
    assert at.job(job).state == "DONE"


SOP = """
name = "daily-look"
description = "Look at the inbox."

[[steps]]
id = "list"
kind = "tool"
tool = "file_list"
args = { path = "." }

[[steps]]
id = "sum"
kind = "agent"
prompt = "Sum it up."
"""


def procedure(home):
    file = home.workspace / "sops" / "daily-look" / "SOP.toml"
    file.parent.mkdir(parents=True)
    file.write_text(SOP)


async def run_of(home):
    procedures = Procedures(home.app, conveyor=home.conveyor())
    run = await procedures.start("daily-look")
    return (await procedures.go_on(run.run_id)).run


@pytest.mark.parametrize("ours", [{"triggers": "the inbox"}, {"triggers": "daily look"}, {"intent": "daily-look"}])
async def test_the_run_of_a_procedure_works_under_the_skill_that_its_words_match(sample, ours):
    home = sample()
    procedure(home)
    put(home.workspace, "look", "allowed-tools: file_list", body=PROCEDURE.replace("- tool: file_read", ""), **ours)
    home.script(calls(("file_read", {"path": "SYSTEM.md"})), {"text": "done"})
    run = await run_of(home)
    assert run.state == "DONE", run.reason
    (use,) = uses_of(home.app.db.reader, run.turn_id)
    assert use.skill == "look"
    rows = home.app.db.reader.execute("SELECT tool, decision_json FROM proposed_actions ORDER BY rowid").fetchall()
    decided = dict(rows)
    assert "skill:look" in decided["file_read"]  # what its model asks for is narrowed too


async def test_a_procedure_whose_skill_lacks_something_does_not_begin(sample):
    home = sample()
    procedure(home)
    body = PROCEDURE.replace("- tool: file_read", "- domain: bank.example")
    put(home.workspace, "look", body=body, intent="daily-look")
    run = await run_of(home)
    assert (run.state, "SKILL_PRECONDITION" in run.reason, "bank.example" in run.reason) == ("FAILED", True, True)
    assert home.statuses() == []


PUTS = """
[[steps]]
id = "report"
kind = "tool"
tool = "artifact_put"
args = { name = "report", kind = "report", content = "looked" }
"""


@pytest.mark.parametrize(
    ("more", "state", "reason"),
    [("", "FAILED", "evidence missing: report."), (PUTS, "DONE", "Every step of the plan is done.")],
)
async def test_a_procedure_that_is_a_job_must_leave_what_its_skill_asks_for(office, more, state, reason):
    at = office()
    file = at.home.workspace / "sops" / "daily-look" / "SOP.toml"
    file.parent.mkdir(parents=True)
    file.write_text(SOP.partition('\n[[steps]]\nid = "sum"')[0] + "\n" + more)
    put(at.home.workspace, "look", body=PROCEDURE, intent="daily-look", evidence="report")
    job = await at.create("Run the SOP daily-look.", sop="daily-look")
    await at.drain()
    assert (at.job(job).state, at.job(job).reason) == (state, reason)
    assert [use.skill for use in uses_of(at.app.db.reader, job.turn_id)] == ["look"]


async def test_the_runtimes_own_words_about_a_procedure_match_nothing(office):
    at = office()
    put(at.home.workspace, "run", "allowed-tools: time", triggers="run the sop")
    job = await at.create("Run the SOP daily-check.", sop="daily-check")
    await at.drain()
    assert not uses_of(at.app.db.reader, job.turn_id)
