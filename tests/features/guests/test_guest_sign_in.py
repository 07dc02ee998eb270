"""Signing in to an HTTP guest: lane C, at hosts that the owner named, with a token that is renewed and never shown."""

import asyncio
import json
import urllib.request

import pytest

from coilclaw.gate.turn import Turn
from coilclaw.sandbox.fake_oauth import FakeOAuth
from tests.features.guests.http_harness import serving
from tests.features.guests.world import Guest


async def visit(address):
    """What a browser does: follow the authorization server's redirect to the listener."""
    await asyncio.to_thread(lambda: urllib.request.urlopen(address, timeout=280).read())


@pytest.fixture
async def signed(sample):
    with FakeOAuth() as oauth:
        async with serving({}) as web:
            made = Guest(sample, kind="http", server={"url": oauth.resource_url, "oauth_hosts": (oauth.base_url,)})
            made.oauth, made.web = oauth, web
            yield made
            await made.close()


async def sign_in(guest):
    call = guest.owner.sign_in_call("sum", paste=False)
    opened = asyncio.Event()
    visiting = []

    def warned(text):
        if "Open this address" in text:
            visiting.append(asyncio.ensure_future(visit(text.rpartition(" ")[2])))
            opened.set()

    guest.app.warn = warned
    done = await guest.home.call(call.tool, Turn("turn_h", "", "gateway"), **json.loads(call.args_bytes))
    await asyncio.gather(*visiting)
    return done


async def test_signing_in_is_lane_c_and_keeps_a_token_that_nobody_sees(signed):
    done = await sign_in(signed)
    assert done.result.success, done.result.output
    (card,) = signed.home.owner.cards
    assert (card.lane, signed.oauth.resource_url in card.preview_or_diff) == ("C", True)
    (account,) = signed.app.oauth.status()
    assert account.provider == "mcp:sum"
    stored = b"".join(
        row[0] for row in signed.app.db.reader.execute("SELECT encrypted_refresh_token FROM oauth_tokens")
    )
    assert stored
    from coilclaw.features.guests.signing_in import bearer

    name, value = await bearer(signed.app, "sum", signed.server.url, "")
    assert name.lower() == "authorization"
    assert value.startswith("Bearer ")
    token = value.partition(" ")[2]
    assert token not in done.result.output + card.preview_or_diff + str(signed.home.events)
    assert (await bearer(signed.app, "sum", signed.server.url, token))[1] != value  # refused: renewed


async def test_without_signing_in_the_remedy_is_said(signed):
    looked = await signed.look()
    assert looked.result.code == "GUEST_UNAUTHORIZED"
    assert "coilclaw mcp sign-in sum" in looked.result.output


@pytest.mark.parametrize("source", ["chat", "job", "schedule", "sop", "cli"])
async def test_no_model_can_sign_in(signed, source):
    call = signed.owner.sign_in_call("sum", paste=False)
    refused = await signed.home.call(call.tool, Turn("turn_m", "", source), **json.loads(call.args_bytes))
    assert refused.result.code == "TOOL_NOT_ALLOWED"
    assert not signed.oauth.requests


@pytest.mark.parametrize("shown", [{"hosts": ["https://evil.example"]}, {"url": "http://127.0.0.1:9/mcp"}])
async def test_hosts_that_changed_after_the_card_are_not_used(signed, shown):
    call = signed.owner.sign_in_call("sum", paste=False)
    args = {**json.loads(call.args_bytes), **shown}
    refused = await signed.home.call(call.tool, Turn("turn_h", "", "gateway"), **args)
    assert refused.result.code == "GUEST_CHANGED"
    assert not signed.oauth.requests


async def test_removing_a_server_revokes_and_deletes_its_account(signed):
    await sign_in(signed)
    told = await signed.owner.remove("sum")
    assert told[0] == "mcp:sum (user) is disconnected and its permission revoked."
    assert [path for method, path, _ in signed.oauth.requests if path == "/revoke"]
    assert signed.app.oauth.status() == []
    assert signed.app.oauth.kept_client("mcp:sum", "user") is None
    (told,) = signed.app.db.reader.execute("SELECT payload_json FROM audit_log WHERE event_type = 'oauth_disconnected'")
    assert json.loads(told[0]) == {"revoked": True}


async def test_an_account_whose_server_cannot_be_told_is_deleted_and_the_owner_learns_it(signed):
    await sign_in(signed)
    signed.oauth.__exit__(None, None, None)
    told = await signed.owner.remove("sum")
    assert "its permission was not revoked" in told[0]
    assert signed.app.oauth.status() == []


async def test_an_account_that_cannot_be_opened_any_more_is_deleted_all_the_same(signed):
    await sign_in(signed)
    await signed.app.db.write(lambda tx: tx.execute("DELETE FROM stored_secrets"))
    told = await signed.owner.remove("sum")
    assert "its client is not stored" in told[0]
    assert signed.app.oauth.status() == []
