"""Signing in to an HTTP server with OAuth: the owner's browser, hosts that the owner named, a token nobody sees."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from coilclaw.packets.errors import CoilclawError, ToolError

if TYPE_CHECKING:
    from coilclaw.config.mcp import McpServer
    from coilclaw.runtime.oauth.client import OAuthClient
    from coilclaw.runtime.oauth.token_requests import Grant
    from coilclaw.runtime.runtime import Runtime


CHALLENGE_SECONDS = 20.0


def account(name: str) -> str:
    """The name of a guest's account in the store."""
    return f"mcp:{name}"


async def sign_in_to(
    app: "Runtime",
    name: str,
    server: "McpServer",
    show: Callable[[str], None],
    paste: Callable[[], Awaitable[str]] | None,
) -> str:
    """Sign in and keep the account; what was granted, in words. The caller has the owner's approval."""
    signed, grant = await ask_permission(app, name, server, show, paste)
    await app.oauth.connect(signed, grant, keep_client=True)
    missing = f" Not granted: {', '.join(grant.missing)}." if grant.missing else ""
    return f"Signed in to {name} with {', '.join(grant.scopes) or 'its default scopes'}.{missing}"


async def ask_permission(
    app: "Runtime",
    name: str,
    server: "McpServer",
    show: Callable[[str], None],
    paste: Callable[[], Awaitable[str]] | None,
) -> "tuple[OAuthClient, Grant]":
    """The whole flow, from the server's metadata to what was granted. Nothing is kept."""
    from coilclaw.runtime.oauth.discovery import discover, register_client
    from coilclaw.runtime.oauth.sign_in import sign_in
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

    return await sign_in(app.transport, app.redactor, client, show, paste=paste)


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
