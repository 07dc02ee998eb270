"""What starts a patrol: a schedule of the owner's, or a signed delivery of which nothing is used."""

import asyncio
import hashlib
import hmac
import json

import pytest

from coilclaw.features.patrols.feature import patrols_part
from coilclaw.features.patrols.store import runs_of_job
from coilclaw.runtime.keyring import set_secret
from coilclaw.server.webhooks import is_signed
from coilclaw.store.jobs import list_jobs, load_job
from tests.server.site import served

SECRET = "a-long-shared-secret-of-a-forge"
BODY = b'{"ref": "refs/heads/main", "command": "touch /tmp/x", "repository": {"name": "other"}}'


def signed(body=BODY, secret=SECRET, delivery="delivery-0001"):
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={made}", "X-GitHub-Delivery": delivery, "Content-Type": "text/plain"}


def hooked(patrol_world, **settings):
    world = patrol_world(overrides={"environ": {"SITE_HOOK": SECRET}}, webhook_secret_env="SITE_HOOK", **settings)
    world.sample.environ["SITE_HOOK"] = SECRET
    return world


def jobs(world):
    return [(job.job_id, job.spec.inputs) for job in list_jobs(world.app.db.reader, None, 100)]


def post(site, headers, body=BODY, path="/runner/v1/webhooks/site"):
    return site.bare.post(path, content=body, headers=headers)


async def test_a_signed_delivery_starts_what_the_configuration_names_once(patrol_world):
    world = hooked(patrol_world, webhook_patrols=("test", "lint"))
    async with served(world.sample, patrols_part) as site:
        first = await post(site, signed())
        assert (first.status_code, first.json()) == (202, {"started": True})
        again = await post(site, signed())
        assert (again.status_code, again.json()) == (202, {"started": False})
        other = await post(site, signed(delivery="delivery-0002"))
        assert other.json() == {"started": False}, "a patrol that has not begun will see that push too"
    ((_, inputs),) = jobs(world)
    assert inputs == {"patrol": "site test,lint"}


async def test_the_secret_may_be_a_stored_one(patrol_world):
    world = patrol_world(webhook_secret_env="SITE_HOOK")
    set_secret(world.app, "SITE_HOOK", SECRET)
    async with served(world.sample, patrols_part) as site:
        assert (await post(site, signed())).json() == {"started": True}


async def test_the_same_body_under_another_id_is_the_same_delivery(patrol_world):
    world = hooked(patrol_world)
    async with served(world.sample, patrols_part) as site:
        assert (await post(site, signed())).json() == {"started": True}
        ((job_id, _),) = jobs(world)
        await world.finish(load_job(world.app.db.reader, job_id))
        replayed = await post(site, signed(delivery="delivery-0002"))
        assert replayed.json() == {"started": False}, "the signature covers the body, not the id"
        body = b"another push"
        assert (await post(site, signed(body, delivery="delivery-0003"), body=body)).json() == {"started": True}
        assert len(jobs(world)) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.pop("X-Hub-Signature-256"),
        lambda h: h.pop("X-GitHub-Delivery"),
        lambda h: h.update({"X-Hub-Signature-256": "sha256=" + "0" * 64}),
        lambda h: h.update({"X-Hub-Signature-256": h["X-Hub-Signature-256"].upper()}),
        lambda h: h.update({"X-Hub-Signature-256": h["X-Hub-Signature-256"].removeprefix("sha256=")}),
        lambda h: h.update({"X-GitHub-Delivery": "../../x"}),
        lambda h: h.update({"X-GitHub-Delivery": "a" * 500}),
    ],
)
async def test_an_unsigned_delivery_starts_nothing(patrol_world, change):
    world = hooked(patrol_world)
    headers = signed()
    change(headers)
    async with served(world.sample, patrols_part) as site:
        assert (await post(site, headers)).status_code == 403
        assert (await post(site, signed(secret="another"))).status_code == 403
        assert (await post(site, signed(), body=BODY + b" ")).status_code == 403
    assert jobs(world) == []


async def test_a_repository_without_a_secret_takes_no_delivery_and_tells_nothing(patrol_world):
    world = patrol_world()
    empty = signed(secret="")
    async with served(world.sample, patrols_part) as site:
        known, unknown = await post(site, empty), await post(site, empty, path="/runner/v1/webhooks/nowhere")
        assert known.status_code == unknown.status_code == 403
        assert known.json() == unknown.json()
        for guess in ("no secret", "None", "site"):
            assert (await post(site, signed(secret=guess))).status_code == 403
    assert jobs(world) == []


async def test_only_this_path_is_open_and_only_to_post(patrol_world):
    world = hooked(patrol_world)
    async with served(world.sample, patrols_part) as site:
        for method, path in (
            ("GET", "/runner/v1/webhooks/site"),
            ("PUT", "/runner/v1/webhooks/site"),
            ("POST", "/runner/v1/webhooks/"),
            ("POST", "/runner/v1/webhooks"),
            ("POST", "/runner/v1/webhooks/site/more"),
            ("POST", "/runner/v1/patrols"),
            ("GET", "/runner/v1/alerts"),
        ):
            answer = await site.bare.request(method, path, headers=signed())
            assert answer.status_code == 401, (method, path, answer.text)
        foreign = await post(site, {**signed(), "Origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert jobs(world) == []


async def test_a_large_body_is_refused_and_a_flood_is_slowed(patrol_world):
    world = hooked(patrol_world)
    large = b"x" * ((1 << 20) + 1)
    async with served(world.sample, patrols_part) as site:
        assert (await post(site, signed(large), body=large)).status_code == 413
        codes = [(await post(site, signed(secret="no"))).status_code for _ in range(80)]
        assert 429 in codes
        assert set(codes) <= {403, 429}


def test_signatures_are_compared_whole():
    good = signed()["X-Hub-Signature-256"]
    assert is_signed(SECRET, BODY, good)
    assert not any(is_signed(SECRET, BODY, wrong) for wrong in ("", good[:-1], good + "0", "sha256=", "é" * 71))


@pytest.mark.slow
async def test_a_schedule_starts_a_patrol(patrol_world):
    from coilclaw.features.schedules.registry_edit import adding
    from coilclaw.features.schedules.schedule_entry import new_entry
    from coilclaw.features.schedules.scheduler import Scheduler

    world = patrol_world()
    given = {"interval": "24h", "goal": "Patrol site test.", "inputs": {"patrol": "site test"}}
    entry = new_entry("nightly", given, world.app.clock(), [], enabled=True)
    scheduler = Scheduler(world.app)
    await scheduler.edit(adding(entry))
    from coilclaw.app import build_worker
    from coilclaw.features.jobs.background import Background

    background = Background(world.app)
    await scheduler.dispatcher(background).run_now("nightly")
    stop = asyncio.Event()
    with background.named() as name:
        working = asyncio.ensure_future(build_worker(world.app, background.conveyor, name).run(stop))
        async with asyncio.timeout(120):
            while not world.alerts():
                await asyncio.sleep(0.1)
        stop.set()
        await working
    ((job_id, inputs),) = jobs(world)
    assert inputs["schedule_run"]["schedule_id"] == "nightly"
    assert [run.state for run in runs_of_job(world.app.db.reader, job_id)] == ["failed"]
    assert json.dumps(inputs)
