"""Once a day the ledger's export is a pull request of the runtime's own, and what it says holds."""

from datetime import timedelta

import pytest

from coilclaw.features.forge.daily import export_day
from coilclaw.features.forge.forge import EXPORT, LocalForge
from coilclaw.features.forge.heads import anchor_new
from coilclaw.features.forge.job_record import JobRecords
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.store import pull_of_job, pull_on
from coilclaw.features.forge.verify import verify_clone
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import utc_now
from coilclaw.store.actions import load_action
from tests.features.conftest import calls


class Days:
    """A clock that can be put forward."""

    def __init__(self):
        self.days = 0

    def __call__(self):
        return utc_now() + timedelta(days=self.days)


async def test_the_export_is_one_pull_request_a_day_that_merges_like_any_other(office):
    clock = Days()
    here = office(clock, forge__enabled=True)
    here.home.script({"text": "Nothing to do."})
    job = await here.create("look around")
    await here.drain()
    assert here.job(job).state == "DONE"
    assert await export_day(here.app, here.background.conveyor) == 0, "today is not complete"
    clock.days = 1
    assert await export_day(here.app, here.background.conveyor) == 1
    assert await export_day(here.app, here.background.conveyor) == 0, "once a day"
    pull = pull_on(here.app.db.reader, EXPORT)
    assert pull.risk == "R1"
    assert {check.passed for check in pull.checks} == {True}, pull.checks
    names = {change.path for change in LocalForge(here.app).changes(pull)}
    assert f"audit/jobs/{job.job_id}.jsonl" in names
    assert any(name.startswith("audit/20") for name in names)
    action = load_action(here.app.db.reader, pull.action_id)
    assert (action.status, action.decision.lane) == ("PENDING", "B"), "strict asks for logs too"
    await here.home.approve(action.action_id)
    assert (here.app.workspace / f"audit/evidence/{job.job_id}.json").exists()
    assert {each.kind for each in verify_clone(here.app.workspace).findings} == {"unsigned"}, "no head covers it yet"
    assert await anchor_new(here.app) == 1  # as a worker does
    assert verify_clone(here.app.workspace).findings == ()
    with pytest.raises(UsageError, match="only grows"):
        await Pulls(here.app, here.background.conveyor).revert(pull.number)


async def test_an_export_that_waits_is_brought_up_to_date_the_next_day(office):
    clock = Days()
    here = office(clock, forge__enabled=True)
    here.home.script({"text": "Nothing to do."})
    await here.create("look around")
    await here.drain()
    seen = []
    for clock.days in (1, 2):
        assert await export_day(here.app, here.background.conveyor) == 1
        pull = pull_on(here.app.db.reader, EXPORT)
        seen.append((pull.number, sum(each.path.startswith("audit/20") for each in LocalForge(here.app).changes(pull))))
    (first, days), (second, more) = seen
    assert first == second
    assert more > days


async def test_the_whitelist_merges_the_export_by_itself(office):
    clock = Days()
    here = office(clock, forge__enabled=True, forge__merge_mode="whitelist")
    here.home.script({"text": "Nothing to do."})
    await here.create("look around")
    await here.drain()
    clock.days = 1
    assert await export_day(here.app, here.background.conveyor) == 1
    assert pull_on(here.app.db.reader, EXPORT) is None
    assert list((here.app.workspace / "audit").glob("20*/*/*.jsonl"))


async def test_the_record_of_a_merged_job_is_right_from_the_merge_on(office):
    clock = Days()
    here = office(clock, forge__enabled=True)
    here.home.script(calls(("file_write", {"path": "notes/a.md", "content": "by the job\n"})), {"text": "I wrote it."})
    job = await here.create("write a note")
    await here.drain()
    pull = pull_of_job(here.app.db.reader, job.job_id)
    await here.home.approve(pull.action_id)
    await here.drain()
    forge = LocalForge(here.app)

    def record(commit):
        name = next(path for path in forge.repository.entries(commit) if path.endswith(f"{job.job_id}.md"))
        return forge.repository.read(commit, name).decode()

    merged = record(forge.bot.main())
    assert f"\npr: {pull.number}\n" in merged
    assert '\nstate: "PR_OPENED"\n' in merged
    assert "The commit that merges it names who allowed that." in merged
    assert f"Once it is merged, `coilclaw pr revert {pull.number}`" in merged
    clock.days = 1
    await export_day(here.app, here.background.conveyor)
    final = record(pull_on(here.app.db.reader, EXPORT).head_sha)
    assert '\nstate: "DONE"\n' in final
    assert "Files changed: 1" in final
    assert "`notes/a.md` sha256" in final
    assert f"({pull.action_id}). Merged as {forge.find(pull.number).merged_sha}" in final
    assert f"\n`coilclaw pr revert {pull.number}` opens" in final


async def test_the_record_of_a_job_without_a_merge_says_that_nothing_was_merged(office):
    clock = Days()
    here = office(clock, forge__enabled=True)
    here.home.script({"text": "Nothing to do."})
    job = await here.create("look around")
    await here.drain()
    clock.days = 1
    (text,) = (
        each.data.decode()
        for each in JobRecords(here.app, LocalForge(here.app)).final_files(job.job_id)
        if each.path.endswith(".md")
    )
    assert "Nothing of it was merged.\n" in text
    assert "there is nothing to undo" in text
