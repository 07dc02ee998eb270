"""Accounts over HTTP: the browser signs in, the passkey connects, and no code or token is written anywhere."""

import asyncio

import pytest

from coilclaw.features.mail.accounts import google_accounts
from coilclaw.features.mail.signing_in import account_of, begin_sign_in, connect_call
from coilclaw.gate.turn import Turn
from coilclaw.packets.canonical import parse_object
from coilclaw.runtime.oauth.sign_ins import sign_ins
from coilclaw.store.actions import load_action
from coilclaw.store.stored_secrets import list_secrets
from tests.features.mail.accounts_harness import ENVIRON, OWNER, connect, fake_google, lead_to
from tests.runtime.oauth_harness import consent, follow
from tests.server.house import code_of, passkey_of, signed
from tests.server.site import served_whole


@pytest.fixture
def fake():
    with fake_google() as made:
        yield made


@pytest.fixture
def home(sample, fake):
    made = sample(environ=ENVIRON)
    lead_to(made, fake)
    return made


async def until(look, *, tries=8000):
    for _ in range(tries):
        if found := await look():
            return found
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


async def account(site, identity="user"):
    listed = (await site.http.get("/v1/accounts")).json()
    assert listed["configured"]
    return next(each for each in listed["items"] if each["identity"] == identity)


async def answered(site, identity="user"):
    async def look():
        now = await account(site, identity)
        return now if now["sign_in"]["state"] != "waiting" else None

    return await until(look)


async def approve(site, action_id, passkey):
    """Say yes with the passkey, and wait for the end."""
    app = site.sample.app
    card = (await site.http.get(f"/v1/approvals/{action_id}")).json()
    action = load_action(app.db.reader, action_id)
    asked = {"subject": action.action_id, "digest": action.digest, "valid_until": action.expires_at}
    proof = signed(site, passkey, purpose="approve", **asked)
    body = {"digest": card["digest"], "seen": card["seen"], "proof": proof}
    assert (await site.http.post(f"/v1/approvals/{action_id}/approve", json=body)).status_code == 200

    async def look():
        now = load_action(app.db.reader, action_id)
        return now if now.status not in ("PENDING", "APPROVED") else None

    return card, await until(look)


def everything_written(app):
    """Every text of every table, as it stands in the database."""
    tables = [row[0] for row in app.db.reader.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    kept = [name for name in tables if name not in ("oauth_tokens", "stored_secrets") and "fts" not in name]
    return "\n".join(str(row) for name in kept for row in app.db.reader.execute(f"SELECT * FROM {name}"))


async def test_browser_signs_in_and_the_passkey_connects(home, fake):
    async with served_whole(home) as site:
        passkey = passkey_of(site)
        begun = (await site.http.post("/v1/accounts/user/sign-in")).json()
        assert begun["sign_in"]["state"] == "waiting"
        assert code_of(await site.http.post("/v1/accounts/user/connect"), 409) == "NOT_ANSWERED"
        await follow(begun["sign_in"]["address"])
        assert (await answered(site))["state"] == "not_connected"
        assert fake.asked("/token") == []  # nothing is exchanged before the owner's proof

        asked = (await site.http.post("/v1/accounts/user/connect")).json()
        assert (asked["status"], asked["needs"]) == ("PENDING", "passkey")
        bare = await site.http.post(
            f"/v1/approvals/{asked['action_id']}/approve", json={"digest": "0" * 64, "seen": ""}
        )
        assert bare.status_code >= 400
        card, done = await approve(site, asked["action_id"], passkey)
        assert (done.status, card["target_entity"]) == ("EXECUTED", "google (user)")
        assert "read and search mail" in card["preview_or_diff"]
        assert "never sends from this account" in card["preview_or_diff"]
        connected = await account(site)
        assert (connected["state"], connected["mailbox"]) == ("connected", OWNER)
        assert all(scope["granted"] for scope in connected["scopes"])
        assert [each.name for each in list_secrets(home.app.db.reader)] == []

        token = await google_accounts(home.app).bearer("user")
        (exchanged,) = fake.asked("/token")
        written = everything_written(home.app)
        assert not [value for value in (token, exchanged["code"], exchanged["code_verifier"]) if value in written]

        asked = (await site.http.post("/v1/accounts/user/disconnect")).json()
        assert (asked["status"], asked["needs"]) == ("PENDING", "passkey")
        assert (await account(site))["state"] == "connected"
        await approve(site, asked["action_id"], passkey)
        assert (await account(site))["state"] == "not_connected"
        assert len(fake.asked("/revoke")) == 1


async def test_browser_elsewhere_hands_in_where_it_ended(home, fake):
    async with served_whole(home) as site:
        begun = (await site.http.post("/v1/accounts/bot/sign-in")).json()
        wrong = await site.http.post(
            "/v1/accounts/bot/signed-in", json={"address": "http://127.0.0.1:1/?code=x&state=y"}
        )
        assert code_of(wrong, 409) == "PASTED"
        ended = await consent(begun["sign_in"]["address"])
        told = await site.http.post("/v1/accounts/bot/signed-in", json={"address": ended})
        assert told.json()["sign_in"]["state"] == "answered"


async def test_owner_who_says_no_is_told_so(home, fake):
    fake.denies = True
    async with served_whole(home) as site:
        begun = (await site.http.post("/v1/accounts/user/sign-in")).json()
        await follow(begun["sign_in"]["address"])
        now = await answered(site)
        assert now["sign_in"]["state"] == "failed"
        assert "access was denied" in now["sign_in"]["fault"]


async def test_another_sign_in_takes_the_place_of_the_first(home, fake):
    async with served_whole(home) as site:
        passkey = passkey_of(site)
        first = (await site.http.post("/v1/accounts/user/sign-in")).json()
        await site.http.post(
            "/v1/accounts/user/signed-in", json={"address": await consent(first["sign_in"]["address"])}
        )
        asked = (await site.http.post("/v1/accounts/user/connect")).json()
        second = (await site.http.post("/v1/accounts/user/sign-in")).json()
        await site.http.post(
            "/v1/accounts/user/signed-in", json={"address": await consent(second["sign_in"]["address"])}
        )
        _, done = await approve(site, asked["action_id"], passkey)
        assert done.status == "FAILED"
        assert (await account(site))["state"] == "not_connected"


@pytest.mark.parametrize("source", ["chat", "job", "schedule", "sop", "cli", "mcp"])
async def test_no_model_connects_or_disconnects_an_account(home, fake, source):
    pending = await begin_sign_in(home.app, "user", listen=False)
    await sign_ins(home.app).paste(account_of("user"), await consent(pending.address))
    call = connect_call(home.app, "user")
    refused = await home.call(call.tool, Turn("turn_m", "", source), **parse_object(call.args_bytes))
    assert refused.result.code == "TOOL_NOT_ALLOWED"
    await connect(google_accounts(home.app), "user")
    refused = await home.call("google_disconnect", Turn("turn_m", "", source), account="user")
    assert refused.result.code == "TOOL_NOT_ALLOWED"
    assert google_accounts(home.app).state("user").state == "connected"


async def test_answer_counts_once_and_not_for_long(home, fake):
    pending = await begin_sign_in(home.app, "user", listen=False)
    await sign_ins(home.app).paste(account_of("user"), await consent(pending.address))
    call, turn = connect_call(home.app, "user"), Turn("turn_o", "", "gateway")
    args = parse_object(call.args_bytes)
    changed = {**args, "scopes": [*args["scopes"], "https://www.googleapis.com/auth/gmail.send"]}
    assert (await home.call(call.tool, turn, key="k0", **changed)).result.code == "SIGN_IN_OVER"
    assert (await home.call(call.tool, turn, key="k1", **args)).result.code == "SIGN_IN_OVER"  # it was taken
    assert fake.asked("/token") == []


async def test_unknown_identity_and_missing_client_are_not_found(sample, fake, home):
    async with served_whole(home) as site:
        assert code_of(await site.http.post("/v1/accounts/root/sign-in"), 404) == "NOT_FOUND"
        assert (await site.bare.get("/v1/accounts")).status_code == 401
    other = sample()
    async with served_whole(other) as site:
        assert (await site.http.get("/v1/accounts")).json() == {"configured": False, "items": []}
        assert code_of(await site.http.post("/v1/accounts/user/sign-in"), 404) == "NOT_FOUND"
