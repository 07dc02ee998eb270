"""A WebSocket connection with a limited backlog that ends if the client does not read.

It reads one message at a time, none too large. When sending, a route waits for its previous
message. Periodic pings detect vanished clients.
"""

import asyncio
import logging
from typing import Any, ClassVar

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from coilclaw.server.door.slow_clients import LOGGER, Limits

MESSAGE_BYTES = 64 << 10
PING_SECONDS = 20.0
"""Between two pings, and for a pong."""
FRAGMENTS = 256
"""Maximum frames of one message. Empty ones have no size, so a size limit alone is not enough."""


class TimedSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket connection with timeouts."""

    limits: ClassVar[Limits] = Limits()
    _stuck: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = logging.getLogger(LOGGER)

    async def send(self, message: Any) -> None:
        """Send a route's message; uvicorn mistakes a refused handshake for a forgotten one."""
        await super().send(message)
        self.handshake_complete = self.handshake_complete or (self.close_sent and self.initial_response is not None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection's state."""
        self._cancel_stuck()
        self.app_state["line"].known()  # no longer a stranger that could yield
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads too slowly: start the timer."""
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        """The client caught up."""
        super().resume_writing()
        self._cancel_stuck()

    def handle_ping(self) -> None:
        """Send a pong, unless pongs already pile up: sending pings requires no reading."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        """Accept another frame of a message, up to the limit."""
        super().handle_cont(event)
        if len(self.frames) >= FRAGMENTS:
            self.frames = []
            self.conn.fail(1009)
            self.handle_parser_exception()

    def keepalive_timeout(self) -> None:
        """A ping was not answered: drop the backlog."""
        super().keepalive_timeout()
        self.transport.abort()

    def on_task_complete(self, task: "asyncio.Task[None]") -> None:
        """The route is done. Closing waits for the last bytes to be read, with a timeout."""
        super().on_task_complete(task)
        if not self.disconnected:
            self._expect_taking()

    def _expect_taking(self) -> None:
        if self._stuck is None:
            self._stuck = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def _cancel_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


def timed_socket(limits: Limits) -> type[TimedSocket]:
    """The connection class of one listener."""
    return type("LimitedSocket", (TimedSocket,), {"limits": limits})
