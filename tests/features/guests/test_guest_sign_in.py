"""Signing in to an HTTP guest: lane C, at hosts that the owner named, with a token that is renewed and never shown."""

import asyncio
import json
from functools import partial

import msgspec
import pytest

from coilclaw.cli.signing_in import at_the_browser
from coilclaw.features.guests.signing_in import account_of, bearer, begin_sign_in, connect_call, is_signed_in
from coilclaw.gate.turn import Turn
from coilclaw.packets.errors import CoilclawError
from coilclaw.runtime.oauth.sign_ins import sign_ins
from coilclaw.sandbox.fake_oauth import FakeOAuth
from coilclaw.store.stored_secrets import list_secrets
from tests.features.guests.http_harness import serving
from tests.features.guests.world import Guest
from tests.features.mail.test_accounts_http import approve
from tests.runtime.oauth_harness import consent, follow
from tests.server.house import passkey_of
from tests.server.site import served_whole


@pytest.fixture
async def signed(sample):
    with FakeOAuth() as oauth:
        async with serving({}) as web:
            made = Guest(sample, kind="http", server={"url": oauth.resource_url, "oauth_hosts": (oauth.base_url,)})
            made.oauth, made.web = oauth, web
            yield made
            await made.close()


async def browse(guest):
    """The owner's part: what there is to approve afterwards."""
    pending = await begin_sign_in(guest.app, "sum", guest.server)
    await follow(pending.address)
    await sign_ins(guest.app).wait(account_of("sum"))
    return connect_call(guest.app, "sum", guest.server)


async def sign_in(guest):
    return await guest.hand(await browse(guest))


async def test_signing_in_is_lane_c_and_keeps_a_token_that_nobody_sees(signed):
    call = await browse(signed)
    assert not [path for _, path, _ in signed.oauth.requests if path == "/token"], "before the owner's yes"
    assert signed.app.oauth.status() == []
    done = await signed.hand(call)
    assert done.result.success, done.result.output
    (card,) = signed.home.owner.cards
    assert (card.lane, signed.oauth.resource_url in card.preview_or_diff) == ("C", True)
    (account,) = signed.app.oauth.status()
    assert account.provider == "mcp:sum"
    assert is_signed_in(signed.app, "sum", signed.server)
    for other in ({"url": "http://127.0.0.1:9/mcp"}, {"oauth_scopes": ("read", "admin")}):
        assert not is_signed_in(signed.app, "sum", msgspec.structs.replace(signed.server, **other))
    stored = b"".join(
        row[0] for row in signed.app.db.reader.execute("SELECT encrypted_refresh_token FROM oauth_tokens")
    )
    assert stored
    name, value = await bearer(signed.app, "sum", signed.server.url, "")
    assert name.lower() == "authorization"
    assert value.startswith("Bearer ")
    token = value.partition(" ")[2]
    assert token not in done.result.output + card.preview_or_diff + str(signed.home.events)
    assert (await bearer(signed.app, "sum", signed.server.url, token))[1] != value  # refused: renewed


async def test_with_a_passkey_the_sign_in_waits_for_it_and_another_process_keeps_the_account(signed):
    async with served_whole(signed.home) as site:
        passkey = passkey_of(site)
        waits = await sign_in(signed)
        assert waits.pending
        signed.app.kept.pop("oauth_sign_ins")  # the process that the browser came back to has ended
        card, done = await approve(site, waits.action.action_id, passkey)
        assert (done.status, card["target_entity"]) == ("EXECUTED", "sum")
        assert is_signed_in(signed.app, "sum", signed.server)


async def test_a_pasted_address_signs_in_as_well_and_counts_once(signed):
    pending = await begin_sign_in(signed.app, "sum", signed.server, listen=False)
    await sign_ins(signed.app).paste(account_of("sum"), await consent(pending.address))
    call = connect_call(signed.app, "sum", signed.server)
    assert (await signed.hand(call)).result.success
    assert (await signed.hand(call)).result.code == "SIGN_IN_OVER"
    assert [secret.name for secret in list_secrets(signed.app.db.reader) if secret.name.endswith(":answer")] == []


async def test_the_command_signs_in_with_a_loop_of_its_own_before_the_call_is_carried(signed, capsys):
    begin = partial(begin_sign_in, signed.app, "sum", signed.server)
    signing = asyncio.create_task(
        asyncio.to_thread(at_the_browser, signed.app, account_of("sum"), begin, "Open this:", paste=False)
    )
    told = ""
    while "Waiting for the browser" not in told:
        await asyncio.sleep(0.01)
        told += capsys.readouterr().out
    await follow(told.split()[2])
    await signing
    call = connect_call(signed.app, "sum", signed.server)
    await signed.app.leave()  # as each command does before it carries a call
    assert (await signed.hand(call)).result.success


async def test_a_server_that_cannot_be_signed_in_to_says_why_before_anything_is_asked(signed):
    signed.oauth.__exit__(None, None, None)
    with pytest.raises(CoilclawError):
        await begin_sign_in(signed.app, "sum", signed.server)
    assert sign_ins(signed.app).state(account_of("sum")) is None


async def test_without_signing_in_the_remedy_is_said(signed):
    looked = await signed.look()
    assert looked.result.code == "GUEST_UNAUTHORIZED"
    assert "coilclaw mcp sign-in sum" in looked.result.output


@pytest.mark.parametrize("source", ["chat", "job", "schedule", "sop", "cli"])
async def test_no_model_can_sign_in(signed, source):
    call = await browse(signed)
    refused = await signed.home.call(call.tool, Turn("turn_m", "", source), **json.loads(call.args_bytes))
    assert refused.result.code == "TOOL_NOT_ALLOWED"
    assert signed.app.oauth.status() == []


@pytest.mark.parametrize("shown", [{"hosts": ["https://evil.example"]}, {"url": "http://127.0.0.1:9/mcp"}])
async def test_hosts_that_changed_after_the_card_are_not_used(signed, shown):
    call = await browse(signed)
    args = {**json.loads(call.args_bytes), **shown}
    refused = await signed.home.call(call.tool, Turn("turn_h", "", "gateway"), **args)
    assert refused.result.code == "GUEST_CHANGED"
    assert not [path for _, path, _ in signed.oauth.requests if path == "/token"]


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
