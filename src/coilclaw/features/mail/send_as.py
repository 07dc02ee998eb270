"""Requests in the name of a connected account: the bearer token is added here, and nowhere else seen."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.mail.accounts import CALENDAR, COMPOSE, READ, SEND, google_accounts
from coilclaw.packets.errors import TransportError
from coilclaw.packets.http import HttpRequest, HttpResponse
from coilclaw.packets.ports import Transport

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


async def send_as(runtime: "Runtime", transport: Transport, request: HttpRequest) -> HttpResponse:
    """Send a request with its identity's token. A 401 means that nothing was done: the token is renewed once. If that
    is refused too, the account waits for its owner, so that no call renews again."""
    token = await _bearer(runtime, request)
    response = await transport.send(_signed(request, token))
    if response.status != 401:
        return response
    renewed = await _bearer(runtime, request, rejected=token)
    response = await transport.send(_signed(request, renewed))
    if response.status == 401 and request.identity is not None:
        await runtime.oauth.refused(google_accounts(runtime).client(request.identity), renewed)
    return response


async def _bearer(runtime: "Runtime", request: HttpRequest, rejected: str = "") -> str:
    assert request.identity is not None  # noqa: S101 - the gate sends nothing here without one
    try:
        return await google_accounts(runtime).bearer(request.identity, needs=scopes_of(request), rejected=rejected)
    except TransportError as error:  # whatever became of the token's request, ours was not sent
        raise TransportError(error.message, sent=False, timeout=error.timeout, remedy=error.remedy) from error


def scopes_of(request: HttpRequest) -> tuple[str, ...]:
    """The scopes that a request needs. Google sends a draft by `gmail.compose`; that the bot may send is the other."""
    path = request.url.partition("?")[0]
    if "/calendar/" in path:
        return (CALENDAR,)
    if request.method == "GET":
        return (READ,)
    return (SEND, COMPOSE) if path.endswith("/send") else (COMPOSE,)


def _signed(request: HttpRequest, token: str) -> HttpRequest:
    return msgspec.structs.replace(request, headers=(*request.headers, ("Authorization", f"Bearer {token}")))
