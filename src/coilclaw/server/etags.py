"""ETags: unchanged responses are not sent again."""

import hashlib
from typing import Any

from litestar.types import ASGIApp, Receive, Scope, Send

from coilclaw.server.door.headers import headers_of

MOST = 1 << 20


class ETags:
    """Middleware: every JSON response to a GET gets an ETag, and becomes 304 if nothing changed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        known = next((value for name, value in scope["headers"] if name == b"if-none-match"), b"")
        await self._app(scope, receive, _Tagged(send, known))


class _Tagged:
    """Holds back the start of a response until its body is known to be complete and small."""

    def __init__(self, send: Send, known: bytes) -> None:
        self._send = send
        self._known = known
        self._start: Any = None

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start" and _fits(message):
            self._start = message
            return
        start, self._start = self._start, None
        if start is None:
            await self._send(message)
            return
        body = message.get("body", b"")
        if message.get("more_body") or len(body) > MOST:
            await self._send(start)
            await self._send(message)
            return
        tag = b'W/"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'
        headers = [*headers_of(start), (b"etag", tag)]
        if _has(self._known, tag):
            unsent = (b"content-length", b"content-type")
            headers = [(name, value) for name, value in headers if name.lower() not in unsent]
            start["status"] = 304
            message["body"] = b""
        start["headers"] = headers
        await self._send(start)
        await self._send(message)


def _fits(start: Any) -> bool:
    kinds = [value for name, value in headers_of(start) if name.lower() == b"content-type"]
    return start["status"] == 200 and bool(kinds) and kinds[0].split(b";")[0].strip() == b"application/json"


def _has(known: bytes, tag: bytes) -> bool:
    """Weak comparison, as for If-None-Match."""
    if known.strip() == b"*":
        return True
    return any(each.strip().removeprefix(b"W/") == tag.removeprefix(b"W/") for each in known.split(b","))
