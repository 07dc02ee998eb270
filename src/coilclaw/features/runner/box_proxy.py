"""What every model listener of a box does: it reads requests strictly, asks whether they may go, and answers in the
words of their wire. What a call costs, and whether it may be made, is said by whoever serves the box."""

import asyncio
import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from coilclaw.features.runner.model_http import BadHttp, BoxClient, BoxRequest
from coilclaw.features.runner.model_wires import ModelRoute, SessionWire, error_body, passed_body, route_of
from coilclaw.packets.errors import CoilclawError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

_CALLS: Final = 8
"""Calls of one box that run at a time; further ones wait, unread."""
_CALLS_PER_MINUTE: Final = 120
_LOOK_SECONDS: Final = 0.5
_QUIET_SECONDS: Final = 900.0
"""A provider that says nothing for so long has forgotten us."""
_LARGE: Final = 256 << 10
"""A body of this size is read in a thread."""
_RESERVED: Final = 200_000
JSON: Final = "application/json"


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it will leave."""

    request: BoxRequest
    route: ModelRoute
    path: str
    model: str
    body: bytes


class BoxProxy:
    """Serves one box."""

    def __init__(self, app: "Runtime", wire: SessionWire, called: str) -> None:
        self._app = app
        self._wire: SessionWire = wire
        self._called = called
        """What the box is, for messages."""
        self._slots = asyncio.Semaphore(_CALLS)
        self._recent: list[float] = []
        self._reserved = 0
        """Tokens that running calls send, as far as their length tells: they count before the answer does."""
        self.refused: Counter[str] = Counter()
        """What was refused, by its code, since it was last told."""
        self._heard = 0.0
        """When a provider last said something."""
        self._over = ""
        """The limit that was told last."""

    # What whoever serves the box says

    def _may_go(self, tokens: int) -> None:
        """Raise BadHttp unless so many more tokens may be used now."""
        raise NotImplementedError

    def _is_running(self) -> bool:
        """Whether calls may go on."""
        raise NotImplementedError

    async def _call(self, client: BoxClient, call: ModelCall) -> None:
        """Make a call and answer it."""
        raise NotImplementedError

    async def _tell_limit(self, limit: str) -> None:
        """Tell the owner which limit stops it."""
        raise NotImplementedError

    # Serving

    async def serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection from the box."""
        client = BoxClient(reader, writer, port)
        request: BoxRequest | None = None
        try:
            while request := await client.request():
                await self._answer(client, request)
                if not request.keeps:
                    return
                request = None
        except BadHttp as bad:
            self.refused[bad.code] += 1
            if client.begun:
                client.abort()  # a cut answer must not look whole
            else:
                await self._fail(client, bad, head_only=request is not None and request.method == "HEAD")
        except (OSError, TimeoutError):
            client.abort()
        except CoilclawError as error:
            client.abort()
            self._app.warn(f"{self._called} and its model: {self._app.redact(str(error))}")

    async def _answer(self, client: BoxClient, request: BoxRequest) -> None:
        route, path, model = route_of(self._wire, request.method, request.target)
        self._may_go(0)
        async with self._slots:
            body = await client.body(request)
            if route.method == "POST":
                if len(body) > _LARGE:
                    body, named = await asyncio.to_thread(passed_body, self._wire, route, body)
                else:
                    body, named = passed_body(self._wire, route, body)
                model = model or named
            await self._while_it_may(client, ModelCall(request=request, route=route, path=path, model=model, body=body))

    def _hurries(self) -> bool:
        now = time.monotonic()
        self._recent = [each for each in self._recent if now - each < 60]
        if len(self._recent) >= _CALLS_PER_MINUTE:  # one that is refused is not kept: a flood would fill the list
            return True
        self._recent.append(now)
        return False

    async def _until_it_may_not(self) -> None:
        """Return when calls may not go on, ESTOP is engaged, or no provider has said anything for long."""
        self._heard = time.monotonic()
        while not self._app.estop.engaged() and time.monotonic() - self._heard < _QUIET_SECONDS:
            if not self._is_running():
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _while_it_may(self, client: BoxClient, call: ModelCall) -> None:
        """Make a call; it ends when calls may not go on, with ESTOP, and when its caller hangs up."""
        if self._hurries():
            raise BadHttp(429, "TOO_MANY", f"A box makes at most {_CALLS_PER_MINUTE} calls a minute.")
        reserved = min(len(call.body) // 4, _RESERVED) if call.route.answers else 0
        self._app.refresh()
        self._may_go(reserved)
        self._reserved += reserved
        parts = (self._call(client, call), client.gone(), self._until_it_may_not())
        asked = [asyncio.ensure_future(each) for each in parts]
        try:
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            if not asked[0].done():
                client.abort()
        finally:
            self._reserved -= reserved
            for task in asked:
                task.cancel()
            results = await asyncio.gather(*asked, return_exceptions=True)
        if isinstance(results[0], Exception):
            raise results[0]

    async def _fail(self, client: BoxClient, bad: BadHttp, *, head_only: bool) -> None:
        """An error in the words of the wire; the connection ends with it."""
        if bad.code == "BUDGET":
            await self._say_why(bad.reason)
        data = error_body(self._wire, bad.status, bad.code, self._app.redact(bad.reason))
        more = [("retry-after", "5")] if bad.status in (429, 503) else [("x-should-retry", "false")]
        more += [("allow", "POST")] if bad.status == 405 else []
        head = head_of(bad.status, [("content-type", JSON), length_of(data), ("connection", "close"), *more])
        with contextlib.suppress(OSError, TimeoutError):
            await client.write(head if head_only else head + data)
            await client.ended()

    async def _say_why(self, limit: str) -> None:
        """Tell once which limit stops it."""
        if limit == self._over:
            return
        self._over = limit
        try:
            await self._tell_limit(limit)
        except CoilclawError as error:
            self._app.warn(f"{self._called}: {self._app.redact(str(error))}")


def length_of(data: bytes) -> tuple[str, str]:
    """The header that says how long a body is."""
    return "content-length", str(len(data))


def head_of(status: int, headers: list[tuple[str, str]]) -> bytes:
    """The head of an answer."""
    lines = [f"HTTP/1.1 {status} ", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join((*lines, "", "")).encode("ascii")
