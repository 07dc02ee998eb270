"""An SOP as the work of a job: one step at a time, waiting and going on as jobs do."""

import pytest

from coilclaw.features.sops.procedures import Procedures
from coilclaw.store.sops import run_of_job, steps_of_run
from tests.features.conftest import Office

LIST = 'id = "list"\nkind = "tool"\ntool = "file_list"\nargs = { path = "sops" }'
ASK = 'id = "ask"\nkind = "approval"\nprompt = "Shall it go on?"'
NOTE = 'id = "note"\nkind = "tool"\ntool = "notes_write"\nargs = { title = "t", content_from = "list" }'
THINK = 'id = "think"\nkind = "agent"\nprompt = "Think about it."'


@pytest.fixture
def office(sample):
    made = Office(sample())

    async def create(*steps, **more):
        folder = made.home.workspace / "sops" / "x"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SOP.toml").write_text('name = "x"\n' + "".join(f"[[steps]]\n{step}\n" for step in steps))
        return await made.create("Run the SOP x.", sop="x", **more)

    made.procedure = create
    return made


def steps(office, job):
    run = run_of_job(office.app.db.reader, job.job_id)
    return {name: row.state for name, row in steps_of_run(office.app.db.reader, run.run_id).items()}


async def test_a_job_works_on_an_sop_step_by_step(office):
    office.home.script({"text": "thought"})
    job = await office.procedure(LIST, THINK, NOTE)
    await office.drain()
    assert office.job(job).state == "DONE"
    assert steps(office, job) == {"list": "SUCCEEDED", "think": "SUCCEEDED", "note": "SUCCEEDED"}
    receipts = office.manifest(job)["receipts"]
    assert [each["tool"] for each in receipts] == ["file_list", "notes_write"]


async def test_it_waits_for_an_answer_and_continues(office):
    job = await office.procedure(LIST, ASK, NOTE)
    await office.drain()
    assert office.job(job).state == "WAITING_APPROVAL"
    await office.drain()
    assert office.job(job).state == "WAITING_APPROVAL"
    await office.answer()
    await office.drain()
    assert office.job(job).state == "DONE"
    assert "WAITING_APPROVAL" in office.states(job)


async def test_a_refused_or_failed_procedure_is_a_failed_job(office):
    job = await office.procedure(ASK, NOTE.replace('content_from = "list"', 'content = "x"'))
    await office.drain()
    await office.answer(approve=False, reason="no")
    await office.drain()
    assert office.job(job).state == "FAILED"
    assert "Step ask failed (OWNER_REFUSED)" in office.job(job).reason
    broken = await office.procedure('id = "a"\nkind = "tool"\ntool = "nope"')
    await office.drain()
    assert office.job(broken).state == "FAILED"
    assert "is invalid" in office.job(broken).reason


async def test_what_a_job_may_not_use_its_procedure_may_not_use(office):
    job = await office.procedure(LIST, NOTE, allowed_tools=("file_list",))
    await office.drain()
    assert office.job(job).state == "FAILED"
    assert "JOB_TOOL" in office.job(job).reason


async def test_limits_on_tools_do_not_keep_a_procedure_from_asking(office):
    job = await office.procedure(LIST, ASK, allowed_tools=("file_list",))
    await office.drain()
    await office.answer()
    await office.drain()
    assert office.job(job).state == "DONE"


async def test_a_job_that_is_called_off_leaves_no_question(office):
    from coilclaw.store.actions import waiting_actions

    job = await office.procedure(ASK)
    await office.drain()
    await office.desk.cancel(job.job_id, "enough")
    await office.drain()
    assert waiting_actions(office.app.db.reader, 10) == []
    assert office.job(job).state == "CANCELLED"
    run = run_of_job(office.app.db.reader, job.job_id)
    assert "CANCELLED" in Procedures(office.app).find(run.run_id).reason


async def test_it_waits_for_the_owner_where_nobody_knows_what_happened(sample):
    from coilclaw.store.actions import list_actions

    home = sample(security__autonomy="full", agent__tool_timeout_seconds=1.0, agent__shell_timeout_seconds=1.0)
    office = Office(home)
    folder = home.workspace / "sops" / "x"
    folder.mkdir(parents=True, exist_ok=True)
    run = 'id = "run"\nkind = "tool"\ntool = "shell"\nargs = { command = "make" }'
    (folder / "SOP.toml").write_text(f'name = "x"\n[[steps]]\n{run}\n[[steps]]\n{LIST}\n')
    home.box.hang = True
    job = await office.create("Run the SOP x.", sop="x")
    for _ in range(3):
        await office.drain()
        assert office.job(job).state == "WAITING_APPROVAL"
    (unknown,) = list_actions(home.app.db.reader, "UNKNOWN", 9)
    await home.app.approvals(home.conveyor()).resolve(unknown, "executed", by="terminal")
    await office.drain()
    assert office.job(job).state == "DONE"
