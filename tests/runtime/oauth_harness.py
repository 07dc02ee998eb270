"""The shipped authorization server, an airlock that may reach it, and a browser without a window."""

import asyncio
from urllib.parse import parse_qsl, urlsplit

import httpx

from coilclaw.airlock import Airlock, Listing
from coilclaw.packets.ids import utc_now
from coilclaw.runtime.oauth.client import OAuthClient, begin
from coilclaw.runtime.oauth.sign_in import sign_in
from coilclaw.secrets.redactor import Redactor

COMMAND = "coilclaw fake connect"
REDIRECT = "http://127.0.0.1:4711/oauth/callback"


def client_of(fake, **fields):
    told = {
        "provider": "mcp:files",
        "identity": "user",
        "client_id": fake.client_id,
        "client_secret": "",
        "authorize_url": fake.url("/authorize"),
        "token_url": fake.url("/token"),
        "revoke_url": fake.url("/revoke"),
        "scopes": ("read", "write"),
        "connect_command": COMMAND,
        "issuer": fake.base_url,
        "issuer_required": True,
    }
    return OAuthClient(**{**told, **fields})


class Wire:
    """An airlock that reaches this fake as `oauth`, with its log, and a redactor."""

    def __init__(self, *places):
        self.lines = []
        self.redactor = Redactor()
        self.transport = Airlock(Listing.build(oauth=places), log=self.lines.append, clock=utc_now)


async def consent(address):
    """Open the address and click yes: where the browser is sent."""
    async with httpx.AsyncClient(timeout=280, trust_env=False) as browser:
        return (await browser.get(address)).headers["location"]


async def follow(address):
    """Open the address, click yes, and go where the browser is sent."""
    async with httpx.AsyncClient(timeout=280, trust_env=False, follow_redirects=True) as browser:
        return await browser.get(address)


def query_of(address):
    return dict(parse_qsl(urlsplit(address).query))


async def granted(wire, client):
    """A grant by the whole flow, with the address pasted."""
    shown = []
    _, grant = await sign_in(wire.transport, wire.redactor, client, shown.append, paste=lambda: consent(shown[0]))
    return grant


async def answered(client):
    """A flow whose owner said yes: what waits, and its code."""
    pending = begin(client, REDIRECT)
    return pending, pending.read_pasted(await consent(pending.address)).code


async def raw_request(uri, data):
    """Send bytes to the listener of a redirect address; everything it answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(uri).port)
    try:
        writer.write(data)
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()
