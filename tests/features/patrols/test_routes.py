"""Patrols over HTTP: what the owner's devices see and do, and what a runner token does not."""

import pytest

from coilclaw.features.patrols.feature import patrols_part
from coilclaw.features.patrols.report import PatrolReport, finding
from coilclaw.features.patrols.store import PatrolRun, begin_run, finish_run
from coilclaw.features.runner.feature import runner_part
from coilclaw.packets.ids import stamp
from coilclaw.store.jobs import list_jobs
from tests.server.site import served

EVIL = "bad \x1b[2J\u202e thing"


def told(world, run_id="patrol_00000000000001", kind="test", **fields):
    """Write what a run would tell."""
    app = world.app
    run = PatrolRun(
        run_id=run_id, repo="site", room="", kind=kind, checkout_ref="", base="", job_id="job_1", quest_id="",
        command="make test", format="junit", state="running", reason="", passed=1, failed=1, skipped=0, findings=1,
        seconds=1.5, output="the end", started_at=stamp(app.clock()), ended_at=None,
    )  # fmt: skip
    report = fields.pop("report", PatrolReport(format="junit", findings=(finding("t::a", "a.py", EVIL),)))

    def write(tx):
        begin_run(tx, app.clock, run)
        import msgspec

        finish_run(tx, app.clock, msgspec.structs.replace(run, state=fields.get("state", "failed")), report, "abc")

    app.db.write_now(write)


async def test_everything_the_panel_shows(patrol_world):
    world = patrol_world()
    told(world)
    async with served(world.sample, patrols_part, runner_part) as site:
        (building,) = (await site.http.get("/runner/v1/buildings")).json()["items"]
        assert (building["building"], building["health"], building["alerts"]) == ("site", int(85 * 0.75), 1)
        (patrol,) = building["patrols"]
        assert (patrol["last"]["state"], [point["state"] for point in patrol["trend"]]) == ("failed", ["failed"])
        (run,) = (await site.http.get("/runner/v1/patrols?repo=site")).json()["items"]
        assert (await site.http.get(f"/runner/v1/patrols/{run['run_id']}")).json()["output"] == "the end"
        assert (await site.http.get("/runner/v1/patrols/patrol_nothing")).status_code == 404
        (alert,) = (await site.http.get("/runner/v1/alerts")).json()["items"]
        assert not set(alert["summary"]) & {"\x1b", "\u202e"}


async def test_alerts_are_muted_resolved_and_made_quests(patrol_world):
    world = patrol_world()
    told(world)
    async with served(world.sample, patrols_part, runner_part) as site:
        (alert,) = (await site.http.get("/runner/v1/alerts")).json()["items"]
        at = f"/runner/v1/alerts/{alert['alert_id']}"
        muted = await site.http.post(f"{at}/mute", json={"reason": "known", "hours": 2})
        assert (muted.status_code, muted.json()["state"]) == (200, "muted")
        for body in ({"reason": "", "hours": 2}, {"reason": "x", "hours": 0}, {"reason": "x", "hours": 10**6}):
            assert (await site.http.post(f"{at}/mute", json=body)).status_code in (400, 422)
        quest = (await site.http.post(f"{at}/quest")).json()
        assert (await site.http.post(f"{at}/quest")).json()["quest_id"] == quest["quest_id"]
        gone = await site.http.post(f"/runner/v1/quests/{quest['quest_id']}/drop", json={})
        assert gone.json()["state"] == "dropped"
        assert (await site.http.post(f"/runner/v1/quests/{quest['quest_id']}/take", json={})).status_code == 409
        assert (await site.http.post(f"/runner/v1/quests/{quest['quest_id']}/review")).status_code == 409
        assert (await site.http.post(f"{at}/resolve")).json()["state"] == "resolved"
        assert (await site.http.get("/runner/v1/alerts")).json()["items"] == []
        assert len((await site.http.get("/runner/v1/alerts?everything=true")).json()["items"]) == 1
        for path in ("mute", "resolve", "quest"):
            body = {"reason": "x", "hours": 1} if path == "mute" else None
            assert (await site.http.post(f"/runner/v1/alerts/alert_no/{path}", json=body)).status_code == 404


async def test_a_patrol_is_started_once_for_a_request(patrol_world):
    world = patrol_world()
    async with served(world.sample, patrols_part, runner_part) as site:
        body, key = {"repo": "site", "kinds": "test"}, {"Idempotency-Key": "k-1234567890"}
        first = await site.http.post("/runner/v1/patrols", json=body, headers=key)
        again = await site.http.post("/runner/v1/patrols", json=body, headers=key)
        assert first.status_code == again.status_code == 201
        assert first.json() == again.json()
        for wrong in ({"repo": "nowhere"}, {"repo": "site", "kinds": "typo"}, {"repo": "site", "room": "../x"}):
            assert (await site.http.post("/runner/v1/patrols", json=wrong)).status_code in (400, 404, 422)
    assert len(list_jobs(world.app.db.reader, None, 10)) == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "buildings"), ("GET", "patrols"), ("POST", "patrols"), ("GET", "alerts"), ("GET", "quests"),
        ("GET", "patrols/patrol_00000000000001"),
    ],
)  # fmt: skip
async def test_a_runner_token_opens_none_of_it(patrol_world, method, path):
    world = patrol_world()
    told(world)
    async with served(world.sample, patrols_part, runner_part) as site:
        token = (await site.http.post("/runner/v1/tokens", json={"org_id": "self", "access": "drive"})).json()["token"]
        client = site.client(headers={"Authorization": f"Bearer {token}"})
        body = {"repo": "site"} if method == "POST" else None
        answer = await client.request(method, f"/runner/v1/{path}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "OUT_OF_SCOPE")


async def test_an_incomplete_run_resolves_nothing(patrol_world):
    world = patrol_world()
    told(world)
    told(world, "patrol_00000000000002", report=PatrolReport(format="junit", complete=False))
    assert [alert.state for alert in world.alerts()] == ["open"]
    told(world, "patrol_00000000000003", kind="lint", report=PatrolReport(format="ruff"), state="passed")
    assert [alert.state for alert in world.alerts()] == ["open"], "another patrol says nothing about tests"
    told(world, "patrol_00000000000004", report=PatrolReport(format="junit"), state="passed")
    assert [alert.state for alert in world.alerts()] == ["resolved"]
