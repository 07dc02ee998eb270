"""Runner tokens: short-lived, narrow, stored as hashes, gone with their device."""

from datetime import timedelta

import pytest

from coilclaw.packets.ids import stamp
from coilclaw.server.door.tokens import token_hash
from coilclaw.store.devices import end_all_tokens, revoke_device
from coilclaw.store.runner_tokens import MOST_OF_DEVICE
from tests.features.runner.test_stream import PATH, streaming, token, viewing
from tests.server.door.test_sockets import assert_refused, closed, handshake, shows
from tests.server.echo import echo_part
from tests.server.site import served
from tests.server.wire import code

TOKENS = "/runner/v1/tokens"


def rows(site):
    return site.sample.app.db.reader.execute("SELECT * FROM runner_tokens").fetchall()


def write(site, sql, *values):
    site.sample.app.db.write_now(lambda tx: tx.execute(sql, values))


def ago(site, **amount):
    return stamp(site.sample.app.clock() - timedelta(**amount))


def bearer(site, shown):
    return site.client(headers={"Authorization": f"Bearer {shown}"})


async def test_token_is_stored_as_a_hash_and_recorded(sample):
    async with streaming(sample) as site:
        answer = await site.http.post(TOKENS, json={"org_id": "self", "access": "watch"})
        made = answer.json()
        [row] = rows(site)
        assert made["token"] not in str(row)
        assert token_hash(made["token"]) in row
        assert made["expires_at"] <= stamp(site.sample.app.clock() + timedelta(minutes=15))
        events = site.sample.app.db.reader.execute(
            "SELECT entity_id, payload_json FROM audit_log WHERE event_type = 'token_issued'"
        ).fetchall()
        assert [event[0] for event in events] == [made["token_id"]]
        assert made["token"] not in str(events)


async def test_token_is_not_kept_for_a_repeated_request(sample):
    async with streaming(sample) as site:
        asked, key = {"org_id": "self", "access": "watch"}, {"Idempotency-Key": "k"}
        first, again = [(await site.http.post(TOKENS, json=asked, headers=key)).json()["token"] for _ in range(2)]
        assert first != again
        for line in site.sample.app.db.reader.iterdump():
            assert first not in line


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"org_id": "self", "access": "own"}, 400),
        ({"org_id": "self"}, 400),
        ({"access": "watch"}, 400),
        ({"org_id": "self", "access": "watch", "expires_at": "2999-01-01"}, 400),
        ({"org_id": "other", "access": "watch"}, 422),
        ({"org_id": "self", "repo_id": "nothing", "access": "watch"}, 422),
        ({"org_id": "self", "session_id": "sess_none", "access": "watch"}, 422),
        ({"org_id": "acme", "session_id": "sess_1", "access": "watch"}, 422),
        ({"org_id": "self", "repo_id": "site", "session_id": "sess_1", "access": "watch"}, 422),
    ],
)
async def test_token_for_nothing_or_another_organisation_is_refused(sample, asked, status):
    async with streaming(sample) as site:
        site.sessions.start("sess_1")
        assert (await site.http.post(TOKENS, json=asked)).status_code == status
        assert rows(site) == []


async def test_token_opens_nothing_else(sample):
    async with served(sample(), echo_part) as site:
        from coilclaw.features.runner.tokens import RunnerTokens, TokenRequest
        from coilclaw.server.door.caller import Caller

        app = site.sample.app
        caller = Caller(device_id="dev_test", token_id="tok_test", way="bearer", confirmed=True, scope=None)
        asked = TokenRequest(org_id="self", access="drive")
        made = await RunnerTokens(app.db, app.clock).issue(caller, asked)
        program = bearer(site, made.token)
        for method, path in (("GET", "/v1/echo"), ("POST", "/v1/echo"), ("GET", "/v1/devices"), ("POST", "/v1/estop")):
            assert code(await program.request(method, path)) == (403, "OUT_OF_SCOPE"), path
        assert code(await program.get("/runner/v1x/../../v1/echo"))[0] in (403, 404)
        assert (await site.http.get("/v1/echo")).status_code == 200


async def test_token_cannot_issue_another(sample):
    async with streaming(sample) as site:
        program = bearer(site, await token(site, "watch"))
        answer = await program.post(TOKENS, json={"org_id": "self", "access": "drive"})
        assert code(answer) == (403, "OUT_OF_SCOPE")
        assert len(rows(site)) == 1


async def test_token_is_no_cookie_and_no_page_key(sample):
    async with streaming(sample) as site:
        shown = await token(site, "drive")
        answer = await handshake(site, f"Cookie: __Host-coilclaw={shown}", f"Origin: {site.origin}", path=PATH)
        assert_refused(answer, 401, "UNPAIRED")


@pytest.mark.parametrize("end", ["expired", "device revoked", "signed out", "device's token expired", "deleted"])
async def test_token_that_is_over_opens_nothing_again(sample, end):
    async with streaming(sample) as site:
        shown = await token(site, "drive")
        assert " 101 " in await handshake(site, *shows(shown), path=PATH)
        app = site.sample.app
        if end == "expired":
            write(site, "UPDATE runner_tokens SET expires_at = ?", ago(site, seconds=1))
        elif end == "device revoked":
            app.db.write_now(lambda tx: revoke_device(tx, "dev_test", stamp(app.clock())))
        elif end == "signed out":
            app.db.write_now(end_all_tokens)
        elif end == "device's token expired":
            write(site, "UPDATE auth_tokens SET expires_at = ?", ago(site, seconds=1))
        else:
            write(site, "DELETE FROM runner_tokens")
        assert_refused(await handshake(site, *shows(shown), path=PATH), 401, "UNPAIRED")
        assert code(await bearer(site, shown).post(f"{TOKENS}/renew")) == (401, "UNPAIRED")


async def test_stream_ends_when_its_token_expires(sample):
    async with streaming(sample) as site:
        site.sessions.start("sess_1")
        async with viewing(site, await token(site, "drive")) as client:
            await client.subscribe("sess_1")
            write(site, "UPDATE runner_tokens SET expires_at = ?", ago(site, seconds=1))
            assert await closed(client.socket) == 1008


async def test_token_is_renewed_for_a_day_and_not_longer(sample):
    async with streaming(sample) as site:
        shown = await token(site)
        write(site, "UPDATE runner_tokens SET created_at = ?", ago(site, hours=23))
        program = bearer(site, shown)
        renewed = await program.post(f"{TOKENS}/renew")
        assert renewed.status_code == 200
        assert renewed.json()["expires_at"] > stamp(site.sample.app.clock() + timedelta(minutes=14))
        write(site, "UPDATE runner_tokens SET created_at = ?", ago(site, hours=25))
        assert code(await program.post(f"{TOKENS}/renew")) == (422, "UNFIT")
        assert code(await site.http.post(f"{TOKENS}/renew")) == (422, "UNFIT")


async def test_tokens_of_a_device_do_not_pile_up(sample):
    async with streaming(sample) as site:
        for _ in range(MOST_OF_DEVICE + 5):
            await token(site)
        assert len(rows(site)) == MOST_OF_DEVICE
        write(site, "UPDATE runner_tokens SET expires_at = ?", ago(site, seconds=1))
        await token(site)
        assert len(rows(site)) == 1


async def test_token_of_an_unconfirmed_device_opens_nothing(sample):
    async with streaming(sample) as site:
        shown = await token(site, "drive")
        write(site, "UPDATE devices SET confirmed_at = NULL")
        assert_refused(await handshake(site, *shows(shown), path=PATH), 403, "UNCONFIRMED")


async def test_guessed_token_is_refused(sample):
    async with streaming(sample) as site:
        shown = await token(site, "drive")
        for guess in (shown[:-1] + ("A" if shown[-1] != "A" else "B"), "cc_" + "A" * 43, shown.lower(), shown + "A"):
            assert_refused(await handshake(site, f"Authorization: Bearer {guess}", path=PATH), 401, "UNPAIRED")
