"""Request bodies: received completely before anything uses them, with limits on size and time."""

import asyncio

import msgspec
from litestar.types import Receive

from coilclaw.packets.canonical import NotCanonical, parse_json
from coilclaw.server.problems import Trouble

UPLOADS = "/v1/files"
BIND = "/v1/pairing/bind"
GITHUB_SIGN_IN = "/v1/pairing/github"
WEBHOOKS = "/runner/v1/webhooks/"
FORGE_WEBHOOK = "/v1/forge/webhook"
_BIND_BYTES = 16 << 10
"""The limit for callers without a token."""
_WEBHOOK_BYTES = 1 << 20
_FORM_BYTES = 64 << 10
"""Extra bytes for the form around a file."""
_UPLOAD_BYTES = 2 << 20
_UPLOAD_TYPES = frozenset({"multipart/form-data", "application/octet-stream", "application/json"})
_JSON = frozenset({"application/json"})


DRAIN_BYTES = 4 << 20
DRAIN_SECONDS = 1.0


def is_webhook(path: str) -> bool:
    """A delivery, and nothing below or beside it. It is signed over its raw bytes, whatever these are."""
    name = path.removeprefix(WEBHOOKS)
    return path == FORGE_WEBHOOK or (path.startswith(WEBHOOKS) and bool(name) and "/" not in name)


class ClientGone(Exception):
    """The client disconnected before the request was complete."""


class Bodies(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on bodies."""

    most: int
    seconds: float

    def cap(self, path: str) -> int:
        """The maximum body size of a path."""
        if path == UPLOADS:
            return max(self.most, _UPLOAD_BYTES) + _FORM_BYTES
        if is_webhook(path):
            return _WEBHOOK_BYTES
        return min(self.most, _BIND_BYTES) if path in (BIND, GITHUB_SIGN_IN) else self.most

    def check(self, path: str, headers: dict[str, list[str]]) -> bool:
        """Whether a body follows; refuses an unacceptable one before it is sent."""
        declared = headers.get("content-length", ["0"])[0]
        length = int(declared) if declared.isascii() and declared.isdigit() else -1
        if length < 0:
            raise Trouble(400, "BAD_REQUEST", "Content-Length is not a number.")
        chunked = "transfer-encoding" in headers
        if not length and not chunked:
            return False
        if length > self.cap(path):
            raise _too_large(self.cap(path))
        self._check_kind(path, headers)
        return True

    def _check_kind(self, path: str, headers: dict[str, list[str]]) -> None:
        coding = headers.get("content-encoding", ["identity"])
        if [each.strip().lower() for each in coding] != ["identity"]:
            raise Trouble(
                415, "UNSUPPORTED_MEDIA_TYPE", "compressed bodies are not accepted.", remedy="Send it uncompressed."
            )
        if is_webhook(path):
            return
        kinds = headers.get("content-type", [])
        allowed = _UPLOAD_TYPES if path == UPLOADS else _JSON
        if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() not in allowed:
            names = " or ".join(sorted(allowed))
            raise Trouble(
                415,
                "UNSUPPORTED_MEDIA_TYPE",
                "the body's media type is not accepted here.",
                remedy=f"Send it with the header `Content-Type: {names}`.",
            )

    async def read(self, path: str, receive: Receive) -> bytes:
        """The whole body; 413 if it exceeds its limit, 408 if it takes too long."""
        try:
            async with asyncio.timeout(self.seconds):
                body = await _read(receive, self.cap(path))
        except TimeoutError as error:
            raise Trouble(
                408,
                "TOO_SLOW",
                f"the request was not complete within {self.seconds:g} seconds.",
                remedy="Send it again, faster.",
            ) from error
        if path != UPLOADS and not is_webhook(path):
            _check_json(body)
        return body


async def _read(receive: Receive, cap: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        part = message["body"]
        size += len(part)
        if size > cap:
            raise _too_large(cap)
        parts.append(part)
        if not message["more_body"]:
            return b"".join(parts)


def _check_json(body: bytes) -> None:
    """Strict JSON, as at the gate: no duplicate keys, no unrepresentable numbers, limited depth."""
    if not body:
        return
    try:
        msgspec.json.decode(body)
    except RecursionError as error:
        raise Trouble(
            400, "BAD_REQUEST", "the JSON is nested too deeply.", remedy="Send it less deeply nested."
        ) from error
    except UnicodeDecodeError as error:
        raise Trouble(400, "BAD_REQUEST", "the body is not UTF-8.", remedy="Send JSON as UTF-8.") from error
    except msgspec.DecodeError:
        return  # the parser of the route reports it
    try:
        parse_json(body)
    except (NotCanonical, RecursionError) as error:
        raise Trouble(422, "UNFIT", f"the JSON is ambiguous: {error}.", remedy="Send unambiguous JSON.") from error


def _too_large(cap: int) -> Trouble:
    return Trouble(413, "TOO_LARGE", f"the body is larger than {cap} bytes.", remedy="Send less at a time.")


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body once, then further messages from the client."""
    given = False

    async def again() -> object:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again  # pyright: ignore[reportReturnType] - a message as ASGI has them


async def drain(receive: Receive) -> None:
    """Read a little more input, so that the client sees the refusal before the connection closes."""
    left = DRAIN_BYTES
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while left > 0:
                message = await receive()
                if message["type"] != "http.request" or not message["more_body"]:
                    return
                left -= len(message["body"])
    except TimeoutError:
        return
