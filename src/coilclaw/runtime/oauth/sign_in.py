"""The whole flow: show the owner an address, wait for the answer, turn it into a grant."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from coilclaw.airlock.redirect_listener import WAIT_SECONDS, RedirectListener
from coilclaw.runtime.oauth.client import OAuthClient, Pending, Redirect, begin, pasted_redirect_uri
from coilclaw.runtime.oauth.token_requests import Grant, exchange

if TYPE_CHECKING:
    from coilclaw.packets.ports import Transport
    from coilclaw.secrets.redactor import Redactor


async def sign_in(
    transport: "Transport",
    redactor: "Redactor",
    client: OAuthClient | Callable[[str], Awaitable[OAuthClient]],
    show: Callable[[str], None],
    *,
    paste: Callable[[], Awaitable[str]] | None = None,
    seconds: float = WAIT_SECONDS,
) -> tuple[OAuthClient, Grant]:
    """Connect by browser, or by `paste`, which asks the owner for the address the browser ended at.

    A client that must be registered first is made by a function, which is given the redirect address.
    """
    if paste is not None:
        pending = await _begin(client, pasted_redirect_uri())
        show(pending.address)
        answer = pending.read_pasted(await paste())
    else:
        pending, answer = await browse(client, lambda begun: show(begun.address), seconds=seconds)
    return pending.client, await exchange(transport, redactor, pending, answer.checked(pending.client))


async def browse(
    client: OAuthClient | Callable[[str], Awaitable[OAuthClient]],
    started: Callable[[Pending], None],
    *,
    seconds: float = WAIT_SECONDS,
) -> tuple[Pending, Redirect]:
    """Wait on this machine for the browser to come back; `started` is given what it must answer, once."""
    listener = RedirectListener[Redirect]()
    async with listener:
        pending = await _begin(client, listener.redirect_uri)
        started(pending)
        return pending, await listener.wait(pending.read, seconds=seconds)


async def _begin(client: OAuthClient | Callable[[str], Awaitable[OAuthClient]], redirect_uri: str) -> Pending:
    return begin(client if isinstance(client, OAuthClient) else await client(redirect_uri), redirect_uri)
