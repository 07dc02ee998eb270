"""Background commands of jobs: their steps go on meanwhile, and they end with the job, before its manifest."""

from coilclaw.store.actions import list_actions
from tests.held_box import HeldBox

BUILD = {"tool_calls": [{"tool": "shell", "args": {"command": "make", "background": True}}]}


def command(here):
    return next(each for each in list_actions(here.app.db.reader, None, 10) if each.call.tool == "shell")


async def test_a_job_continues_and_its_end_ends_what_it_left_running(office):
    here = office(security__autonomy="full")
    here.home.box = HeldBox()
    here.home.script(BUILD, {"text": "done"})
    job = await here.create()
    await here.drain()
    assert here.job(job).state == "DONE"
    assert (command(here).status, command(here).job_id) == ("FAILED", job.job_id)
    assert [each["status"] for each in here.manifest(job)["receipts"]] == ["failed"]


async def test_a_job_reads_what_its_own_command_wrote(office):
    here = office(security__autonomy="full")
    here.home.box = HeldBox()
    here.home.box.let_end.set()
    here.home.script(BUILD, {"text": "{last_tool_result}"})
    job = await here.create()
    await here.drain()
    await here.app.background.wait()
    assert here.job(job).state == "DONE"
    assert command(here).status in ("EXECUTED", "FAILED")
    assert len(here.manifest(job)["receipts"]) == 1


async def test_a_job_that_waited_for_the_approval_continues_while_it_runs(office):
    here = office()
    here.home.box = HeldBox()
    here.home.script(BUILD, {"text": "done"})
    job = await here.create()
    await here.drain()
    assert here.job(job).state == "WAITING_APPROVAL"
    await here.answer()
    await here.drain()
    assert here.job(job).state == "DONE"
    assert len(here.manifest(job)["receipts"]) == 1


async def test_a_job_that_is_called_off_takes_its_commands_along(office):
    here = office(security__autonomy="full")
    here.home.box = HeldBox()
    asks = {"tool": "file_write", "args": {"path": "policies/a.toml", "content": "x"}}
    here.home.script({"tool_calls": [*BUILD["tool_calls"], asks]})
    job = await here.create()
    await here.drain()
    await here.home.box.started.wait()
    assert here.job(job).state == "WAITING_APPROVAL"
    await here.desk.cancel(job.job_id, "enough")
    assert (command(here).status, here.home.box.killed) == ("FAILED", 1)
