"""The wire to an MCP server over Streamable HTTP: a POST per message, answered with JSON or with an event stream.

A wire that listens keeps one stream open as well, for what a server says between calls.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal, TypeAlias

from coilclaw.features.guests.mcp_client import GuestFault, GuestUnauthorized, Kind, Receive, SessionLost
from coilclaw.packets.errors import CoilclawError, EgressRefused, TransportError
from coilclaw.packets.http import HttpRequest
from coilclaw.packets.ports import StreamedResponse, Transport
from coilclaw.providers.sse import EventReader

MAX_RESUMES = 100
"""How often one answer's stream is taken up again."""
_RETRY_SECONDS = (0.1, 1.0, 30.0)
"""The shortest, the usual and the longest pause before that."""
_GOODBYE_SECONDS = 5.0
_LISTEN_SECONDS, _LISTEN_PAUSE = 3600.0, 5.0
"""How long one stream is listened to, and the shortest pause before the next one."""
_ERROR_BYTES = 16 << 10
_PIECE = 64 << 10
"""With less than this left of its bytes, an answer has used up its limit."""
_VISIBLE = re.compile(r"[!-~]{1,1024}\Z")
_OURS = frozenset({"accept", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id"})
_MAYBE_TAKEN = frozenset({408, 409, 425, 499})
"""Statuses below 500 with which the request may still have been taken, by the server or behind a proxy."""

Headers: TypeAlias = tuple[tuple[str, str], ...]
SecretHeaders: TypeAlias = Callable[[], Awaitable[Headers]]
"""Resolves the owner's headers for one request. They may be secret and are never logged or shown."""


async def no_headers() -> Headers:
    """For a server without credentials."""
    return ()


class HttpWire:
    """Speaks to one exact URL through the airlock, as principal `mcp`."""

    def __init__(
        self,
        transport: Transport,
        url: str,
        *,
        headers: SecretHeaders = no_headers,
        max_bytes: int = 4 << 20,
        listens: bool = False,
    ) -> None:
        """`max_bytes` bounds an answer with everything that comes before it, and what one stream brings unasked."""
        self._transport = transport
        self._url = url
        self._secret_headers = headers
        self._max_bytes = max_bytes
        self._session: str | None = None
        self._protocol = ""
        self._receive: Receive | None = None
        self._refused: GuestFault | None = None
        self._listens = listens
        self._listening: tuple[str | None, asyncio.Task[None]] | None = None

    async def open(self, receive: Receive, ended: Callable[[GuestFault], None]) -> None:
        """Nothing is connected before the first message."""
        self._receive = receive

    def agreed(self, protocol: str) -> None:
        """Every later request names the version."""
        self._protocol = protocol

    async def send(self, message: bytes, *, kind: Kind, seconds: float) -> None:
        """POST one message and pass on what comes back, until the answer."""
        if self._refused is not None:
            raise self._refused.repeated(begun=False)
        session = None if kind == "initialize" else self._session
        answer = _Answer(self._max_bytes)
        if kind == "request" and self._listens:
            self._listen(session)
        posted = await self._request("POST", kind, session, seconds, message)
        if await self._once(posted, kind, session, answer):
            return
        try:
            while not await self._resumed(session, seconds, answer):
                pass
        except GuestFault as fault:
            fault.begun, fault.answered = True, False  # the request itself was taken
            raise
        except CoilclawError as error:  # our credentials ran out meanwhile
            raise GuestFault(error.message, remedy=error.remedy, code="GUEST_UNAUTHORIZED") from error

    def _listen(self, session: str | None) -> None:
        """Listen in this session, once; in another one that was open before no more."""
        if self._listening is not None:
            if self._listening[0] == session:
                return
            self._listening[1].cancel()
        self._listening = session, asyncio.ensure_future(self._hear(session))

    async def _hear(self, session: str | None) -> None:
        """Pass on what the server says unasked, until it refuses or breaks the protocol: a server need not offer it."""
        heard, last_id = _Answer(self._max_bytes), ""
        while True:
            try:
                request = await self._request("GET", "request", session, _LISTEN_SECONDS, last_id=last_id)
                heard.left = self._max_bytes
                async with self._visit(request) as response:
                    await self._admit(response, "request", session)
                    await self._read(response, heard, unasked=True)
            except _Broken:
                pass  # it is asked again, where it broke off
            except (CoilclawError, TimeoutError):
                return
            await asyncio.sleep(max(heard.pause, _LISTEN_PAUSE))
            last_id = heard.last_id

    async def close(self) -> None:
        """End the session, if there is one; whether the server hears it does not matter."""
        if self._listening is not None:
            self._listening[1].cancel()
            await asyncio.wait({self._listening[1]})
            self._listening = None
        session, self._session = self._session, None
        if session is not None:
            with suppress(GuestFault, TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    request = await self._request("DELETE", "other", session, _GOODBYE_SECONDS)
                    async with self._visit(request):
                        pass

    async def _request(
        self,
        method: Literal["GET", "POST", "DELETE"],
        kind: Kind,
        session: str | None,
        seconds: float,
        body: bytes = b"",
        last_id: str = "",
        max_bytes: int = 0,
    ) -> HttpRequest:
        secret = await self._secret_headers()
        if any(name.lower() in _OURS for name, _ in secret):
            raise GuestFault("A configured header is one that MCP itself sets.", code="BAD_HEADER", begun=False)
        headers = [("Accept", "application/json, text/event-stream" if method == "POST" else "text/event-stream")]
        if body:
            headers.append(("Content-Type", "application/json"))
        if kind != "initialize" and self._protocol:
            headers.append(("MCP-Protocol-Version", self._protocol))
        if session is not None:
            headers.append(("Mcp-Session-Id", session))
        if last_id:
            headers.append(("Last-Event-ID", last_id))
        return HttpRequest(
            principal="mcp",
            method=method,
            url=self._url,
            headers=(*headers, *secret),
            body=body,
            timeout_seconds=seconds,
            max_bytes=max_bytes or self._max_bytes,
        )

    async def _once(self, request: HttpRequest, kind: Kind, session: str | None, answer: "_Answer") -> bool:
        """Make one request and pass on what it brings; whether nothing more is to come."""
        try:
            async with self._visit(request) as response:
                await self._admit(response, kind, session)
                if kind == "other":
                    return True
                return await self._read(response, answer)
        except _Broken as fault:
            if not answer.resumable or answer.left < _PIECE:
                raise
            answer.trouble = fault.message
            return False

    async def _resumed(self, session: str | None, seconds: float, answer: "_Answer") -> bool:
        """Take the stream up where it broke off, after the pause that the server asks for."""
        last_id = answer.next_id()
        await asyncio.sleep(answer.pause)
        request = await self._request("GET", "request", session, seconds, last_id=last_id, max_bytes=answer.left)
        return await self._once(request, "request", session, answer)

    @asynccontextmanager
    async def _visit(self, request: HttpRequest) -> AsyncGenerator[StreamedResponse]:
        try:
            async with self._transport.stream(request) as response:
                yield response
        except EgressRefused as error:
            raise GuestFault(error.message, remedy=error.remedy, code=error.code, begun=False) from error
        except TransportError as error:
            code = "GUEST_TIMEOUT" if error.timeout else "GUEST_OVER" if error.sent else "NO_CONNECTION"
            raise _Broken(error.message, remedy=error.remedy, code=code, begun=error.sent) from error

    async def _admit(self, response: StreamedResponse, kind: Kind, session: str | None) -> None:
        """Check status and session of a response before anything in it is believed."""
        status = response.status
        if status in (401, 403):
            raise GuestUnauthorized(status, ", ".join(_all(response, "www-authenticate"))[:8192])
        if status == 404 and session is not None:
            raise SessionLost("The server has forgotten our session.", begun=False)
        if 300 <= status < 400:
            raise GuestFault(
                "The server answers with a redirect, which is not followed.",
                remedy="Configure the address it really has.",
                code="REDIRECT",
                begun=False,
            )
        if not 200 <= status < 300:
            begun = status >= 500 or status in _MAYBE_TAKEN
            said = await _error_text(response)
            raise GuestFault(f"The server answered {status}{said}.", code=f"HTTP_{status}", begun=begun)
        self._keep_session(_all(response, "mcp-session-id"), kind, session)

    def _keep_session(self, given: Sequence[str], kind: Kind, session: str | None) -> None:
        if kind == "initialize" and len(set(given)) <= 1:
            if not given or _VISIBLE.match(given[0]):
                self._session = given[0] if given else None
                return
        elif all(each == session for each in given):
            return
        self._refused = GuestFault(
            "The server sent a session id that is malformed or not ours.",
            remedy="Do not use this server.",
            code="GUEST_SESSION",
        )
        raise self._refused

    async def _read(self, response: StreamedResponse, answer: "_Answer", *, unasked: bool = False) -> bool:
        """Pass on JSON or events; whether the answer was among them. Of what comes unasked, everything is read."""
        if self._receive is None:
            raise RuntimeError("open the wire first")
        kind = ", ".join(_all(response, "content-type")).partition(";")[0].strip().lower()
        if kind == "application/json" and not unasked:
            if await self._receive(b"".join([piece async for piece in response.chunks()])):
                return True
            raise GuestFault("The server sent a message that does not answer the request.")
        if kind != "text/event-stream":
            raise GuestFault(f"The server answered with {kind[:80]!a}, which is neither JSON nor an event stream.")
        reader = answer.connected()
        async for piece in response.chunks():
            answer.left -= len(piece)
            for data in reader.feed(piece):
                if data and await self._receive(data) and not unasked:
                    return True
        return False


class _Broken(GuestFault):
    """The connection broke, which may be resumed."""


class _Answer:
    """How far the answer to one request has come, over several connections."""

    def __init__(self, max_bytes: int) -> None:
        self.left = max_bytes
        self.trouble = ""
        self._reader = EventReader()
        self._last_id = b""
        self._retry_ms: int | None = None
        self._resumes = 0

    def connected(self) -> EventReader:
        """The reader for another connection; what the earlier ones said about resuming still counts."""
        self._last_id = self._reader.last_id or self._last_id
        self._retry_ms = self._retry_ms if self._reader.retry_ms is None else self._reader.retry_ms
        self._reader = EventReader()
        return self._reader

    @property
    def resumable(self) -> bool:
        """Whether an event told where to go on."""
        return bool(self._reader.last_id or self._last_id)

    @property
    def pause(self) -> float:
        """Seconds to wait before going on."""
        shortest, usual, longest = _RETRY_SECONDS
        asked = self._retry_ms if self._reader.retry_ms is None else self._reader.retry_ms
        return usual if asked is None else min(max(asked / 1000, shortest), longest)

    @property
    def last_id(self) -> str:
        """The last event that told where to go on; empty without one."""
        last_id = (self._reader.last_id or self._last_id).decode("utf-8", "replace")
        return last_id if _VISIBLE.match(last_id) else ""

    def next_id(self) -> str:
        """The event after which to go on, or GuestFault."""
        self._resumes += 1
        last_id = (self._reader.last_id or self._last_id).decode("utf-8", "replace")
        if not last_id:
            raise GuestFault("The server ended its event stream without an answer.", code="GUEST_OVER")
        if not _VISIBLE.match(last_id) or self._resumes > MAX_RESUMES or self.left <= 0:
            why = self.trouble or "it gave up too often, sent too much, or its event id is malformed"
            raise GuestFault(f"The server's event stream cannot be resumed: {why}.", code="GUEST_OVER")
        return last_id


def _all(response: StreamedResponse, name: str) -> list[str]:
    return [value for key, value in response.headers if key.lower() == name]


async def _error_text(response: StreamedResponse) -> str:
    """What a JSON-RPC error in the body says, for a person to read."""
    from coilclaw.packets.canonical import NotCanonical, parse_object

    body = b""
    with suppress(TransportError, NotCanonical):
        async for piece in response.chunks():
            body += piece
            if len(body) > _ERROR_BYTES:
                return ""
        error = parse_object(body).get("error")
        message = error.get("message") if isinstance(error, dict) else None
        return f": {message[:300].rstrip('.')}" if isinstance(message, str) else ""
    return ""
