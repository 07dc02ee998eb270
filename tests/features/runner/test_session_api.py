"""Every path under `/runner/v1`: what it takes and gives, and how plans and tokens narrow it."""

import json
from datetime import timedelta

import msgspec
import pytest

from coilclaw.config.runner import Org, Plan, Plans, TeamPlan
from coilclaw.features.runner.spec import StartSession
from coilclaw.features.runner.store import load_session, put_session, tick
from coilclaw.packets.ids import stamp
from tests.features.runner.session_world import REPO, SessionWorld, until
from tests.features.runner.test_desk import row_of
from tests.features.runner.test_tokens import bearer
from tests.server.wire import code

SESSIONS = "/runner/v1/sessions"
ORGS = {"acme": Org(plan="team", repos=("site",), providers=("shell", "fake"))}
PLANS = Plans(team=Plan(sessions=2, minutes_per_month=10), enterprise=Plan(sessions=9))


@pytest.fixture
def world(sample):
    return SessionWorld(sample, orgs=ORGS, plans=PLANS)


def metered(world, org_id="self", state="RUNNING"):
    """A session that nothing runs in, metered from now on."""
    session_id, now = row_of(world, org_id=org_id).session_id, world.app.clock()
    row = msgspec.structs.replace(load_session(world.app.db.reader, session_id), state=state, metered_at=stamp(now))
    world.app.db.write_now(lambda tx: put_session(tx, row))
    return session_id


def used(world, session_id, seconds):
    """Let a session use some time."""
    later = world.app.clock() + timedelta(seconds=seconds)
    world.app.db.write_now(lambda tx: tick(tx, lambda: later, session_id, terminal_bytes=2048))


@pytest.mark.parametrize(
    ("billing", "sessions", "minutes"),
    [
        ({}, 2, 10),
        ({"limits": {"max_concurrency": 1}}, 1, 10),
        ({"limits": {"max_concurrency": 10_000}}, 2, 10),
        ({"plan": "enterprise"}, 2, 10),
        ({"plan": "enterprise", "limits": {"max_concurrency": 9}}, 2, 10),
    ],
)
def test_billing_of_a_request_only_narrows(world, billing, sessions, minutes):
    wanted = msgspec.convert({"repo": REPO, "org_id": "acme", "billing": billing}, StartSession)
    plan = world.sessions.plan(wanted, world.sessions.org(wanted))
    assert (plan.sessions, plan.minutes_per_month) == (sessions, minutes)


def test_smaller_plan_of_a_request_lowers_its_tokens_too():
    plans = Plans(free=Plan(tokens_per_month=5), team=TeamPlan(tokens_per_month=0))
    assert plans.of(Org(plan="team")).tokens_per_month == 0
    assert plans.of(Org(plan="team"), "free").tokens_per_month == 5
    assert plans.of(Org(plan="free"), "team").tokens_per_month == 5


async def test_used_up_minutes_are_refused_with_the_limit_and_the_remedy(world):
    used(world, metered(world, "acme"), 600)
    async with world.serving() as site:
        refused = await site.http.post(SESSIONS, json={"repo": REPO, "org_id": "acme"})
        assert code(refused) == (429, "OVER_PLAN")
        assert "its 10 minutes of this month" in refused.text
        assert "minutes_per_month" in refused.json()["remedy"]


def test_time_is_billed_once_though_a_tick_was_lost(world):
    session_id, began = metered(world), world.app.clock()

    def lost(tx):
        tick(tx, lambda: began + timedelta(seconds=20), session_id, terminal_bytes=4096)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        world.app.db.write_now(lost)
    for seconds in (30, 30, 10):  # the next server, the same moment again, a clock that went back
        world.app.db.write_now(lambda tx, s=seconds: tick(tx, lambda: began + timedelta(seconds=s), session_id))
    row = world.row(session_id)
    assert (row.agent_seconds, row.terminal_kb) == (30, 0)
    [event] = [each for each in world.events(session_id, "USAGE_TICK") if each.data["units"]["agent_seconds"]]
    assert (event.data["provider"], event.data["units"]["agent_seconds"]) == ("fake", 30)


async def test_organizations_usage_and_repositories_are_told_to_a_token_of_one_organization_alone(world):
    for org_id, seconds in (("self", 61), ("acme", 125)):
        used(world, metered(world, org_id, "COMPLETED"), seconds)
    async with world.serving() as site:

        async def told(client):
            orgs = (await client.get("/runner/v1/orgs")).json()["items"]
            usage = (await client.get("/runner/v1/usage")).json()["items"]
            sessions = (await client.get(SESSIONS)).json()["items"]
            return [[each["org_id"] for each in items] for items in (orgs, usage, sessions)]

        assert await told(site.http) == [["acme", "self"], ["acme", "self"], ["acme", "self"]]
        acme = (await site.http.get("/runner/v1/orgs")).json()["items"][0]
        assert acme == {
            "org_id": "acme", "plan": "team", "sessions": 2, "running": 0, "minutes_per_month": 10, "minutes_used": 2,
        }  # fmt: skip
        only = (await site.http.get("/runner/v1/usage", params={"org_id": "self"})).json()["items"]
        assert [(each["org_id"], each["agent_seconds"], each["terminal_kb"]) for each in only] == [("self", 61, 2)]
        for asked in ({"org_id": "acme"}, {"org_id": "acme", "repo_id": "site"}):
            made = await site.http.post("/runner/v1/tokens", json={**asked, "access": "watch"})
            program = bearer(site, made.json()["token"])
            assert await told(program) == [["acme"], ["acme"], ["acme"]]
            asks_more = (await program.get("/runner/v1/usage", params={"org_id": "self"})).json()["items"]
            assert [each["org_id"] for each in asks_more] == ["acme"]
            assert [each["name"] for each in (await program.get("/runner/v1/repos")).json()["items"]] == ["site"]


async def test_watching_token_changes_nothing_and_a_foreign_one_finds_nothing(world):
    at = f"{SESSIONS}/{metered(world, 'acme', 'COMPLETED')}"
    changes = (
        ("POST", "/input", {"data": "x"}), ("POST", "/resize", {"rows": 20, "columns": 20}), ("POST", "/stop", None),
        ("POST", "/pause", None), ("POST", "/resume", None), ("DELETE", "", None),
        ("POST", "/approve", {"approval_id": "act_1", "decision": "allow"}),
    )  # fmt: skip
    reads = tuple(("GET", path, None) for path in ("", "/tree", "/events", "/terminal"))
    async with world.serving() as site:

        async def answers(asked, org_id, access):
            made = await site.http.post("/runner/v1/tokens", json={"org_id": org_id, "access": access})
            program = bearer(site, made.json()["token"])
            return {(await program.request(method, at + path, json=body)).status_code for method, path, body in asked}

        assert await answers(changes, "acme", "watch") == {403}
        assert await answers(reads, "acme", "watch") == {200}
        assert await answers((*changes, *reads, ("GET", "/diff", None)), "self", "drive") == {404}


@pytest.mark.slow
async def test_input_size_recording_and_events_over_http(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        started = (await site.http.post(SESSIONS, json={"repo": REPO, "size": {"rows": 31, "columns": 91}})).json()
        session_id, at = started["session_id"], f"{SESSIONS}/{started['session_id']}"
        assert started["workspace_id"]
        assert started["worktree_path"] == world.row(session_id).checkout.path

        async def typed(text, **mode):
            assert (await site.http.post(f"{at}/input", json={"data": text, **mode})).status_code == 204

        async def shown(words):
            return words in await world.text(site, session_id)

        await typed("echo size-$(stty size | tr ' ' x)", mode="line")
        await until(lambda: shown("size-31x91"))
        assert (await site.http.post(f"{at}/resize", json={"rows": 33, "columns": 93})).status_code == 204
        await typed("echo ra")  # raw is the default: no Enter is added
        await typed("w-$((6*7))-$(stty size | tr ' ' x)")
        await typed("\r", mode="raw")
        await until(lambda: shown("raw-42-33x93"))
        for wrong in ({"data": "x", "mode": "keys"}, {"mode": "line"}, {"data": "x" * ((64 << 10) + 1)}):
            assert (await site.http.post(f"{at}/input", json=wrong)).status_code == 400
        for wrong in ({"rows": 0, "columns": 0}, {"rows": 10, "columns": 10**6}):
            assert (await site.http.post(f"{at}/resize", json=wrong)).status_code == 400
        cast = (await site.http.get(f"{at}/terminal", params={"format": "asciicast"})).text.splitlines()
        head = json.loads(cast[0])
        assert (head["version"], head["width"], head["height"]) == (2, 91, 31)
        assert "raw-42-33x93" in "".join(json.loads(line)[2] for line in cast[1:])
        assert (await site.http.get(f"{at}/terminal", params={"format": "html"})).status_code == 400
        assert (await site.http.get(f"{at}/events", params={"after": -1})).status_code == 400
        last = (await site.http.get(f"{at}/events")).json()["last"]
        assert (await site.http.get(f"{at}/events", params={"after": last + 100})).json()["items"] == []
