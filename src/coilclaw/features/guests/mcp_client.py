"""An MCP client: tools alone, over any wire. What the server sends is untrusted, and bounded in size, depth and rate.

The standard library and msgspec are enough: the SDK takes ten times the CPU (docs/guests.md).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast

from coilclaw import __version__
from coilclaw.features.guests.mcp_messages import (
    Blob,
    CallResult,
    GuestFault,
    GuestUnauthorized,
    ListedTool,
    ServerInfo,
    SessionLost,
    add_page,
    cut,
    error_of,
    next_cursor,
    parse_message,
    read_result,
)
from coilclaw.packets.canonical import Json, JsonObject, NotCanonical, canonical_bytes

__all__ = [
    "Blob", "CallResult", "GuestFault", "GuestUnauthorized", "ListedTool", "McpClient", "McpWire", "ServerInfo",
    "SessionLost",
]  # fmt: skip

PROTOCOLS: Final = ("2025-11-25", "2025-06-18")
MAX_PAGES = 20
_TELL_SECONDS = 5.0
_ABANDONED = 1024
"""How many cancelled requests are remembered, so that their late answers are dropped."""
_PROGRESS = 1000
"""How many reports of progress of one call are passed on."""
_LARGE = 64 << 10
"""A larger message is parsed in a thread, because it may take a second; only an answer may be larger."""
_UNASKED_COST, _UNASKED_BURST, _UNASKED_PAUSE = 1 << 10, 64 << 10, 0.01
"""Notifications and requests pause the reader after this many bytes, each counting a kilobyte at least, for as long as
they took: a guest that floods us waits in its own write."""

Receive: TypeAlias = Callable[[bytes], Awaitable[bool]]
"""Takes one message from the server; returns whether it was an answer."""
Kind: TypeAlias = Literal["initialize", "request", "other"]
"""Of a message to the server: the one that opens a session, another one that is answered, or one that is not."""
T = TypeVar("T")


class McpWire(Protocol):
    """Carries JSON-RPC messages to a server and back."""

    async def open(self, receive: Receive, ended: Callable[[GuestFault], None]) -> None:
        """Start passing on what arrives; `ended` is called when nothing more can arrive or be sent."""
        ...

    async def send(self, message: bytes, *, kind: Kind, seconds: float) -> None:
        """Send one message, or raise GuestFault; it returns before the answer only if that can still arrive."""
        ...

    def agreed(self, protocol: str) -> None:
        """The version that both sides speak from now on."""
        ...

    async def close(self) -> None:
        """Say goodbye and end everything."""
        ...


class _Waiting:
    """A request that has no answer yet."""

    def __init__(self, on_progress: Callable[[str], None] | None) -> None:
        self.answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._on_progress = on_progress
        self._reports = 0

    def progress(self, params: JsonObject) -> None:
        """Pass on a report, while there are not too many."""
        self._reports += 1
        if self._on_progress is not None and self._reports <= _PROGRESS:
            done, total = params.get("progress"), params.get("total")
            numbers = f"{done}/{total}" if isinstance(total, int | float) else str(done)
            self._on_progress(cut(params.get("message"), 500) or numbers[:40])


class McpClient:
    """One connection to one server. Start it, list, call, close it; calls may run side by side."""

    def __init__(self, wire: McpWire, *, seconds: float = 30.0) -> None:
        """`seconds` is for everything but calls, which have their own."""
        self._wire = wire
        self._seconds = seconds
        self._fault: GuestFault | None = None
        self._last = 0
        self._waiting: dict[int, _Waiting] = {}
        self._abandoned: dict[int, None] = {}
        self._unasked, self._spent = 0, 0.0
        self._changed = False
        self._has_tools = False
        self._listed: tuple[ListedTool, ...] | None = None
        self._sessions = 0
        self._renewing = asyncio.Lock()
        self._telling: set[asyncio.Task[None]] = set()

    @property
    def tools_changed(self) -> bool:
        """The server said that its tools changed since they were listed."""
        return self._changed

    @property
    def fault(self) -> GuestFault | None:
        """Why nothing more can be said to it; None while it lives."""
        return self._fault

    async def start(self) -> ServerInfo:
        """Open the wire and a session, or raise GuestFault and close."""
        try:
            await self._wire.open(self._receive, self._ended)
            return await self._hello()
        except BaseException:
            await self.close()
            raise

    async def list_tools(self) -> tuple[ListedTool, ...]:
        """Every tool on every page; too many, too large or a name that comes twice is a GuestFault."""
        before, self._changed = self._changed, False  # before asking: a change meanwhile counts
        try:
            self._listed = await self._in_session(self._list)
        except BaseException:
            self._changed = self._changed or before
            raise
        return self._listed

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Json],
        *,
        seconds: float,
        on_progress: Callable[[str], None] | None = None,
    ) -> CallResult:
        """Call a tool once. Cancelling, or running out of time, tells the server so; its late answer is dropped."""
        params: JsonObject = {"name": name, "arguments": arguments}

        async def ask() -> JsonObject:
            return await self._request("tools/call", params, seconds, on_progress, effect=True)

        return read_result(await self._in_session(ask, unchanged=True))

    async def ping(self) -> None:
        """Raise GuestFault unless the server answers."""
        await self._in_session(lambda: self._request("ping", None, self._seconds))

    async def close(self) -> None:
        """End the session and the wire; calls that wait fail."""
        if self._telling:  # a cancelled call is worth a moment, so that the server can stop its work
            await asyncio.wait(self._telling, timeout=1.0)
        for task in self._telling:
            task.cancel()
        try:
            await self._wire.close()
        finally:
            self._ended(GuestFault("The connection to it was closed.", code="GUEST_OVER"))

    # -- sessions

    async def _hello(self) -> ServerInfo:
        params: JsonObject = {
            "protocolVersion": PROTOCOLS[0],
            "capabilities": {},
            "clientInfo": {"name": "coilclaw", "version": __version__},
        }
        result = await self._request("initialize", params, self._seconds)
        protocol = result.get("protocolVersion")
        if protocol not in PROTOCOLS:
            raise GuestFault(
                f"It speaks MCP {cut(protocol, 40)!a}; we speak {' and '.join(PROTOCOLS)}.",
                remedy="Update the server.",
                code="GUEST_VERSION",
                begun=False,
            )
        capabilities, info = result.get("capabilities"), result.get("serverInfo")
        if not isinstance(capabilities, Mapping) or not isinstance(info, Mapping):
            raise GuestFault("It does not say what it is and what it offers.", begun=False)
        self._has_tools = "tools" in capabilities
        self._wire.agreed(str(protocol))
        await self._tell("notifications/initialized", None)
        self._sessions += 1
        return ServerInfo(
            name=cut(info.get("name"), 200),
            version=cut(info.get("version"), 200),
            protocol=str(protocol),
            instructions=cut(result.get("instructions"), 4096),
        )

    async def _in_session(self, ask: Callable[[], Awaitable[T]], *, unchanged: bool = False) -> T:
        """Ask; if the server has forgotten our session, start another one and ask again, once.

        `unchanged` asks again only if the new session lists the same tools: the owner approved those.
        """
        session = self._sessions
        try:
            return await ask()
        except SessionLost as error:
            if error.begun:
                raise
        async with self._renewing:
            if session == self._sessions:
                await self._hello()
            if unchanged and self._listed is not None and await self._list() != self._listed:
                self._changed = True
                raise GuestFault(
                    "Its tools changed when it started a new session.", code="GUEST_TOOLS_CHANGED", begun=False
                )
        return await ask()

    async def _list(self) -> tuple[ListedTool, ...]:
        found: dict[str, ListedTool] = {}
        seen: set[str] = set()
        cursor, size, more = "", 0, self._has_tools
        while more:
            params: JsonObject | None = {"cursor": cursor} if seen else None
            result = await self._request("tools/list", params, self._seconds)
            size = await asyncio.to_thread(add_page, found, result, size)
            further = next_cursor(result, seen, MAX_PAGES)
            cursor, more = further or "", further is not None
        return tuple(found.values())

    # -- requests

    async def _request(
        self,
        method: str,
        params: JsonObject | None,
        seconds: float,
        on_progress: Callable[[str], None] | None = None,
        *,
        effect: bool = False,
    ) -> JsonObject:
        """The result of a request. Only a fault of one with an `effect` can say that it has begun."""
        if self._fault is not None:
            raise self._fault.repeated(begun=False)
        self._last += 1
        number, waiting = self._last, _Waiting(on_progress)
        if on_progress is not None:
            params = {**(params or {}), "_meta": {"progressToken": number}}
        message = _encoded({"id": number, "method": method}, params)
        self._waiting[number] = waiting
        kind: Kind = "initialize" if method == "initialize" else "request"
        sending = asyncio.ensure_future(self._wire.send(message, kind=kind, seconds=seconds))
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait({sending, waiting.answer}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.answer.done():
                    await sending
                return await waiting.answer
        except TimeoutError as error:
            self._give_up(number, method, "It took too long.")
            raise GuestFault(
                f"It did not answer {method} within {seconds:g} seconds.", code="GUEST_TIMEOUT", begun=effect
            ) from error
        except asyncio.CancelledError:
            self._give_up(number, method, "It was cancelled.")
            raise
        except GuestFault as fault:
            fault.begun = fault.begun and effect
            raise
        finally:
            self._waiting.pop(number, None)
            waiting.answer.cancel()
            sending.cancel()
            for future in (waiting.answer, sending):
                future.add_done_callback(_retrieved)

    def _give_up(self, number: int, method: str, reason: str) -> None:
        """Drop a request: whatever still comes for it is ignored, and the server is told."""
        self._abandoned[number] = None
        while len(self._abandoned) > _ABANDONED:
            del self._abandoned[next(iter(self._abandoned))]
        if method != "initialize" and self._fault is None:  # initialize cannot be cancelled
            telling = asyncio.ensure_future(
                self._tell_in_vain("notifications/cancelled", {"requestId": number, "reason": reason})
            )
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    async def _tell(self, method: str, params: JsonObject | None) -> None:
        try:
            await self._wire.send(_encoded({"method": method}, params), kind="other", seconds=self._seconds)
        except GuestFault as fault:
            fault.begun = False
            raise

    async def _tell_in_vain(self, method: str, params: JsonObject) -> None:
        with suppress(GuestFault, TimeoutError):
            async with asyncio.timeout(_TELL_SECONDS):
                await self._tell(method, params)

    # -- what arrives

    async def _receive(self, data: bytes) -> bool:
        began = asyncio.get_running_loop().time()
        message = parse_message(data) if len(data) <= _LARGE else await asyncio.to_thread(parse_message, data)
        if "method" not in message:
            self._answered(message)
            return True
        if len(data) > _LARGE:
            raise GuestFault(f"It sent {len(data)} bytes that were not asked for; {_LARGE} are the most.")
        if "id" in message:
            await self._refuse(message)
        else:
            self._notified(cast("str", message["method"]), message.get("params"))
        self._unasked += max(len(data), _UNASKED_COST)
        self._spent += asyncio.get_running_loop().time() - began
        if self._unasked >= _UNASKED_BURST:
            pause, self._unasked, self._spent = max(self._spent, _UNASKED_PAUSE), 0, 0.0
            await asyncio.sleep(min(pause, 1.0))
        return False

    def _answered(self, message: JsonObject) -> None:
        number = message.get("id")
        if number is None and "error" in message:
            raise GuestFault(error_of(message).message)  # it could not read what we sent, so it is over
        if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= self._last:
            raise GuestFault("It answered a request that was never made.")
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            if number not in self._abandoned:
                raise GuestFault(f"It answered request {number} twice.")
            del self._abandoned[number]
        elif not waiting.answer.done():
            if "error" in message:
                waiting.answer.set_exception(error_of(message))
            else:
                waiting.answer.set_result(cast("JsonObject", message["result"]))

    async def _refuse(self, message: JsonObject) -> None:
        """Answer a server's request: a ping, or something that is not offered."""
        answer: JsonObject = {"result": {}}
        if message["method"] != "ping":
            answer = {"error": {"code": -32601, "message": "This client offers nothing but calls of tools."}}
        with suppress(GuestFault, TimeoutError):  # if it cannot be sent, whoever waits for an answer learns it
            async with asyncio.timeout(self._seconds):
                await self._wire.send(
                    _encoded({"id": message["id"], **answer}, None), kind="other", seconds=self._seconds
                )

    def _notified(self, method: str, params: Json) -> None:
        if method == "notifications/tools/list_changed":
            self._changed = True
        elif method == "notifications/progress" and isinstance(params, Mapping):
            token = params.get("progressToken")
            waiting = self._waiting.get(token) if isinstance(token, int) else None
            if waiting is not None:
                waiting.progress(params)

    def _ended(self, fault: GuestFault) -> None:
        """Nothing more will arrive: every request that waits fails."""
        self._fault = self._fault or fault
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(fault.repeated(begun=True))
        self._waiting.clear()


def _encoded(head: JsonObject, params: JsonObject | None) -> bytes:
    whole = {"jsonrpc": "2.0", **head, **({} if params is None else {"params": params})}
    try:
        return canonical_bytes(whole)
    except NotCanonical as error:
        raise GuestFault(f"This cannot be sent: {error}.", code="BAD_ARGUMENTS", begun=False) from error


def _retrieved(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()  # the answer, or the reason why there is none, was delivered already
