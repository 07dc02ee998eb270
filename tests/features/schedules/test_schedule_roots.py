"""A schedule works in one root: the workspace, or the project it names, and nowhere else when that is gone."""

import json

import pytest

from coilclaw.features.schedules.registry_edit import adding
from coilclaw.features.schedules.schedule_entry import new_entry
from coilclaw.features.schedules.scheduler import Scheduler
from coilclaw.features.schedules.store.schedules import load_schedule, project_name
from coilclaw.packets.errors import UsageError
from coilclaw.store.projects import drop_project, project_of
from coilclaw.store.usage import tokens_of_job
from tests.features.conftest import Office, calls
from tests.features.jobs.work_home import at_work
from tests.features.projects.world import add as add_project
from tests.features.projects.world import folder, turn

WEEKDAYS = {"goal": "sum up the changes", "cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"}
WRITES = calls(("file_write", {"path": "made.txt", "content": "x"}))


@pytest.fixture
def home(sample):
    home = sample(security__autonomy="full")
    home.code = folder(home)
    home.project = add_project(home, home.code)
    return home


def entries(home):
    return json.loads((home.workspace / "cron" / "jobs.json").read_text())["jobs"]


async def declare(home, **more):
    given = {**WEEKDAYS, "project": "code", **more}
    await Scheduler(home.app).edit(adding(new_entry("s", given, home.app.clock(), [], enabled=True)))


async def run(home):
    """One run of the schedule, to its end."""
    office = Office(home)
    run = await Scheduler(home.app).dispatcher(office.background).run_now("s")
    await office.drain()
    return office.job(run.job_id)


async def test_a_run_works_in_the_project_its_schedule_names(home):
    home.script(WRITES, {"text": "done"})
    await declare(home)
    job = await run(home)
    assert job.state == "DONE", job.reason
    assert (home.code / "made.txt").exists()
    assert not (home.workspace / "made.txt").exists()
    assert project_of(home.app.db.reader, job.thread_id) == home.project


async def test_a_schedule_without_a_project_works_in_the_workspace(home):
    home.script(WRITES, {"text": "done"})
    await declare(home, project=None)
    assert (await run(home)).state == "DONE"
    assert (home.workspace / "made.txt").exists()
    assert not (home.code / "made.txt").exists()


@pytest.mark.parametrize("how", ["removed", "vanished", "replaced", "link"])
async def test_a_project_that_is_gone_ends_the_run_with_the_reason_and_asks_no_model(home, how):
    home.script(WRITES, {"text": "done"})
    await declare(home)
    aside = home.code.parent / "aside"
    if how == "removed":
        home.app.db.write_now(lambda tx: drop_project(tx, home.app.clock, home.project))
    else:
        home.code.rename(aside)
    if how == "replaced":
        home.code.mkdir()
    elif how == "link":
        home.code.symlink_to(aside)
    job = await run(home)
    assert job.state == "FAILED"
    assert job.reason.startswith("PROJECT_GONE: ")
    assert "code" in job.reason
    assert not (home.workspace / "made.txt").exists()
    assert not (aside / "made.txt").exists()
    assert project_of(home.app.db.reader, job.thread_id) == home.project, "its conversation works there or nowhere"
    assert tokens_of_job(home.app.db.reader, job.job_id) == 0


async def test_runs_that_cannot_work_count_as_failures_and_pause_their_schedule(home):
    await declare(home, max_failures=2)
    home.code.rename(home.code.parent / "aside")
    for _ in range(2):
        await run(home)
        await Scheduler(home.app).dispatcher(Office(home).background).tick()
    assert load_schedule(home.app.db.reader, "s").paused_reason


async def test_a_project_that_nobody_added_is_refused_where_it_is_declared(home):
    with pytest.raises(UsageError, match="there is no project 'cod'"):
        await declare(home, project="cod")
    assert entries(home) == []


async def test_a_project_written_into_the_file_by_hand_is_no_way_into_another_folder(home):
    entry = {"job_id": "s", "timezone": "UTC", "cron": "0 9 * * *", "job_spec": {"intent": "x"}, "project": "nobody"}
    (home.workspace / "cron").mkdir(exist_ok=True)
    (home.workspace / "cron" / "jobs.json").write_text(json.dumps({"version": 1, "jobs": [entry]}))
    await Scheduler(home.app).dispatcher(Office(home).background).tick()
    job = await run(home)
    assert (job.state, job.reason) == ("FAILED", "PROJECT_GONE: there is no project 'nobody'.")


async def test_a_schedule_made_in_a_conversation_of_a_project_works_in_that_project(home):
    made = await home.call("schedule_add", turn(home, home.project), "k", **WEEKDAYS)
    assert made.result.success, made.result.output
    assert not (home.code / "cron").exists(), "the registry is the workspace's"
    (entry,) = entries(home)
    assert entry["project"] == "code"
    assert project_name(load_schedule(home.app.db.reader, entry["job_id"]).payload) == "code"
    (card,) = home.owner.cards
    assert card.target_entity == f"cron/jobs.json of the workspace, for work in project code ({home.code})"
    again = await home.call("schedule_add", turn(home, ""), "k2", **WEEKDAYS)
    assert again.result.metadata["schedule"] != made.result.metadata["schedule"], "the same words in another folder"
    assert "project" not in entries(home)[1]


async def test_an_older_hash_of_a_schedule_still_holds(home):
    await declare(home, project=None)
    assert b"project" not in home.app.db.reader.execute("SELECT payload_json FROM schedules").fetchone()[0].encode()


async def test_over_http_a_project_is_named_changed_and_taken_away(home):
    async with at_work(home) as site:
        made = await site.http.post("/v1/schedules", json={**WEEKDAYS, "schedule_id": "s", "project": "code"})
        assert (made.status_code, made.json()["project"]) == (201, "code"), made.text
        assert (await site.http.get("/v1/schedules/s")).json()["project"] == "code"
        unknown = await site.http.patch("/v1/schedules/s", json={"project": "nobody"})
        assert unknown.status_code in (400, 422), unknown.text
        assert "nobody" in unknown.text
        bare = await site.http.patch("/v1/schedules/s", json={"project": None})
        assert bare.json()["project"] is None
        assert "project" not in entries(home)[0]
        empty = await site.http.patch("/v1/schedules/s", json={"project": ""})
        assert empty.status_code == 400, empty.text
