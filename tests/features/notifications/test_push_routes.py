"""Push over HTTP: a device subscribes and unsubscribes itself, and no other one."""

import hashlib

import pytest

from coilclaw.features.notifications.feature import notifications_part
from coilclaw.ledger.audit import Wanted, last_events
from tests.features.notifications.push_service import ENDPOINT, Browser, Detour, bytes_of, push_service
from tests.server.house import code_of
from tests.server.site import served, unlimited


@pytest.fixture
async def site(sample):
    home = sample()
    async with push_service() as service:
        home.app.transport = Detour(service)
        async with served(home, notifications_part, rates=unlimited()) as site:
            yield site


async def test_a_device_subscribes_looks_and_unsubscribes(site):
    before = (await site.http.get("/v1/push")).json()
    assert (len(bytes_of(before["public_key"])), before["subscriptions"]) == (65, [])
    made = await site.http.post("/v1/push/subscriptions", json=Browser().subscription())
    assert made.status_code == 201, made.text
    assert made.json().keys() == {"subscription_id", "endpoint_sha256", "host", "created_at"}
    after = (await site.http.get("/v1/push")).json()
    assert after == {"public_key": before["public_key"], "subscriptions": [made.json()]}
    assert after["subscriptions"][0]["host"] == "push.example.net"
    assert after["subscriptions"][0]["endpoint_sha256"] == hashlib.sha256(ENDPOINT.encode()).hexdigest()
    assert ENDPOINT.rpartition("/")[2] not in str(after)
    path = f"/v1/push/subscriptions/{made.json()['subscription_id']}"
    assert (await site.http.delete(path)).status_code == 204
    assert code_of(await site.http.delete(path), 404) == "NOT_FOUND"
    assert (await site.http.get("/v1/push")).json()["subscriptions"] == []
    kinds = ("device_subscribed", "device_unsubscribed")
    db = site.sample.app.db.reader
    assert [len(last_events(db, Wanted(event_type=kind), 9)) for kind in kinds] == [1, 1]


async def test_a_device_sees_and_ends_its_own_subscriptions_alone(site):
    made = (await site.http.post("/v1/push/subscriptions", json=Browser().subscription())).json()
    other = site.device()
    assert (await other.get("/v1/push")).json()["subscriptions"] == []
    assert code_of(await other.delete(f"/v1/push/subscriptions/{made['subscription_id']}"), 404) == "NOT_FOUND"
    assert len((await site.http.get("/v1/push")).json()["subscriptions"]) == 1


async def test_nobody_subscribes_without_being_paired(site):
    assert code_of(await site.bare.get("/v1/push"), 401) == "UNPAIRED"
    assert code_of(await site.bare.post("/v1/push/subscriptions", json=Browser().subscription()), 401) == "UNPAIRED"


async def test_a_revoked_device_has_no_subscriptions(site):
    other = site.device()
    await other.post("/v1/push/subscriptions", json=Browser().subscription())
    (row,) = site.sample.app.db.reader.execute("SELECT device_id FROM push_subscriptions").fetchall()
    await other.post(f"/v1/devices/{row[0]}/revoke")
    assert site.sample.app.db.reader.execute("SELECT count(*) FROM push_subscriptions").fetchone() == (0,)


async def test_an_endpoint_inside_is_refused_with_the_reason(site):
    answer = await site.http.post("/v1/push/subscriptions", json=Browser().subscription("https://127.0.0.1/x"))
    assert code_of(answer, 422) == "ENDPOINT_REFUSED"


async def test_an_endpoint_nobody_can_look_up_is_refused(site):
    async def nowhere(host):
        raise OSError("no such name")

    site.sample.app.transport.judge._resolve = nowhere
    answer = await site.http.post("/v1/push/subscriptions", json=Browser().subscription())
    assert code_of(answer, 422) == "ENDPOINT_UNKNOWN"


@pytest.mark.parametrize(
    "keys",
    [
        {"p256dh": "A" * 87, "auth": "A" * 22},
        {"p256dh": "A" * 20, "auth": "A" * 22},
        {"auth": "A" * 22},
        {"p256dh": "é" * 87, "auth": "A" * 22},
    ],
)
async def test_keys_that_are_none_are_refused(site, keys):
    answer = await site.http.post("/v1/push/subscriptions", json={"endpoint": ENDPOINT, "keys": keys})
    assert answer.status_code in (400, 422)
    assert (await site.http.get("/v1/push")).json()["subscriptions"] == []


async def test_a_secret_of_the_wrong_length_is_refused(site):
    browser = Browser(auth=b"x" * 15)
    answer = await site.http.post("/v1/push/subscriptions", json=browser.subscription())
    assert code_of(answer, 422) == "BAD_KEYS"
