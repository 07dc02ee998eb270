"""Signing in to an HTTP server with OAuth: the owner's browser, hosts that the owner named, a token nobody sees.

First the browser, then the owner's approval: with a passkey that is given in the panel, to another process than the
one that the browser came back to.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from coilclaw.packets.action import ToolCall
from coilclaw.packets.errors import CoilclawError, OAuthError, ToolError
from coilclaw.runtime.oauth.sign_ins import Account, sign_ins, take_answer

if TYPE_CHECKING:
    from coilclaw.config.mcp import McpServer
    from coilclaw.runtime.oauth.client import OAuthClient, Pending
    from coilclaw.runtime.runtime import Runtime


CHALLENGE_SECONDS = 20.0


def account(name: str) -> str:
    """The name of a guest's account in the store."""
    return f"mcp:{name}"


def account_of(name: str) -> Account:
    """A guest's account, as it is stored."""
    return account(name), "user"


async def begin_sign_in(app: "Runtime", name: str, server: "McpServer", *, listen: bool = True) -> "Pending":
    """Ask the server where to sign in, and start; nothing but metadata and a client's registration is asked for."""
    return await sign_ins(app).begin(account_of(name), await client_maker(app, name, server), listen=listen)


def connect_call(app: "Runtime", name: str, server: "McpServer") -> ToolCall:
    """The call that makes an account of the answer; the owner approves it."""
    flow, _ = sign_ins(app).answered(account_of(name))
    hosts, scopes = [*server.oauth_hosts], [*server.oauth_scopes]
    args = {"name": name, "url": server.url, "hosts": hosts, "scopes": scopes, "flow": flow}
    return ToolCall.of("guest_sign_in", dict(args))


async def keep_account(app: "Runtime", name: str, server: "McpServer", flow: str) -> str:
    """Turn the answer into an account; what was granted, in words. The caller has the owner's approval."""
    from coilclaw.runtime.oauth.discovery import is_for
    from coilclaw.runtime.oauth.token_requests import exchange

    again = f"Begin again: `coilclaw mcp sign-in {name}`."
    answered = await take_answer(app, account_of(name), flow, remedy=again)
    client = answered.pending.client
    if not is_for(client.resource, server.url) or client.scopes != server.oauth_scopes:
        raise ToolError("the sign-in is not the one that was shown.", remedy=again, code="SIGN_IN_OVER", begun=False)
    try:
        grant = await exchange(app.transport, app.redactor, answered.pending, answered.code)
        await app.oauth.connect(client, grant, keep_client=True)
    except OAuthError as error:  # nothing was kept
        raise ToolError(error.message, remedy=error.remedy, code=error.code, begun=False) from error
    missing = f" Not granted: {', '.join(grant.missing)}." if grant.missing else ""
    return f"Signed in to {name} with {', '.join(grant.scopes) or 'its default scopes'}.{missing}"


def is_signed_in(app: "Runtime", name: str, server: "McpServer") -> bool:
    """Whether there is an account for this address and these scopes that works as far as is known."""
    from coilclaw.runtime.oauth.discovery import is_for
    from coilclaw.store.oauth import find_token

    row = find_token(app.db.reader, *account_of(name))
    client = app.oauth.kept_client(*account_of(name)) if row is not None and not row.reconnect_since else None
    return client is not None and is_for(client.resource, server.url) and client.scopes == server.oauth_scopes


async def client_maker(app: "Runtime", name: str, server: "McpServer") -> "Callable[[str], Awaitable[OAuthClient]]":
    """What makes the client for a redirect address, from the server's metadata."""
    from coilclaw.runtime.oauth.discovery import discover, register_client
    from coilclaw.runtime.reachable import sign_in_places

    may_register = not server.oauth_client_id
    places, challenge = sign_in_places(server), await _challenge(app, server.url)
    endpoints = await discover(app.transport, server.url, places, may_register=may_register, challenge=challenge)

    async def client(redirect_uri: str) -> "OAuthClient":
        client_id, secret, auth = server.oauth_client_id, "", None
        if may_register:
            if not endpoints.register_url:
                raise ToolError(
                    f"{name} does not register clients by itself.",
                    remedy=f"Make a client there and set mcp.servers.{name}.oauth_client_id.",
                    code="NO_CLIENT",
                    begun=False,
                )
            made = await register_client(app.transport, app.redactor, endpoints, redirect_uri)
            client_id, secret, auth = made.client_id, made.client_secret, made.client_auth
        return endpoints.client(
            provider=account(name),
            identity="user",
            client_id=client_id,
            client_secret=secret,
            scopes=server.oauth_scopes,
            connect_command=f"coilclaw mcp sign-in {name}",
            client_auth=auth,
        )

    return client


async def _challenge(app: "Runtime", url: str) -> str:
    """What the server answers to somebody who has not signed in: it may say where its metadata is."""
    from coilclaw.features.guests.mcp_client import GuestUnauthorized, McpClient
    from coilclaw.features.guests.mcp_http import HttpWire

    client = McpClient(HttpWire(app.transport, url), seconds=CHALLENGE_SECONDS)
    try:
        await client.start()
    except GuestUnauthorized as refused:
        return refused.challenge
    except CoilclawError:  # its metadata may be where everybody has it
        return ""
    await client.close()
    return ""


async def bearer(app: "Runtime", name: str, url: str, rejected: str) -> tuple[str, str]:
    """The header for one request to that address; `rejected` is a token that the server refused."""
    from coilclaw.runtime.oauth.discovery import is_for

    client = app.oauth.kept_client(account(name), "user")
    if client is None or not is_for(client.resource, url):  # the table may name another server by now
        raise ToolError(
            f"nobody signed in to {name} at this address.",
            remedy=f"Run `coilclaw mcp sign-in {name}`.",
            code="GUEST_UNAUTHORIZED",
            begun=False,
        )
    token = await app.oauth.access(client, rejected=rejected)
    return token.header
