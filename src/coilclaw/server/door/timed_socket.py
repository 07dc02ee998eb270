"""A WebSocket connection that bounds what piles up on it and ends with whoever takes nothing.

Of what comes, one message at a time is read, and none that is too large. Of what goes out, a route waits for what it
sent before. A ping every now and then finds those who vanished.
"""

import asyncio
import logging
from typing import Any, ClassVar

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from coilclaw.server.door.slow_clients import LOGGER, Limits

MESSAGE_BYTES = 64 << 10
PING_SECONDS = 20.0
"""Between two pings, and for the answer to one."""
FRAGMENTS = 256
"""Pieces of one message. Empty ones weigh nothing, so their size alone would not bound them."""


class TimedSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket connection, with an end to its patience."""

    limits: ClassVar[Limits] = Limits()
    _stuck: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = logging.getLogger(LOGGER)

    async def send(self, message: Any) -> None:
        """Send what a route sends; uvicorn takes a handshake that was refused for one that was forgotten."""
        await super().send(message)
        self.handshake_complete = self.handshake_complete or (self.close_sent and self.initial_response is not None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything about it."""
        self._cancel_stuck()
        self.app_state["line"].known()  # no longer a stranger that could make way
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """More piles up than is taken: wait, for a while."""
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        """It was taken."""
        super().resume_writing()
        self._cancel_stuck()

    def handle_ping(self) -> None:
        """Answer, unless answers pile up already: pings need no reader at the other end."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        """Take a further piece of a message, up to a number."""
        super().handle_cont(event)
        if len(self.frames) >= FRAGMENTS:
            self.frames = []
            self.conn.fail(1009)
            self.handle_parser_exception()

    def keepalive_timeout(self) -> None:
        """Nobody answers a ping: whatever was still to be sent, nobody takes."""
        super().keepalive_timeout()
        self.transport.abort()

    def on_task_complete(self, task: "asyncio.Task[None]") -> None:
        """The route is done. Closing waits for the last bytes to be taken, but not for ever."""
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
