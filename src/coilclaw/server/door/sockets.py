"""Open WebSockets: a client keeps one for as long as a request of its would be admitted."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from litestar.types import ASGIApp, Receive, Send

from coilclaw.server.door.caller import Caller
from coilclaw.server.door.open_connections import OpenConnections
from coilclaw.server.problems import Trouble

PROTOCOL = "coilclaw"
BINARY_PROTOCOL = "coilclaw-binary"
PROTOCOLS = (PROTOCOL, BINARY_PROTOCOL)
"""What a client offers first in `Sec-WebSocket-Protocol`: one of these. Only it is returned, never the key after it."""
MOST_SOCKETS = 256
CLOSE_SECONDS = 1.0
_NORMAL, _POLICY_VIOLATION = 1000, 1008


class Sockets(OpenConnections[asyncio.Event]):
    """All open WebSockets of a server. ESTOP ends them and refuses new ones: their messages may have effects."""

    def __init__(self, *, still_valid: Callable[[Caller], bool], stopped: Callable[[], bool], most: int) -> None:
        super().__init__(
            still_valid=lambda caller: not stopped() and still_valid(caller),
            most=min(most, MOST_SOCKETS),
            end=asyncio.Event.set,
            full=lambda: Trouble(
                503,
                "TOO_MANY_SOCKETS",
                "too many WebSockets are open.",
                remedy="Close some.",
                headers={"Retry-After": "5"},
            ),
        )
        self._stopped = stopped

    def room_for(self, caller: Caller) -> None:
        """Raise if there are too many, or while ESTOP is engaged."""
        if self._stopped():
            raise Trouble(409, "ESTOP", "ESTOP is engaged: no WebSocket is opened.", remedy="Clear ESTOP first.")
        super().room_for(caller)

    async def serve(
        self, app: ASGIApp, scope: Any, receive: Receive, send: Send, caller: Caller, abort: Callable[[], None]
    ) -> None:
        """Run a route on a WebSocket until either side ends it or its caller loses access."""
        ended = asyncio.Event()

        async def checked() -> Any:
            message = await receive()
            if message["type"] == "websocket.receive" and not self.holds(caller):
                ended.set()  # every message is checked like a request, so nothing slips in before the end
                raise asyncio.CancelledError
            return message

        async def guarded(message: Any) -> None:
            if ended.is_set():
                raise ConnectionAbortedError
            if message["type"] == "websocket.accept":
                message = {"type": "websocket.accept", "subprotocol": next(iter(scope["subprotocols"]), None)}
            elif message["type"] == "websocket.close":
                message = {**message, "reason": ""}  # it might repeat input
            await send(message)

        route = asyncio.ensure_future(app(scope, checked, guarded))
        ending = asyncio.ensure_future(ended.wait())
        self.add(ended, caller)
        try:
            await asyncio.wait({route, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.remove(ended)
            ending.cancel()
            route.cancel()
            # Close the client first: a route may be slow, or ignore its cancellation.
            await _close(send, abort, _POLICY_VIOLATION if ended.is_set() else _NORMAL)
            with suppress(asyncio.CancelledError, OSError):  # an OSError means that the client left
                await route


async def _close(send: Send, abort: Callable[[], None], code: int) -> None:
    """Close it, without waiting for a client that does not read."""
    with suppress(OSError, RuntimeError):  # it was closed already
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await send({"type": "websocket.close", "code": code, "reason": ""})
        except TimeoutError:
            abort()
