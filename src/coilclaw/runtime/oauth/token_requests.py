"""Requests to the token and revocation endpoints, through the airlock, and the strict reading of their answers."""

import base64
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus, urlencode

from coilclaw.packets.canonical import JsonObject, NotCanonical, parse_object
from coilclaw.packets.errors import CoilclawError, OAuthError
from coilclaw.packets.http import HttpRequest, HttpResponse
from coilclaw.packets.text import one_line
from coilclaw.runtime.oauth.client import MOST_SCOPES, Hidden, OAuthClient, Pending, is_scope

if TYPE_CHECKING:
    from coilclaw.packets.ports import Transport
    from coilclaw.secrets.redactor import Redactor

MOST_BYTES: Final = 64 << 10
TIMEOUT_SECONDS: Final = 20.0
LONGEST_SECONDS: Final = 86_400
"""A token is renewed at least daily, however long the server says it lasts."""
ASSUMED_SECONDS: Final = 3600
"""The life of a token whose answer does not say."""
_TOKEN = re.compile(r"[!-~]{1,8192}\Z")
_ERROR = re.compile(r"[a-z_]{1,64}\Z")
_SECONDS = re.compile(r"[0-9]{1,6}\Z")
_CLIENT_FAULTS = ("invalid_client", "unauthorized_client")


class AccessToken(Hidden, frozen=True, kw_only=True):
    """A token for requests, and what it allows. Ask for it before each request; never store it."""

    value: str
    scopes: tuple[str, ...]

    @property
    def header(self) -> tuple[str, str]:
        """The request header that carries it."""
        return ("authorization", f"Bearer {self.value}")


class Grant(Hidden, frozen=True, kw_only=True):
    """What an authorization server granted."""

    access_token: str
    refresh_token: str
    """Empty if the answer had none: after a refresh, the old one stays valid."""
    scopes: tuple[str, ...]
    missing: tuple[str, ...]
    """Scopes that were asked for and not granted."""
    seconds: int
    """How long the access token lasts from the moment the request was sent."""

    @property
    def token(self) -> AccessToken:
        """The access token by itself, for a sign-in that is not kept as an account."""
        return AccessToken(value=self.access_token, scopes=self.scopes)


async def exchange(transport: "Transport", redactor: "Redactor", pending: Pending, code: str) -> Grant:
    """Turn a code into tokens. They are known to the redactor before this returns."""
    client = pending.client
    for value in (code, pending.verifier):
        redactor.register(f"oauth:{client.provider}", value)
    fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", pending.redirect_uri),
        ("code_verifier", pending.verifier),
    ]
    response = await _post(transport, redactor, client, client.token_url, fields)
    return await _granted(transport, redactor, client, response, allowed=client.scopes, before=client.scopes)


async def refresh(
    transport: "Transport", redactor: "Redactor", client: OAuthClient, refresh_token: str, scopes: tuple[str, ...]
) -> Grant:
    """Renew an access token; `scopes` are those granted so far. The code INVALID_GRANT means that it is over."""
    fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)]
    redactor.register(f"oauth:{client.provider}", refresh_token)
    response = await _post(transport, redactor, client, client.token_url, fields)
    return await _granted(
        transport, redactor, client, response, allowed=client.scopes or scopes, before=scopes, old=refresh_token
    )


async def revoke(transport: "Transport", redactor: "Redactor", client: OAuthClient, token: str) -> str:
    """Tell the server to forget a token (RFC 7009); why it did not, or nothing."""
    if not client.revoke_url:
        return "the server offers no revocation"
    try:
        response = await _post(
            transport, redactor, client, client.revoke_url, [("token", token), ("token_type_hint", "refresh_token")]
        )
    except CoilclawError as error:
        return error.message.rstrip(".")
    return "" if response.status in (200, 204) else f"the server answered with status {response.status}"


async def _post(
    transport: "Transport", redactor: "Redactor", client: OAuthClient, url: str, fields: list[tuple[str, str]]
) -> HttpResponse:
    """One form to an authorization server, with the client's proof in the place it asked for."""
    headers = [("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")]
    if client.client_secret and client.client_auth == "basic":
        pair = (
            f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"  # RFC 6749 §2.3.1 encodes both first
        )
        headers.append(("authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"))
    else:
        fields = [*fields, ("client_id", client.client_id)]
        fields += [("client_secret", client.client_secret)] if client.client_secret else []
    if client.client_secret:
        redactor.register(f"oauth:{client.provider}", client.client_secret)
    if client.resource and url == client.token_url:
        fields = [*fields, ("resource", client.resource)]
    return await transport.send(
        HttpRequest(
            principal="oauth",
            method="POST",
            url=url,
            headers=tuple(headers),
            body=urlencode(fields).encode("ascii"),
            timeout_seconds=TIMEOUT_SECONDS,
            max_bytes=MOST_BYTES,
        )
    )


async def _granted(
    transport: "Transport",
    redactor: "Redactor",
    client: OAuthClient,
    response: HttpResponse,
    *,
    allowed: tuple[str, ...],
    before: tuple[str, ...],
    old: str = "",
) -> Grant:
    """Read an answer; one that grants more than was asked for is given back."""
    answer = _success(client, response)
    access, renewal = answer.get("access_token"), answer.get("refresh_token", "")
    if not isinstance(access, str) or not isinstance(renewal, str):
        raise _unreadable(client, "the tokens are not text")
    for token in (access, *((renewal,) if renewal else ())):
        if not _TOKEN.match(token) or redactor.refusal(token):
            raise _unreadable(client, "a token is missing, too long or too weak to keep out of logs")
        redactor.register(f"oauth:{client.provider}", token)
    kind = answer.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise _unreadable(client, "the token is not a bearer token")
    scopes = _scopes(client, answer, before)
    grant = Grant(
        access_token=access,
        refresh_token=renewal,
        scopes=scopes,
        missing=tuple(scope for scope in client.scopes if scope not in scopes),
        seconds=_seconds(client, answer),
    )
    if allowed and (more := [scope for scope in scopes if scope not in allowed]):
        await _give_back(transport, redactor, client, renewal or old or access, more)
    return grant


async def _give_back(
    transport: "Transport", redactor: "Redactor", client: OAuthClient, token: str, more: Collection[str]
) -> None:
    failed = await revoke(transport, redactor, client, token)
    names = one_line(" ".join(sorted(more)))[:200]
    told = f"It could not be revoked ({failed}): remove it at the provider." if failed else "It was revoked there."
    raise OAuthError(
        f"{client.account} was granted more than was asked for ({names}), so it was refused.",
        code="SCOPES",
        remedy=f"{told} Then connect again and grant only what is asked for.",
    )


def _success(client: OAuthClient, response: HttpResponse) -> JsonObject:
    """The answer's object, or OAuthError by what it says instead. The server's own sentences are not repeated."""
    if response.status == 429 or response.status >= 500:
        wait = response.header("retry-after")
        raise OAuthError(
            f"The authorization server of {client.account} is not available (status {response.status}).",
            code="UNAVAILABLE",
            remedy="Try again later.",
            retry_after=float(wait) if _SECONDS.match(wait) else None,
        )
    if 300 <= response.status < 400:
        raise OAuthError(
            f"The token address of {client.account} redirects elsewhere, which is not followed.",
            code="REDIRECT",
            remedy="Configure the address it really has.",
        )
    kind = response.header("content-type").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _unreadable(client, f"it is not JSON (status {response.status})")
    try:
        answer = parse_object(response.body)
    except NotCanonical:
        raise _unreadable(client, f"it is not one JSON object (status {response.status})") from None
    error = answer.get("error")
    if response.status == 200 and error is None:
        return answer
    named = error if isinstance(error, str) and _ERROR.match(error) else f"status {response.status}"
    if named == "invalid_grant":
        raise OAuthError(
            f"The authorization server no longer accepts this permission of {client.account}.",
            code="INVALID_GRANT",
            remedy="Connect again.",
        )
    raise OAuthError(
        f"The authorization server refused {client.account} ({named}).",
        code="INVALID_CLIENT" if named in _CLIENT_FAULTS else "REFUSED",
        remedy="Check the client id and secret, the redirect address registered for it and the scopes.",
    )


def _scopes(client: OAuthClient, answer: JsonObject, before: tuple[str, ...]) -> tuple[str, ...]:
    """The granted scopes; an answer that does not say granted what was asked for (RFC 6749 §5.1)."""
    said = answer.get("scope")
    if said is None:
        return before
    if not isinstance(said, str):
        raise _unreadable(client, "its scope is not text")
    scopes = tuple(dict.fromkeys(scope for scope in said.split(" ") if scope))
    if len(scopes) > MOST_SCOPES or not all(map(is_scope, scopes)):
        raise _unreadable(client, "its scope is not a list of scopes")
    return scopes


def _seconds(client: OAuthClient, answer: JsonObject) -> int:
    said = answer.get("expires_in")
    if said is None:
        return ASSUMED_SECONDS
    if isinstance(said, bool) or not isinstance(said, int) or said < 1:
        raise _unreadable(client, "its lifetime is not a positive number of seconds")
    return min(said, LONGEST_SECONDS)


def _unreadable(client: OAuthClient, why: str) -> OAuthError:
    return OAuthError(
        f"The authorization server of {client.account} gave an answer that cannot be used: {why}.",
        code="BAD_ANSWER",
        remedy="Check that the token address is right; if it is, the server does not follow OAuth 2.1.",
    )
