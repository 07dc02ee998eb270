"""What is asked of Gmail and Calendar, and what their answers mean. Errors are in our words, never the server's."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from coilclaw.packets.action import Identity, Label, untrusted
from coilclaw.packets.errors import EffectUncertain, OAuthError, ToolError, TransportError, TryLater
from coilclaw.packets.http import FetchRequest, HttpResponse
from coilclaw.packets.labels import join_labels

if TYPE_CHECKING:
    from coilclaw.config.google import Google

Fetch = Callable[[FetchRequest], Awaitable[HttpResponse]]
T = TypeVar("T")

MAIL: Final = "/gmail/v1/users/me"
LISTED_BYTES: Final = 4 << 20
RAW_BYTES: Final = 48 << 20
"""A mail of 25 MB, its attachments encoded, and encoded once more."""
MOST_DOMAINS: Final = 10
_LIMITS = ("rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded")
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")

GoogleId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class GmailHeader(msgspec.Struct, frozen=True):
    """One header of a message, as it stands there."""

    name: str
    value: str


class GmailPartBody(msgspec.Struct, frozen=True):
    """How large a part is; its data is not asked for."""

    size: int = 0


class GmailPart(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a message."""

    filename: str = ""
    mime_type: str = ""
    headers: list[GmailHeader] = []
    body: GmailPartBody = GmailPartBody()
    parts: list["GmailPart"] = []


class GmailMessage(msgspec.Struct, frozen=True, rename="camel"):
    """A message without its body."""

    id: GoogleId
    thread_id: GoogleId
    label_ids: list[str] = []
    snippet: str = ""
    payload: GmailPart = GmailPart()

    def values(self, name: str) -> list[str]:
        """Every value of a header."""
        return [header.value for header in self.payload.headers if header.name.lower() == name]


class GoogleThread(msgspec.Struct, frozen=True):
    """A thread with its messages."""

    id: str
    messages: list[GmailMessage] = []


class _Fault(msgspec.Struct, frozen=True):
    reason: str = ""


class _Error(msgspec.Struct, frozen=True):
    errors: list[_Fault] = []


class _Refused(msgspec.Struct, frozen=True):
    error: _Error = _Error()


def mail_get(
    google: "Google", identity: Identity, path: str, *, further: int = 0, headers: tuple[str, ...] = (), **query: str
) -> FetchRequest:
    """A read of the mailbox; with `headers`, of no others."""
    asked = [*query.items(), *(("metadataHeaders", name) for name in headers)]
    return FetchRequest(
        purpose="read",
        principal="google",
        identity=identity,
        method="GET",
        url=f"{google.gmail}{MAIL}{path}{'?' if asked else ''}{urlencode(asked, quote_via=quote)}",
        max_bytes=RAW_BYTES if query.get("format") == "raw" else LISTED_BYTES,
        further=further,
    )


def mail_post(
    google: "Google", identity: Identity, path: str, body: bytes, *, made_later: bool = False
) -> FetchRequest:
    """An effect in the mailbox."""
    return FetchRequest(
        purpose="effect",
        principal="google",
        identity=identity,
        method="POST",
        url=f"{google.gmail}{MAIL}{path}",
        content_type="application/json",
        body=body,
        max_bytes=LISTED_BYTES,
        made_later=made_later,
    )


async def answer(fetch: Fetch, request: FetchRequest) -> bytes:
    """The body of a good answer; anything else is an error that says what to do next."""
    effect = request.purpose == "effect"
    try:
        response = await fetch(request)
    except TransportError as error:
        if effect and error.sent:
            raise EffectUncertain(f"Google was sent the request, but did not answer: {error.message}") from error
        if error.too_large:
            raise ToolError("Google's answer is too large to be read here.", code="TOO_LARGE", begun=False) from error
        raise TryLater(f"Google could not be reached: {error.message}", code="NO_CONNECTION") from error
    except OAuthError as error:
        if error.code == "UNAVAILABLE":
            raise TryLater(error.message, code=error.code, delay=error.retry_after or 0.0) from error
        raise ToolError(error.message, remedy=error.remedy, code=error.code, begun=False) from error
    if response.status == 200:
        return response.body
    raise _fault(response, request)


async def read(fetch: Fetch, request: FetchRequest, kind: type[T]) -> T:
    """A good answer as this struct."""
    return parsed(await answer(fetch, request), kind)


def parsed(body: bytes, kind: type[T]) -> T:
    """An answer as this struct, or an error: the server is not believed to know its own shapes."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ToolError("Google's answer has an unknown shape.", code="BAD_ANSWER") from error


async def done(fetch: Fetch, request: FetchRequest, kind: type[T]) -> T:
    """What an effect brought, as this struct. An answer that is none says nothing about whether it happened."""
    body = await answer(fetch, request)
    try:
        return parsed(body, kind)
    except ToolError as error:
        raise EffectUncertain(error.message, code=error.code) from error


def _fault(response: HttpResponse, request: FetchRequest) -> ToolError:
    status, who = response.status, f"the {request.identity} account"
    reason = _reason(response.body)
    if status == 429 or (status == 403 and reason in _LIMITS):
        return TryLater("Google asks to slow down.", code="RATE_LIMITED", delay=_delay(response))
    connect = f"The owner runs `coilclaw google connect --identity {request.identity}`."
    if status == 401:
        return ToolError(f"Google does not accept {who} any more.", remedy=connect, code="RECONNECT", begun=False)
    if status == 403 and reason == "insufficientPermissions":
        return ToolError(f"{who} was not allowed to do this.", remedy=connect, code="SCOPE_MISSING", begun=False)
    effect = request.purpose == "effect"
    if effect and (status < 400 or status == 408 or status >= 500 or (status == 404 and request.url.endswith("/send"))):
        # a draft that is gone may have been sent by an attempt whose answer never came
        return EffectUncertain(f"Google answered {status}.", code=f"HTTP_{status}")
    if status == 404:
        return ToolError("There is no such thing in this mailbox or calendar.", code="NOT_FOUND", begun=False)
    if status == 408 or status >= 500:
        return TryLater(f"Google answered {status}.", code=f"HTTP_{status}", delay=_delay(response))
    return ToolError(f"Google refused it with {status}{f' ({reason})' if reason else ''}.", code=f"HTTP_{status}")


def _reason(body: bytes) -> str:
    """The server's own code for a refusal; nothing but a plain word is passed on."""
    try:
        found = msgspec.json.decode(body, type=_Refused).error.errors
    except (msgspec.DecodeError, RecursionError):
        return ""
    reason = found[0].reason if found else ""
    return reason if re.fullmatch(r"[A-Za-z]{1,40}", reason) else ""


def _delay(response: HttpResponse) -> float:
    given = response.header("retry-after")
    return min(float(given), 3600.0) if re.fullmatch(r"[0-9]{1,5}", given) else 0.0


def sender_label(addresses: list[str]) -> Label:
    """The label of mail by these senders: each one's domain, a handful by name."""
    domains = sorted({_domain(address) for address in addresses} or {"unknown"})
    named = domains if len(domains) <= MOST_DOMAINS else [*domains[:MOST_DOMAINS], "others"]
    return join_labels(untrusted(f"gmail:{domain}") for domain in named)


def _domain(address: str) -> str:
    domain = address.rpartition("@")[2].strip().lower()
    return domain if _DOMAIN.fullmatch(domain) else "unknown"
