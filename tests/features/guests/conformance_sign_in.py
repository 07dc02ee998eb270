"""Signing in as the conformance suite runs it: the code flow in a home of its own, then a list and a call.

The owner's part is played here: the authorization server is named, and its page is opened and followed.
"""

import asyncio
import json
import sys
import tempfile
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from coilclaw.config.mcp import McpServer
from coilclaw.features.guests.mcp_client import McpClient
from coilclaw.features.guests.mcp_http import HttpWire
from coilclaw.features.guests.signing_in import client_maker
from coilclaw.runtime.oauth.sign_in import sign_in
from tests.features.guests.http_harness import airlock
from tests.home import Sample


def fetched(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=280) as answer:
        return answer.read()


def named_by_owner(url: str) -> tuple[str, ...]:
    """Where the owner would have read that signing in goes."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    places = [f"{origin}/.well-known/oauth-protected-resource{parts.path}", f"{origin}/custom/metadata/location.json"]
    for place in (*places, f"{origin}/.well-known/oauth-protected-resource"):
        with suppress(urllib.error.URLError, ValueError):
            servers = json.loads(fetched(place))["authorization_servers"]
            return tuple(f"{urlsplit(each).scheme}://{urlsplit(each).netloc}" for each in servers)
    return (origin,)


async def main(url: str) -> None:
    server = McpServer(kind="http", url=url, oauth_hosts=named_by_owner(url))
    with tempfile.TemporaryDirectory() as folder:
        home = Sample(Path(folder), mcp__servers={"suite": server})
        visiting: list[asyncio.Task[bytes]] = []
        signed, grant = await sign_in(
            home.app.transport,
            home.app.redactor,
            await client_maker(home.app, "suite", server),
            lambda address: visiting.append(asyncio.ensure_future(asyncio.to_thread(fetched, address))),
        )
        await asyncio.gather(*visiting)
        home.app.oauth.hold(signed, grant)  # its server gives no refresh token, so there is nothing to keep

        async def headers() -> tuple[tuple[str, str], ...]:
            return ((await home.app.oauth.access(signed)).header,)

        client = McpClient(HttpWire(airlock([], url), url, headers=headers), seconds=60)
        await client.start()
        tools = await client.list_tools()
        await client.call(tools[0].name, {}, seconds=60)
        await client.close()
        await home.app.leave()
        home.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
