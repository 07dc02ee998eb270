"""The door: encloses every path, and decides who is admitted before anything else handles a request.

It checks in this order: one spelling of every relevant header; the peer, the host and the origin are ours; a
valid token, unless the path is open; cookies only from our own pages; the rate, except for the emergency stop; a token
for MCP clients opens `/mcp` alone; the device is confirmed; the body, and after it the token again, because a body
takes time and the device may have been revoked meanwhile; then a few requests per device at a time, so that none delays
the others. A refusal is problem+json and never repeats input.

A WebSocket is admitted by the same rules, as one more method. Browsers cannot set headers on it, so the proof of a page
or program is in `Sec-WebSocket-Protocol: coilclaw, KEY`: a page's ticket, together with its cookie; a program's
token, unless it sends `Authorization`. Nothing is read from the URL.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any, TypeAlias

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from coilclaw.packets.canonical import Json
from coilclaw.server.application import place_of
from coilclaw.server.door.body import BIND, GITHUB_SIGN_IN, Bodies, ClientGone, drain, is_webhook, replayed
from coilclaw.server.door.caller import SCOPED, Caller
from coilclaw.server.door.concurrency import Concurrency
from coilclaw.server.door.headers import guarded, headers_of
from coilclaw.server.door.hosts import Hosts
from coilclaw.server.door.methods import WEBSOCKET, Methods
from coilclaw.server.door.page_keys import PageKeys
from coilclaw.server.door.rates import Rates
from coilclaw.server.door.sockets import PROTOCOL, PROTOCOLS, Sockets
from coilclaw.server.door.tokens import Tokens, is_token
from coilclaw.server.problems import MEDIA_TYPE, Trouble, problem_of

COOKIE = "__Host-coilclaw"
HEALTH = "/health"
MCP = "/mcp"
"""The only path that a token with the scope `mcp` opens."""
PAGE_KEY = "x-coilclaw-page"
_PROVING = frozenset({("POST", "/v1/sign-in/nonce"), ("POST", "/v1/sign-in/page")})
_READS = ("GET", "HEAD")
_ONCE = (
    "host",
    "authorization",
    "content-length",
    "content-type",
    "origin",
    "sec-fetch-site",
    "idempotency-key",
    PAGE_KEY,
    "sec-websocket-protocol",
)
_UNCONFIRMED = _PROVING | {("GET", "/v1/sign-in"), ("POST", "/v1/sign-in/end"), ("POST", "/v1/passkeys/challenge")}

_ALWAYS = frozenset({("POST", "/estop"), ("POST", "/v1/estop")})
"""The emergency stop is exempt from all limits."""

_LISTENING = frozenset({("GET", "/v1/events"), ("GET", "/v1/estop"), ("POST", "/chat"), ("POST", MCP)})
_EXPORT = ("GET", "/v1/audit/export")
AT_ONCE = 4
"""Concurrent requests per device; exports count separately, one at a time."""
SENDING = 8
"""Bodies received concurrently per device: each is buffered until complete."""

_STOPPING = Trouble(
    503, "STOPPING", "the server is shutting down.", remedy="Try again in a moment.", headers={"Retry-After": "5"}
)

Log: TypeAlias = Callable[[str, dict[str, Json]], None]


class _Visit:
    """A request as the door sees it: decoded, header names in lower case."""

    def __init__(self, scope: Any) -> None:
        self.method: str = scope.get("method", WEBSOCKET)
        self.path: str = scope["path"]
        self.query: bytes = scope.get("query_string", b"")
        self.headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self.headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def get(self, name: str) -> str | None:
        found = self.headers.get(name)
        return found[0] if found else None

    @property
    def shown(self) -> str:
        """The key after our protocol's name in a WebSocket request."""
        _, _, shown = (self.get("sec-websocket-protocol") or "").partition(",")
        return shown.strip() if self.method == WEBSOCKET else ""

    def carries_body(self) -> bool:
        return self.get("content-length") not in (None, "0") or "transfer-encoding" in self.headers


class _Answer:
    """The response to the client, with our headers."""

    def __init__(self, send: Send, *, panel: bool, secure: bool, prefix: str = "") -> None:
        self._send = send
        self._prefix = prefix
        self._panel = panel
        self._secure = secure
        self.started = False

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = guarded(headers_of(message), panel=self._panel, secure=self._secure)
            message = {**message, "headers": headers}
        told: Any = {**message, "type": self._prefix + message["type"]} if self._prefix else message
        await self._send(told)

    async def refuse(self, error: Exception, receive: Receive | None) -> None:
        """Send a refusal; pass `receive` if the client may still be sending."""
        told = problem_of(error)
        body = msgspec.json.encode(told)
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        if isinstance(error, Trouble):
            headers += [(name.encode(), value.encode("latin-1")) for name, value in error.headers.items()]
        if receive is not None or told.status == 408 or error is _STOPPING:
            headers.append((b"connection", b"close"))
        await self({"type": "http.response.start", "status": told.status, "headers": headers})
        await self({"type": "http.response.body", "body": body, "more_body": receive is not None})
        if receive is not None:
            await drain(receive)
            await self({"type": "http.response.body", "body": b"", "more_body": False})


def _no_path(_: str) -> bool:
    return False


class Door:
    """An ASGI application around another, which can only be reached through it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Hosts,
        tokens: Tokens,
        page_keys: PageKeys,
        rates: Rates,
        bodies: Bodies,
        methods: Methods,
        sockets: Sockets,
        say: Log,
        is_asset: Callable[[str], bool] = _no_path,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._tokens = tokens
        self._page_keys = page_keys
        self._rates = rates
        self._bodies = bodies
        self._methods = methods
        self._sockets = sockets
        self._say = say
        self._is_asset = is_asset
        self._crowd = Concurrency(AT_ONCE)
        self._senders = Concurrency(SENDING)
        self._exports = Concurrency(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "websocket":
            await self._open_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        visit = _Visit(scope)
        panel = visit.method in _READS and self._is_asset(visit.path)
        answer = _Answer(send, panel=panel, secure=self._hosts.secure)
        coming: Receive | None = receive if visit.carries_body() else None
        try:
            state = self._admit(visit, scope.get("client"), panel=panel)
            line: Any = scope.get("state", {}).get("line")
            if "caller" in state and line is not None:
                line.known()
            whole = receive
            if self._bodies.check(visit.path, visit.headers):
                async with self._room(visit, state.get("caller"), self._senders):
                    body = await self._bodies.read(visit.path, receive)
                coming, whole = None, replayed(body, receive)
                self._check_still(state.get("caller"))
            async with self._room(visit, state.get("caller"), self._crowd):
                await self._app(self._inside(scope, visit, state, panel=panel), whole, answer)
        except ClientGone:
            return
        except asyncio.CancelledError:  # the server is shutting down, and this took longer than its grace period
            if not answer.started:
                await answer.refuse(_STOPPING, None)
        except Trouble as refusal:
            if answer.started:
                raise
            slow = refusal.status == 408
            await answer.refuse(refusal, None if slow else coming)
        except Exception as error:
            self._say("request_failed", {"error": type(error).__name__, "place": place_of(error)})
            if answer.started:  # half a response cannot be withdrawn: close the connection
                raise _Broken from None
            await answer.refuse(error, coming)

    async def _open_socket(self, scope: Any, receive: Receive, send: Send) -> None:
        visit = _Visit(scope)
        answer = _Answer(send, panel=False, secure=self._hosts.secure, prefix="websocket.")
        try:
            state = self._admit(visit, scope.get("client"), panel=False)
            caller = state["caller"]
            assert isinstance(caller, Caller)  # noqa: S101 - no WebSocket is open to strangers
            self._sockets.room_for(caller)
        except Exception as error:
            if not isinstance(error, Trouble):
                self._say("request_failed", {"error": type(error).__name__, "place": place_of(error)})
            with suppress(OSError):  # they left
                await answer.refuse(error, None)
            return
        line: Any = scope["state"]["line"]
        line.known()
        inside = {**scope, "state": {**scope["state"], **state}}
        try:
            await self._sockets.serve(self._app, inside, receive, send, caller, line.abort)
        except Exception as error:
            self._say("request_failed", {"error": type(error).__name__, "place": place_of(error)})

    def _room(self, visit: _Visit, caller: object, crowd: Concurrency) -> AbstractAsyncContextManager[None]:
        """What takes long takes no slot once its body is here, and the emergency stop waits for none."""
        asked = (visit.method, visit.path)
        if not isinstance(caller, Caller) or asked in _ALWAYS:
            return nullcontext()
        if asked in _LISTENING and crowd is not self._senders:
            return nullcontext()
        return (self._exports if asked == _EXPORT else crowd).room(caller.device_id)

    def _inside(self, scope: Any, visit: _Visit, state: dict[str, object], *, panel: bool) -> Any:
        """The request as the routes see it. An open HEAD is a GET whose body the listener omits."""
        is_get = visit.method == "HEAD" and (panel or self._is_open("GET", visit.path))
        method = "GET" if is_get else visit.method
        return {**scope, "method": method, "state": {**scope.get("state", {}), **state}}

    # Admission

    def _admit(self, visit: _Visit, client: Any, *, panel: bool) -> dict[str, object]:
        _check_shape(visit)
        host = self._check_place(visit, client)
        state: dict[str, object] = {"origin": self._hosts.origin_of(host)}
        if panel or self._is_open(visit.method, visit.path):
            self._check_rate("", visit)
            return state
        caller = self._caller(visit)
        if caller.way == "cookie":
            self._check_page(visit, caller)
        self._check_rate(caller.device_id, visit)
        if caller.scope is not None and not visit.path.startswith(SCOPED):
            raise Trouble(
                403,
                "OUT_OF_SCOPE",
                "this token opens coding sessions only.",
                remedy="Use the device's own token here.",
            )
        if caller.opens == "mcp" and visit.path != MCP:
            raise Trouble(
                403,
                "SCOPE",
                "this token opens /mcp alone.",
                remedy="To use the rest of the API, pair the device with `coilclaw pair --add`.",
            )
        if not caller.confirmed and not _may_unconfirmed(caller, visit):
            raise Trouble(
                403,
                "UNCONFIRMED",
                "this device has not been confirmed with a passkey.",
                remedy="Confirm it with a passkey, on this device or on another.",
            )
        self._check_path(visit)
        return {**state, "caller": caller}

    def _check_path(self, visit: _Visit) -> None:
        """An unknown path ends here: no body is read, no key is bound."""
        allowed = self._methods.allowed(visit.path) - {"OPTIONS"} if _is_normal(visit.path) else frozenset[str]()
        if visit.method == WEBSOCKET:
            if WEBSOCKET in allowed:
                return
            raise Trouble(400, "WEBSOCKET_REFUSED", "there is no WebSocket at this path.", remedy="Use GET /v1/events.")
        allowed -= {WEBSOCKET}
        if not allowed:
            raise Trouble(404, "NOT_FOUND", "there is no such path.", remedy="See /v1/openapi.json.")
        if visit.method not in allowed:
            raise Trouble(
                405,
                "METHOD_NOT_ALLOWED",
                "this path does not support that method.",
                remedy="See /v1/openapi.json.",
                headers={"Allow": ", ".join(sorted(allowed))},
            )

    def _is_open(self, method: str, path: str) -> bool:
        """Whether anybody may ask: for health, to pair with a code or by GitHub, to deliver a
        signed webhook. See decision 0010."""
        if method in _READS:
            return path in (HEALTH, GITHUB_SIGN_IN)
        return method == "POST" and (path in (BIND, GITHUB_SIGN_IN) or is_webhook(path))

    def _check_place(self, visit: _Visit, client: Any) -> str:
        """Check the peer, the host and the origin; returns the host."""
        if not self._hosts.admits_peer(client):
            raise Trouble(
                403, "PEER_REFUSED", "only the configured proxy may connect.", remedy="Open the public address instead."
            )
        host = visit.get("host")
        if host is None or not self._hosts.admits_host(host):
            raise Trouble(
                421,
                "HOST_REFUSED",
                "this server does not answer to that host name.",
                remedy="Open it as localhost, or run `coilclaw config set server.public_url ADDRESS`.",
            )
        origin = visit.get("origin")
        if origin is not None and not self._hosts.admits_origin(origin):
            raise Trouble(
                403,
                "ORIGIN_REFUSED",
                "pages from other origins may not use this server.",
                remedy="Use the panel, or a program that sends no Origin.",
            )
        return host

    def _caller(self, visit: _Visit) -> Caller:
        scheme, _, shown = (visit.get("authorization") or "").partition(" ")
        if scheme.lower() == "bearer":  # an explicit token is final: no fallback to a cookie
            caller = self._tokens.caller(shown.strip(), "bearer")
        elif is_token(visit.shown):
            caller = self._tokens.caller(visit.shown, "bearer")
        else:
            cookie = _cookie(visit.headers.get("cookie", []))
            caller = None if cookie is None else self._tokens.caller(cookie, "cookie")
        if caller is None:
            raise _unpaired()
        return caller

    def _check_still(self, caller: object) -> None:
        if isinstance(caller, Caller) and not self._tokens.holds(caller):
            raise _unpaired()

    def _check_page(self, visit: _Visit, caller: Caller) -> None:
        """Browsers send cookies automatically, also to other ports: the sender must prove to be one of our pages."""
        site = visit.get("sec-fetch-site")
        foreign = site is not None and site not in ("same-origin", "none")
        ours = visit.get("origin") is not None or site == "same-origin"
        if foreign or (visit.method not in _READS and not ours):
            raise Trouble(
                403,
                "ORIGIN_REFUSED",
                "a cookie is accepted only in requests from our own pages.",
                remedy="Use the panel; programs send `Authorization: Bearer` instead of a cookie.",
            )
        if (visit.method, visit.path) in _PROVING:
            return
        if visit.method == WEBSOCKET:
            if not self._page_keys.spend(caller.token_id, visit.shown):
                raise Trouble(
                    401,
                    "TICKET_REFUSED",
                    "the page's ticket is missing, was used, or is older than half a minute.",
                    remedy="Ask for another one (POST /v1/sign-in/ticket) and connect at once.",
                )
        elif not self._page_keys.holds(caller.token_id, visit.get(PAGE_KEY) or ""):
            raise Trouble(
                401,
                "PAGE_UNPROVED",
                "this page has not proved that it belongs to the device.",
                remedy="Reload the panel: it signs with the device's key (POST /v1/sign-in/page).",
            )

    def _check_rate(self, who: str, visit: _Visit) -> None:
        if who and (visit.method, visit.path) in _ALWAYS:
            return
        seconds = self._rates.wait(who, visit.method, visit.path.rstrip("/"))
        if seconds:
            whole = int(seconds) + 1
            raise Trouble(
                429,
                "RATE_LIMITED",
                "too many requests in a short time.",
                remedy=f"Try again in {whole} s.",
                headers={"Retry-After": str(whole)},
            )


class _Broken(Exception):
    """A response ended in the middle; without a reason, because the listener logs it."""


def _unpaired() -> Trouble:
    return Trouble(
        401,
        "UNPAIRED",
        "this request is not from a signed-in device.",
        remedy="Pair this device: `coilclaw pair` at the terminal shows a code.",
        headers={"WWW-Authenticate": 'Bearer realm="coilclaw"'},
    )


def _check_shape(visit: _Visit) -> None:
    """A duplicate of a relevant header would let two parsers see different requests."""
    for name in _ONCE:
        if len(visit.headers.get(name, ())) > 1:
            raise Trouble(400, "BAD_REQUEST", f"the header {name} appears twice.", remedy="Send it once.")
    if "transfer-encoding" in visit.headers and "content-length" in visit.headers:
        raise Trouble(400, "BAD_REQUEST", "the request has two lengths.", remedy="Send one of them.")
    if visit.method == WEBSOCKET:
        name, _, _ = (visit.get("sec-websocket-protocol") or PROTOCOL).partition(",")
        if visit.query:
            raise Trouble(
                400,
                "TOKEN_IN_URL",
                "a WebSocket takes nothing from its URL, which ends up in logs.",
                remedy=f"Send the token in `Authorization: Bearer`, or offer `{PROTOCOL}, TOKEN` as protocols.",
            )
        if name.strip() not in PROTOCOLS:
            raise Trouble(
                400,
                "BAD_REQUEST",
                "the WebSocket does not name our protocol.",
                remedy=f"Offer `{PROTOCOL}` first, and your key behind it.",
            )
    elif "websocket" in (visit.get("upgrade") or "").lower():
        raise Trouble(400, "WEBSOCKET_REFUSED", "this is not a valid WebSocket request.", remedy="See RFC 6455.")
    if not visit.path.startswith("/"):
        raise Trouble(400, "BAD_REQUEST", "the request names no path.", remedy="Request a path such as /health.")


def _is_normal(path: str) -> bool:
    """Whether a path is in canonical spelling: rules for one spelling must apply to all."""
    return path == "/" or all(path.split("/")[1:])


def _cookie(lines: list[str]) -> str | None:
    """Our cookie; None if there is none, or more than one."""
    pairs = [pair.strip().partition("=") for line in lines for pair in line.split(";")]
    found = [value for name, _, value in pairs if name == COOKIE]
    return found[0] if len(found) == 1 else None


def _may_unconfirmed(caller: Caller, visit: _Visit) -> bool:
    own = ("POST", f"/v1/devices/{caller.device_id}/confirm")
    return (visit.method, visit.path) in _UNCONFIRMED or (visit.method, visit.path) == own
