"""Slow clients: connections that take their time are ended, so that they cannot keep others out.

Plug it in with `uvicorn.Config(..., http=patient(Limits()))`. A request's head must come within seconds,
however it trickles; so must the rest of a body that was answered already; whoever does not take what is sent is
dropped. When all connections are in use, the one that has idled longest makes way for a new one; new ones are taken a
few at a time (`Limits.at_once`), so that what a connection sent is read before it could make way for a later one. How
long the body of a request may take that is being answered is for the door to say.
"""

import asyncio
import logging
import resource
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from coilclaw.server.problems import MEDIA_TYPE, problem

_TCP, _USER_TIMEOUT = 6, 18  # of Linux; the module that names them is for the sandbox alone
LOGGER = "coilclaw.http"
_SPARE_FILES = 200
"""Descriptors for everything that is not a connection: the database, locks, boxes, providers."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much patience there is."""

    head_seconds: float = 10.0
    """For a whole request head, from the connection's start or from its first byte."""
    keep_alive_seconds: float = 75.0
    """For the next request to begin."""
    write_seconds: float = 30.0
    """For somebody to take what piles up for them."""
    connections: int = 2500
    head_bytes: int = 16 << 10

    @property
    def strangers(self) -> int:
        """How many connections there may be on which nobody has shown a token."""
        return max(self.connections // 2, 1)

    @property
    def at_once(self) -> int:
        """How many connections are taken in one round of the event loop: few enough that a request which came with its
        connection has been looked at, and its token seen, long before that connection is the oldest."""
        return max(1, min(64, self.strangers // 8))


class Line:
    """A connection as an answer sees it: `scope["state"]["line"]`."""

    def __init__(self, abort: Callable[[], None], known: Callable[[], None]) -> None:
        self.on_shutdown: Callable[[], None] | None = None
        """Called when the server ends while an answer is being given, so that an endless one can end too."""
        self.abort = abort
        self.known = known
        """To be called when whoever is on it has shown a token: it makes way for no stranger."""


class TimedConnection(H11Protocol):
    """uvicorn's HTTP connection, with an end to its patience."""

    limits: ClassVar[Limits] = Limits()
    idle: ClassVar[dict["TimedConnection", None]]
    """Connections that wait for a request, the longest waiting first."""
    strangers: ClassVar[dict["TimedConnection", None]]
    """Connections on which nobody has shown a token, the oldest first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = h11.Connection(h11.SERVER, self.limits.head_bytes)
        self.timeout_keep_alive = self.limits.keep_alive_seconds
        self.logger = logging.getLogger(LOGGER)
        self.line: Line | None = None
        self._late: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._begun = False  # whether anything has come since the last request
        self._over = False
        self._upgraded = False

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take a connection, if need be in place of one that idles."""
        super().connection_made(transport)
        self.line = Line(transport.abort, self._known)
        self.app_state = {**self.app_state, "line": self.line}
        with suppress(OSError, AttributeError, TypeError):  # a peer that vanished is not waited for by the quarter hour
            transport.get_extra_info("socket").setsockopt(_TCP, _USER_TIMEOUT, int(self.limits.write_seconds * 2000))
        if not self._find_room():
            self._refuse(503, "TOO_MANY_CONNECTIONS", "too many connections are open.", "Try again in a moment.")
            return
        self.idle[self] = None
        self.strangers[self] = None
        self._expect()

    def _find_room(self) -> bool:
        """Strangers get half of all connections, and make way first, whatever they do; then whoever idles longest."""
        if len(self.strangers) >= self.limits.strangers:
            next(iter(self.strangers)).give_up()
        elif len(self.connections) > self.limits.connections:
            if self.strangers:
                next(iter(self.strangers)).give_up()
            elif self.idle:
                next(iter(self.idle)).make_way()
            else:
                return False
        return True

    def _known(self) -> None:
        self.strangers.pop(self, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything about it."""
        self._forget()
        self._known()
        self._cancel_stuck()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Take what came, and look whether it was enough."""
        if self._over:
            return
        self._begun = True
        super().data_received(data)
        if self._over or self._upgraded or self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE:
            self._expect()  # a timer that runs is left alone: a byte now and then buys no time
        elif self._nobody_reads():
            self._expect()
        else:
            self._forget()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over to the WebSocket, which has timers of its own.

        It still counts, and whoever is on it stays a stranger until the door knows them.
        """
        self._upgraded = True
        self._forget()
        self._cancel_stuck()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """An answer was given: wait for the next request, but not for ever."""
        self._begun = False
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_closing()
        elif self.conn.their_state is h11.IDLE:
            self.idle[self] = None
        elif self._nobody_reads():
            self._expect()

    def shutdown(self) -> None:
        """The server ends: what never ends by itself is told so."""
        if self.line is not None and self.line.on_shutdown is not None:
            self.line.on_shutdown()
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            self.transport.abort()
        self._watch_closing()

    def make_way(self) -> None:
        """End an idle connection for the sake of a new one."""
        self._too_late()

    def give_up(self) -> None:
        """End a stranger's connection, whatever it is doing."""
        self._known()
        if self in self.idle:
            self.make_way()
        else:
            self._over = True
            self._forget()
            self.transport.abort()

    # Requests that do not come

    def _nobody_reads(self) -> bool:
        """Whether a body is still coming that was answered already."""
        return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

    def _expect(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.limits.head_seconds, self._too_late)

    def _forget(self) -> None:
        self.idle.pop(self, None)
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        if self._begun and self.conn.our_state is h11.IDLE:
            self._refuse(408, "TOO_SLOW", "the request did not arrive in time.", "Send it without pauses.")
        else:
            self._close()

    def timeout_keep_alive_handler(self) -> None:
        """No further request came."""
        self._close()

    # Answers that are not taken

    def pause_writing(self) -> None:
        """More piles up than is taken: wait, for a while."""
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        """It was taken."""
        super().resume_writing()
        self._cancel_stuck()

    def _expect_taking(self) -> None:
        if self._stuck is None:
            self._stuck = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def _cancel_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _watch_closing(self) -> None:
        """Closing waits for the last bytes to be taken, and so would we."""
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self._expect_taking()

    # Ends

    def _close(self) -> None:
        self._over = True
        self._forget()
        self.transport.close()
        self._watch_closing()

    def _refuse(self, status: int, code: str, detail: str, remedy: str) -> None:
        """Say why and close; nothing of the request is answered any more."""
        body = msgspec.json.encode(problem(status, code, detail, remedy=remedy))
        told = problem(status, code, detail).title
        head = (
            f"HTTP/1.1 {status} {told}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
            f"cache-control: no-store\r\nx-content-type-options: nosniff\r\nretry-after: 5\r\nconnection: close\r\n\r\n"
        )
        if not self.transport.is_closing():
            self.transport.write(head.encode() + body)
        self._close()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP, or a head without end."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or (self.cycle and self.cycle.response_started):
            self._over = True
            self.transport.abort()  # an answer has begun already, so there is no room for another
        elif len(self.conn.trailing_data[0]) > self.limits.head_bytes:
            self._refuse(431, "HEAD_TOO_LARGE", "the request's head is too large.", "Send fewer or shorter headers.")
        else:
            self._refuse(400, "BAD_REQUEST", "this is not an HTTP request.", "Speak HTTP/1.1.")

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: whoever asks for it could fill the log."""


def patient(limits: Limits) -> type[TimedConnection]:
    """The connection class of one listener, with connections of its own to count."""

    class Limited(TimedConnection):
        idle: ClassVar[dict[TimedConnection, None]] = {}
        strangers: ClassVar[dict[TimedConnection, None]] = {}

    Limited.limits = limits
    # Only what is our fault: what clients do wrong would let them fill the log.
    logging.getLogger(LOGGER).setLevel(logging.ERROR)
    return Limited


def room_for(connections: int) -> int:
    """Have as many files allowed as that needs, as far as the system lets us; how many connections fit then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - _SPARE_FILES))
