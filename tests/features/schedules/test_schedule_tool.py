"""schedule_followup through the gate, and the registry in a real workspace."""

import json
import os
import stat
from datetime import timedelta

import pytest

from coilclaw.features.jobs.background import Background
from coilclaw.features.schedules.registry import RegistryBroken
from coilclaw.features.schedules.registry_edit import adding
from coilclaw.features.schedules.scheduler import Scheduler
from coilclaw.features.schedules.store.schedules import list_schedules, load_schedule
from coilclaw.gate.turn import Turn
from coilclaw.packets.errors import UsageError
from coilclaw.packets.job import Constraints, JobLimits
from tests.features.schedules.schedule_world import entry


async def plan(home, turn=None, key="k", **args):
    return await home.call("schedule_followup", turn or Turn("turn_1", "conv_1", "chat"), key, **args)


async def test_the_agent_plans_without_asking_and_the_receipt_says_r1(sample):
    home = sample()
    outcome = await plan(home, goal="look again", in_minutes=5)
    assert outcome.result.success, outcome.result.output
    assert home.owner.cards == []
    assert [(r.status, r.risk_level) for r in home.receipts()] == [("allowed", "R1")]
    ((row,), _) = list_schedules(home.app.db.reader, "followup")
    assert (row.thread_id, row.labels) == ("conv_1", ())


async def test_a_tainted_turn_leaves_its_labels_and_a_job_its_limits(sample):
    home = sample()
    limits = JobLimits(job_id="job_x", constraints=Constraints(allowed_tools=("schedule_followup", "time")))
    turn = Turn("turn_1", "conv_1", "job", ("untrusted:old",), fresh=("untrusted:new",), job=limits)
    outcome = await plan(home, turn, goal="look again", in_minutes=5)
    assert outcome.result.success, outcome.result.output
    ((row,), _) = list_schedules(home.app.db.reader, "followup")
    assert row.labels == ("untrusted:new", "untrusted:old")
    assert row.payload.constraints == limits.constraints


@pytest.mark.parametrize(
    "args",
    [
        {"goal": "x"},
        {"goal": "x", "in_minutes": 5, "at": "2099-01-01T00:00:00Z"},
        {"goal": "x", "at": "tomorrow"},
        {"goal": "x", "at": "2099-01-01T00:00:00"},
        {"goal": "x", "at": "2099-01-01T00:00:00Z"},
        {"goal": "x", "at": "2020-01-01T00:00:00Z"},
        {"goal": "x", "at": "9999-12-31T23:59:59-14:00"},
        {"goal": "x", "at": "0001-01-01T00:00:00+14:00"},
        {"goal": "x", "in_minutes": 0},
        {"goal": "x", "in_minutes": 500_000},
        {"goal": "", "in_minutes": 5},
        {"goal": "x", "in_minutes": 5, "label": "owner"},
    ],
)
async def test_what_makes_no_sense_plans_nothing(sample, args):
    home = sample()
    outcome = await plan(home, **args)
    assert not outcome.result.success
    assert outcome.result.code != "TOOL_CRASHED"
    assert list_schedules(home.app.db.reader, "followup") == ([], [])


async def test_no_more_than_the_configuration_allows(sample):
    from coilclaw.config.schema import Schedules

    home = sample(schedules=Schedules(followups_open=1, followup_days=2))
    assert (await plan(home, goal="x", in_minutes=60)).result.success
    assert not (await plan(home, key="k2", goal="x", in_minutes=60)).result.success
    assert not (await plan(home, key="k3", goal="x", in_minutes=3 * 1440)).result.success


async def test_a_job_that_is_itself_a_followup_can_plan_only_so_many_more(sample):
    from coilclaw.config.schema import Schedules

    home = sample(schedules=Schedules(followups_in_a_row=2))

    async def next_after(generation):
        job = JobLimits(job_id="job_x", constraints=Constraints(), generation=generation)
        return await plan(home, Turn("turn_1", "conv_1", "job", job=job), f"k{generation}", goal="x", in_minutes=60)

    assert (await next_after(1)).result.success
    assert (await next_after(2)).result.code == "TOO_MANY_IN_A_ROW"
    ((row,), _) = list_schedules(home.app.db.reader, "followup")
    assert row.payload.generation == 2


async def test_an_edit_rewrites_the_file_in_place_and_keeps_its_mode(sample):
    home = sample()
    path = home.workspace / "cron" / "jobs.json"
    path.chmod(0o600)
    await Scheduler(home.app).edit(adding(entry("a")))
    assert [job["job_id"] for job in json.loads(path.read_text())["jobs"]] == ["a"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["jobs.json"]
    assert load_schedule(home.app.db.reader, "a").next_run_utc


async def test_the_file_and_its_folder_are_made_when_they_are_gone_and_a_link_is_refused(sample):
    home = sample()
    path = home.workspace / "cron" / "jobs.json"
    path.unlink()
    path.parent.rmdir()
    await Scheduler(home.app).edit(adding(entry("a")))
    assert json.loads(path.read_text())["version"] == 1
    path.rename(home.folder / "elsewhere.json")
    path.symlink_to(home.folder / "elsewhere.json")
    before = (home.folder / "elsewhere.json").read_text()
    with pytest.raises(UsageError):
        await Scheduler(home.app).edit(adding(entry("b")))
    assert (home.folder / "elsewhere.json").read_text() == before


async def test_a_file_that_holds_untrusted_content_is_reported_and_not_taken_over(sample):
    home = sample()
    path = home.workspace / "cron" / "jobs.json"
    path.write_text(json.dumps({"version": 1, "jobs": [entry("evil", cron="* * * * *")]}))
    labels = home.app.root.labels
    looked = labels.look(["cron/jobs.json"])
    home.app.db.write_now(lambda tx: labels.mark(tx, looked, ["untrusted:web"]))
    dispatcher = Scheduler(home.app).dispatcher(Background(home.app))
    await dispatcher.tick()
    assert load_schedule(home.app.db.reader, "evil") is None
    assert any("untrusted:web" in str(fields) for event, fields in home.events if event == "warning")


async def test_a_schedule_that_could_never_begin_is_refused(sample):
    home = sample()
    clockwork = Scheduler(home.app)
    for wrong, word in (
        (entry("a", sop="nosuch"), "nosuch"),
        (entry("a", job_spec={"intent": "x", "constraints": {"allowed_tools": ["nosuchtool"]}}), "nosuchtool"),
        (entry("a", job_spec={"intent": "x", "constraints": {"allowed_domains": ["example.com"]}}), "example.com"),
    ):
        with pytest.raises(UsageError, match=word):
            await clockwork.edit(adding(wrong))
    await clockwork.edit(adding(entry("a", sop="daily-check")))
    assert load_schedule(home.app.db.reader, "a") is not None


async def test_in_the_file_it_is_taken_over_and_warned_of(sample):
    home = sample()
    path = home.workspace / "cron" / "jobs.json"
    path.write_text(json.dumps({"version": 1, "jobs": [entry("a", sop="nosuch")]}))
    await Scheduler(home.app).dispatcher(Background(home.app)).tick()
    assert load_schedule(home.app.db.reader, "a") is not None
    assert any("nosuch" in str(fields) for event, fields in home.events if event == "warning")


async def test_a_time_in_a_file_that_was_written_before_it_is_caught_up(sample):
    home = sample()
    path = home.workspace / "cron" / "jobs.json"
    now = home.app.clock()
    at = (now - timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    path.write_text(json.dumps({"version": 1, "jobs": [entry("a", cron=None, trigger="at", at=at)]}))
    written = (now - timedelta(minutes=30)).timestamp()
    os.utime(path, (written, written))
    assert await Scheduler(home.app).dispatcher(Background(home.app)).tick() == 1


async def test_while_a_tainted_command_holds_the_workspace_an_edit_says_so(sample):
    home = sample()
    home.app.db.write_now(lambda tx: home.app.root.labels.hold(tx, "act_1", ["untrusted:web"]))
    with pytest.raises(RegistryBroken, match="is running"):
        await Scheduler(home.app).edit(adding(entry("a")))
