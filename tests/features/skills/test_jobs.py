"""Jobs under a skill: matched by intent, preconditions checked before the first step, evidence asked for."""

import pytest

from coilclaw.features.forge.job_file import skills_of_job
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
        ({"inputs": "month"}, "", {}, "needs the input month, which the job was not given"),
        ({}, "- tool: shell", {}, "needs the tool shell, which is not allowed here"),
        ({}, "- domain: bank.example", {}, "needs the domain bank.example"),
        ({}, "", {"allowed_tools": ("artifact_put",)}, "needs the tool file_read"),
        ({"evidence": "report"}, "", {}, "needs the evidence report, which the job cannot leave without artifact_put"),
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


async def test_a_procedure_is_not_matched_with_a_skill(office):
    at = office()
    put(at.home.workspace, "run", "allowed-tools: time", triggers="run the sop")
    job = await at.create("Run the SOP daily-check.", sop="daily-check")
    await at.drain()
    assert not uses_of(at.app.db.reader, job.turn_id)
