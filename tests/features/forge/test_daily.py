"""Once a day the ledger's export is a pull request of the runtime's own, and what it says holds."""

from datetime import timedelta

from coilclaw.features.forge.daily import export_day
from coilclaw.features.forge.forge import EXPORT, LocalForge
from coilclaw.features.forge.store import pull_on
from coilclaw.features.forge.verify import verify_clone
from coilclaw.packets.ids import utc_now
from coilclaw.store.actions import load_action


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
    unsigned = {"heads.jsonl"}  # no head was due in so short a life
    assert {each.path for each in verify_clone(here.app.workspace).findings} <= unsigned


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
