"""Idempotent requests: the same request with the same key is executed once, and gets the first response again."""

import re
from collections.abc import Callable
from typing import Any

from litestar.types import ASGIApp, Receive, Scope, Send

from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import digest_of, sha256_hex
from coilclaw.packets.ids import Clock
from coilclaw.server.door.body import ClientGone, replayed
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.headers import headers_of
from coilclaw.server.problems import Trouble
from coilclaw.store.database import Database
from coilclaw.store.requests import Kept, State, begin_request, finish_request, forget_request
from coilclaw.store.tx import Tx

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
MOST = 256 << 10
"""Larger responses are not stored: the request runs again, and its handler recognises its earlier work."""
_KEY = re.compile(r"[!-~][ -~]{0,199}\Z")
_PASSING = frozenset({408, 413, 429})
_HEADERS = frozenset({"content-type", "location"})
_SECRET = frozenset({"/v1/pairing/code", "/runner/v1/tokens", "/v1/sign-in/ticket"})
"""Paths whose responses are never stored."""
_ANY_TIME = frozenset({"/v1/estop", "/estop"})
"""It is idempotent anyway, and must not wait for the database."""


class Requests:
    """Middleware around the routes, inside the door."""

    def __init__(self, app: ASGIApp, *, db: Database, clock: Clock, worker: str, gone: Callable[[str], bool]) -> None:
        self._app = app
        self._db = db
        self._clock = clock
        self._worker = worker
        self._gone = gone
        self._running: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; one without a key is passed through."""
        caller: Caller | None = scope["state"].get("caller") if scope["type"] == "http" else None
        key = None
        if caller is not None and scope["type"] == "http" and scope["method"] in WRITES:
            key = None if scope["path"] in _ANY_TIME else _key(scope)
        if caller is None or key is None:
            await self._app(scope, receive, send)
        else:
            await self._once((caller.device_id, sha256_hex(key.encode())), scope, receive, send)

    async def _once(self, mine: tuple[str, str], scope: Any, receive: Receive, send: Send) -> None:
        body = await _whole(receive)
        asked = digest_of(scope["method"].encode(), _target(scope), body)
        found: Kept | State = await self._db.write(lambda tx: self._begin(tx, mine, asked))
        if isinstance(found, Kept):
            await _replay(found, send)
            return
        _refuse(found)
        try:
            scope["state"]["request_key"] = sha256_hex("\n".join(mine).encode())
            keep = _Keeping(send, lambda kept: self._end(mine, kept), secret=scope["path"] in _SECRET)
            await self._app(scope, replayed(body, receive), keep)
        except Exception:
            await self._end(mine, None)
            raise
        finally:
            self._running.discard(mine)

    def _begin(self, tx: Tx, mine: tuple[str, str], asked: str) -> Kept | State:
        device_id, key = mine
        found = begin_request(
            tx,
            self._clock,
            device_id=device_id,
            key=key,
            request_hash=asked,
            worker=self._worker,
            gone=lambda worker: mine not in self._running if worker == self._worker else self._gone(worker),
        )
        if found == "conflict":
            add_event(tx, self._clock, "idempotency_conflict", device_id, {"key_hash": key})
        elif found == "begun":
            self._running.add(mine)  # inside the transaction, so that nobody sees the row without it
        return found

    async def _end(self, mine: tuple[str, str], kept: Kept | None) -> None:
        device_id, key = mine

        def work(tx: Tx) -> None:
            if kept is None:
                forget_request(tx, device_id=device_id, key=key, worker=self._worker)
            else:
                finish_request(tx, device_id=device_id, key=key, worker=self._worker, kept=kept)

        await self._db.write(work)


class _Keeping:
    """Stores a response before it is sent, if it should be stored."""

    def __init__(self, send: Send, end: Callable[[Kept | None], Any], *, secret: bool) -> None:
        self._send = send
        self._end = end
        self._secret = secret
        self._start: Any = None

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            await self._end(self._kept(start, message))
            await self._send(start)
        await self._send(message)

    def _kept(self, start: Any, message: Any) -> Kept | None:
        status, body = start["status"], message.get("body", b"")
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers_of(start)]
        passing = status >= 500 or status in _PASSING
        long = message.get("more_body", False) or len(body) > MOST
        if passing or long or self._secret or any(name == "set-cookie" for name, _ in headers):
            return None
        return Kept(status=status, headers=[each for each in headers if each[0] in _HEADERS], body=body)


def _key(scope: Any) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"idempotency-key"]
    if not found:
        return None
    key = found[0].decode("latin-1")
    if _KEY.match(key) is None:
        raise Trouble(
            400,
            "BAD_REQUEST",
            "the Idempotency-Key is invalid.",
            remedy="Send 1 to 200 printable ASCII characters.",
        )
    return key


def _target(scope: Any) -> bytes:
    return scope["path"].encode("utf-8", "surrogatepass") + b"?" + scope["query_string"]


async def _whole(receive: Receive) -> bytes:
    """The body, already received by the door; empty if there is none."""
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGone
    return message["body"]


async def _replay(kept: Kept, send: Send) -> None:
    headers = [(name.encode(), value.encode("latin-1")) for name, value in kept.headers]
    headers += [(b"content-length", str(len(kept.body)).encode())] if kept.status != 204 else []
    headers.append((b"idempotency-replayed", b"true"))
    start: Any = {"type": "http.response.start", "status": kept.status, "headers": headers}
    body: Any = {"type": "http.response.body", "body": kept.body, "more_body": False}
    await send(start)
    await send(body)


def _refuse(found: State) -> None:
    if found == "conflict":
        raise Trouble(
            409,
            "IDEMPOTENCY_CONFLICT",
            "this Idempotency-Key was used for another request.",
            remedy="Use a separate key for every request.",
        )
    if found == "running":
        raise Trouble(
            409,
            "IN_PROGRESS",
            "the request with this Idempotency-Key is still being answered.",
            remedy="Retry in a moment with the same key.",
            headers={"Retry-After": "1"},
        )
