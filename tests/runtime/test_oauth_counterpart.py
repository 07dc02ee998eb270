"""The flow against somebody else's emulation of a large provider: another reading of the same standards."""

import asyncio

import pytest

from coilclaw.packets.errors import OAuthError
from coilclaw.runtime.oauth.accounts import Accounts
from coilclaw.runtime.oauth.client import OAuthClient, begin
from coilclaw.runtime.oauth.token_requests import exchange
from tests.home import Sample
from tests.runtime.emulated_google import consent_as, emulated
from tests.runtime.oauth_harness import COMMAND, REDIRECT
from tests.runtime.test_oauth_accounts import Uptime, reach, stored

OWNER = "owner@example.com"
CLIENT = {"client_id": "coilclaw-test", "client_secret": "coilclaw-test-secret", "name": "CoilClaw"}
SEED = {"users": [{"email": OWNER, "name": "Owner"}], "oauth_clients": [{**CLIENT, "redirect_uris": [REDIRECT]}]}


@pytest.fixture
def provider(tmp_path):
    """The base URL of the emulated provider."""
    with emulated(tmp_path, SEED) as url:
        yield url


@pytest.mark.slow
async def test_connect_renew_and_disconnect_at_another_server(tmp_path, provider):
    client = OAuthClient(
        provider="google",
        identity="user",
        client_id="coilclaw-test",
        client_secret="coilclaw-test-secret",
        authorize_url=f"{provider}/o/oauth2/v2/auth",
        token_url=f"{provider}/oauth2/token",
        revoke_url=f"{provider}/oauth2/revoke",
        scopes=("openid", "email"),
        authorize_params=(("access_type", "offline"),),
        connect_command=COMMAND,
    )
    home, uptime = Sample(tmp_path), Uptime()
    reach(home, provider)
    accounts = Accounts(home.app, uptime=uptime)

    pending = begin(client, REDIRECT)
    code = pending.read_pasted(await consent_as(OWNER, pending.address)).checked(client)
    with pytest.raises(OAuthError) as caught:
        await exchange(home.app.transport, home.app.redactor, begin(client, REDIRECT), code)
    assert caught.value.code == "INVALID_GRANT", "it wants the verifier that belongs to the challenge"

    pending = begin(client, REDIRECT)
    code = pending.read_pasted(await consent_as(OWNER, pending.address)).checked(client)
    grant = await exchange(home.app.transport, home.app.redactor, pending, code)
    await accounts.connect(client, grant, keep_client=False)
    first = await accounts.access(client)
    uptime.now += 3600
    tokens = await asyncio.gather(*(accounts.access(client) for _ in range(20)))
    assert {token.value for token in tokens} != {first.value}
    assert len({token.value for token in tokens}) == 1
    for token in (first.value, tokens[0].value, stored(home, accounts)):
        assert token not in home.app.redact(f"Bearer {token}")

    assert (await accounts.disconnect(client)).unrevoked == ""
    assert accounts.status() == []
    home.close()
