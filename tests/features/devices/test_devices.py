"""Devices and tokens over real HTTP: seen, named, vouched for, revoked; and what time does to a token."""

import asyncio
import os

import pytest

from coilclaw.features.devices.device_changes import end_device
from coilclaw.features.jobs.background import Background
from coilclaw.packets.ids import stamp
from coilclaw.server.door.tokens import Tokens, new_token, token_hash
from coilclaw.server.events.part import events_part
from coilclaw.store.database import Database
from tests.server.echo import echo_part
from tests.server.follower import Follower
from tests.server.phone import events, issue, register_passkey
from tests.server.site import enrol, served


def expiry(sample, token_id="tok_test"):
    row = sample.app.db.reader.execute("SELECT expires_at FROM auth_tokens WHERE token_id = ?", (token_id,)).fetchone()
    return None if row is None else row[0]


# Seen


async def test_the_session_says_who_asks_and_what_the_panel_needs_first(sample):
    made = sample()
    async with served(made) as site:
        told = (await site.http.get("/v1/sign-in")).json()
        assert told["device"]["device_id"] == "dev_test"
        assert told["device"]["current"] is True
        assert (told["way"], told["confirmed"], told["passkeys"], told["estop"]) == ("bearer", True, 0, False)
        assert told["origin"] == site.origin
        assert told["version"]
        assert told["passkey_window_ends_at"] is not None
        made.app.estop.engage("test", "now")
        register_passkey(made)
        told = (await site.http.get("/v1/sign-in")).json()
        assert (told["estop"], told["passkeys"], told["passkey_window_ends_at"]) == (True, 1, None)


async def test_devices_are_listed_page_by_page_newest_first(sample):
    made = sample()
    async with served(made) as site:
        for number in range(5):
            enrol(made, f"dev_{number}", f"tok_{number}", name=f"number {number}")
        seen, cursor = [], None
        while True:
            params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = (await site.http.get("/v1/devices", params=params)).json()
            seen += [each["device_id"] for each in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert sorted(seen) == ["dev_0", "dev_1", "dev_2", "dev_3", "dev_4", "dev_test"]
        assert len(seen) == 6
        answer = await site.http.get("/v1/devices", params={"cursor": "nonsense"})
        assert answer.status_code == 422


async def test_a_device_can_be_named(sample):
    made = sample()
    async with served(made) as site:
        answer = await site.http.patch("/v1/devices/dev_test", json={"name": "Küche"})
        assert answer.json()["name"] == "Küche"
        assert events(made, "device_renamed") == [("device_renamed", "dev_test", {"by": "device:dev_test"})]
        for name in ("", "x" * 81, "a\u0000b", "a\nb", None):
            assert (await site.http.patch("/v1/devices/dev_test", json={"name": name})).status_code == 400
        assert (await site.http.patch("/v1/devices/nobody", json={"name": "x"})).status_code == 404


# Revoked


async def test_a_revoked_token_is_out_at_once(sample):
    made = sample()
    async with served(made, echo_part) as site:
        told = []
        site.serving.on_revoked(told.append)
        token = enrol(made, "dev_lost", "tok_lost")
        lost = site.client(headers={"Authorization": f"Bearer {token}"})
        assert (await lost.get("/v1/echo")).status_code == 200
        answer = await site.http.post("/v1/devices/dev_lost/revoke", json={})
        assert (answer.status_code, answer.json()["active"]) == (200, False)
        for _ in range(3):
            assert (await lost.get("/v1/echo")).status_code == 401
        assert told == ["dev_lost"]
        assert events(made, "device_revoked") == [
            ("device_revoked", "dev_lost", {"by": "device:dev_test", "why": "revoked"})
        ]
        again = await site.http.post("/v1/devices/dev_lost/revoke", json={})
        assert again.status_code == 200
        assert len(events(made, "device_revoked")) == 1


async def test_a_device_that_another_process_revokes_is_out_at_once(sample):
    made = sample()
    async with served(made, echo_part) as site:
        assert (await site.http.get("/v1/echo")).status_code == 200
        other = Database(made.app.config.memory.path, made.home.locks_dir)
        other.write_now(lambda tx: end_device(tx, made.app.clock, "dev_test", by="terminal", why="revoked"))
        other.close()
        assert (await site.http.get("/v1/echo")).status_code == 401


async def test_the_streams_of_a_device_end_when_it_is_revoked(sample):
    made = sample()
    async with served(made, events_part) as site:
        token = enrol(made, "dev_lost", "tok_lost")
        async with Follower(site.port, token) as lost:
            await lost.until(lambda follower: follower.named("hello"))
            await site.http.post("/v1/devices/dev_lost/revoke", json={})
            await lost.until(lambda follower: follower.ended)


async def test_signing_out_ends_the_own_device_even_with_passkeys(sample):
    made = sample()
    async with served(made) as site:
        register_passkey(made)
        assert (await site.http.post("/v1/sign-in/end")).status_code == 204
        assert (await site.http.get("/v1/sign-in")).status_code == 401
        assert events(made, "device_revoked")[0][2] == {"by": "device:dev_test", "why": "signed_out"}
        answer = await site.device(name="x").get("/v1/devices")
        (gone,) = [each for each in answer.json()["items"] if each["device_id"] == "dev_test"]
        assert (gone["active"], gone["revoked_at"] is not None) == (False, True)


async def test_revoking_oneself_is_signing_out(sample):
    made = sample()
    async with served(made) as site:
        register_passkey(made)
        assert (await site.http.post("/v1/devices/dev_test/revoke", json={})).status_code == 200
        assert (await site.http.get("/v1/sign-in")).status_code == 401


async def test_with_passkeys_another_device_is_revoked_only_with_one(sample):
    made = sample()
    async with served(made) as site:
        enrol(made, "dev_other", "tok_other")
        register_passkey(made)
        answer = await site.http.post("/v1/devices/dev_other/revoke", json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "PROOF_NEEDED")
        assert events(made, "device_revoked") == []
        assert (await site.http.post("/v1/devices/nobody/revoke", json={})).status_code == 404


# Vouched for


async def test_nobody_vouches_for_a_device_without_proof(sample):
    made = sample()
    async with served(made) as site:
        token = enrol(made, "dev_new", "tok_new", confirmed=False)
        new = site.client(headers={"Authorization": f"Bearer {token}"})
        register_passkey(made)
        for client in (new, site.http):
            answer = await client.post("/v1/devices/dev_new/confirm", json={})
            assert (answer.status_code, answer.json()["code"]) == (403, "PROOF_NEEDED")
        assert (await site.http.post("/v1/devices/nobody/confirm", json={})).status_code == 404
        assert (await site.http.post("/v1/devices/dev_test/confirm", json={})).status_code == 200  # it is already
        await new.post("/v1/sign-in/end")
        answer = await site.http.post("/v1/devices/dev_new/confirm", json={})
        assert (answer.status_code, answer.json()["code"]) == (409, "DEVICE_REVOKED")


async def test_when_no_passkey_is_left_a_confirmed_device_vouches(sample):
    made = sample()
    async with served(made, echo_part) as site:
        token = enrol(made, "dev_new", "tok_new", confirmed=False)
        new = site.client(headers={"Authorization": f"Bearer {token}"})
        assert (await new.post("/v1/devices/dev_new/confirm", json={})).status_code == 403
        assert (await site.http.post("/v1/devices/dev_new/confirm", json={})).json()["confirmed"] is True
        assert (await new.get("/v1/echo")).status_code == 200
        assert events(made, "device_confirmed") == [("device_confirmed", "dev_new", {"by": "device:dev_test"})]


# Time


async def wait_for_writes(sample):
    await sample.app.db.write(lambda tx: None)


async def test_a_token_lasts_for_its_days_after_its_last_use(sample, clock):
    made = sample()
    made.app.clock = clock
    async with served(made, echo_part) as site:
        for _ in range(4):
            clock.advance(days=29)
            assert (await site.http.get("/v1/echo")).status_code == 200
            await wait_for_writes(made)
        clock.advance(days=31)
        assert (await site.http.get("/v1/echo")).status_code == 401


async def test_a_use_is_written_down_at_most_once_an_hour(sample, clock):
    made = sample()
    made.app.clock = clock
    async with served(made, echo_part) as site:
        first = expiry(made)
        for _ in range(5):
            clock.advance(minutes=10)
            await site.http.get("/v1/echo")
        await wait_for_writes(made)
        assert expiry(made) == first
        clock.advance(minutes=11)
        for _ in range(5):
            await site.http.get("/v1/echo")
        await wait_for_writes(made)
        renewed = expiry(made)
        assert renewed > first
        session = (await site.http.get("/v1/sign-in")).json()
        assert session["device"]["last_seen_at"] > stamp(made.app.clock().replace(year=2000))
        await wait_for_writes(made)
        assert expiry(made) == renewed


class Ticks:
    """A monotonic clock that the test owns."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def tokens(sample, clock):
    made = sample()
    made.app.clock = clock
    ticks = Ticks()
    checked = Tokens(db=made.app.db, clock=clock, days=30, monotonic=ticks, say=made.app.observe)
    return made, checked, ticks


def settle(made, tokens, clock):
    return made.app.db.write_now(lambda tx: tokens.settle(tx, clock()))


def test_token_that_has_expired_is_deleted_when_it_is_shown(tokens, clock):
    made, checked, _ = tokens
    token = enrol(made)
    clock.advance(days=31)
    assert expiry(made) is not None
    assert checked.caller(token, "bearer") is None
    made.app.db.write_now(lambda tx: None)  # what was submitted before is written by now
    assert expiry(made) is None
    clock.advance(days=-31)
    assert checked.caller(token, "bearer") is None


async def test_worker_deletes_what_has_expired_without_waiting_for_retention(tokens, clock):
    made, _, _ = tokens
    enrol(made)
    issue(made)
    clock.advance(days=31)
    background = Background(made.app)
    with background.named() as name:
        await background.worker(name).drain(asyncio.Event())
    assert expiry(made) is None
    assert made.app.db.reader.execute("SELECT count(*) FROM pairing_codes").fetchone() == (0,)


def test_clock_that_ran_ahead_while_nobody_came_signs_nobody_out(tokens, clock):
    made, checked, _ = tokens
    token = enrol(made)
    clock.advance(days=4000)
    clock.advance(days=-4000)
    assert checked.caller(token, "bearer") is not None


def test_a_token_made_by_a_clock_that_ran_ahead_ends_in_time(tokens, clock):
    made, checked, ticks = tokens
    clock.advance(days=4000)
    token = enrol(made)
    clock.advance(days=-4000)
    assert checked.caller(token, "bearer") is not None
    ticks.now += 3601
    assert checked.caller(token, "bearer") is not None  # settles, an hour after the start
    made.app.db.write_now(lambda tx: None)
    clock.advance(days=29)
    made.app.db.write_now(lambda tx: None)
    clock.advance(days=2)
    assert checked.caller(token, "bearer") is None


def test_a_clock_that_goes_back_brings_no_settled_token_back(tokens, clock):
    made, checked, _ = tokens
    token = enrol(made)
    clock.advance(days=31)
    assert settle(made, checked, clock) == 1
    clock.advance(days=-31)
    assert checked.caller(token, "bearer") is None
    assert expiry(made) is None


def test_settling_leaves_good_tokens_as_they_are(tokens, clock):
    made, checked, _ = tokens
    token = enrol(made)
    before = expiry(made)
    clock.advance(minutes=5)
    assert settle(made, checked, clock) == 0
    assert expiry(made) == before
    assert checked.caller(token, "bearer") is not None


def test_a_late_renewal_does_not_bring_a_revoked_token_back(tokens, clock):
    from coilclaw.store.devices import renew_token

    made, checked, _ = tokens
    token = enrol(made)
    made.app.db.write_now(lambda tx: end_device(tx, clock, "dev_test", by="terminal", why="revoked"))
    made.app.db.write_now(lambda tx: renew_token(tx, "tok_test", now=stamp(clock()), expires_at="9999"))
    assert checked.caller(token, "bearer") is None


def test_tokens_have_two_hundred_and_fifty_six_bits_and_are_kept_as_hashes():
    token = new_token(os.urandom)
    assert token.startswith("cc_")
    assert len(token) == 46
    assert new_token(os.urandom) != token
    assert token_hash(token) != token
    assert len(token_hash(token)) == 64
