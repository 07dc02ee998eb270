"""Slow clients: slow connections are closed, so that they cannot keep others out.

Plug it in with `uvicorn.Config(..., http=patient(Limits()))`. A request's head must come within seconds,
however slowly it trickles; so must the rest of a body that was already answered; a client that does not read is
dropped. When all connections are in use, the longest idle one yields to a new one; new ones are accepted a
few at a time (`Limits.at_once`), so that a connection's request is read before it could yield to a later one. How
long the body of a running request may take is up to the door.
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

_TCP, _USER_TIMEOUT = 6, 18  # Linux constants; only the sandbox may import the module that names them
LOGGER = "coilclaw.http"
_SPARE_FILES = 200
"""Descriptors reserved for everything else: the database, locks, boxes, providers."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts and limits of connections."""

    head_seconds: float = 10.0
    """For a complete request head, from the connection's start or its first byte."""
    keep_alive_seconds: float = 75.0
    """For the next request to start (keep-alive)."""
    write_seconds: float = 30.0
    """For a client to read its backlog."""
    connections: int = 2500
    head_bytes: int = 16 << 10

    @property
    def strangers(self) -> int:
        """Maximum number of connections without a token."""
        return max(self.connections // 2, 1)

    @property
    def at_once(self) -> int:
        """How many connections are accepted per event loop round: few enough that a request that arrives with its
        connection is read, and its token checked, long before that connection is the oldest."""
        return max(1, min(64, self.strangers // 8))


class Line:
    """A connection as a response sees it: `scope["state"]["line"]`."""

    def __init__(self, abort: Callable[[], None], known: Callable[[], None]) -> None:
        self.on_shutdown: Callable[[], None] | None = None
        """Called when the server stops during a response, so that an endless one can end too."""
        self.abort = abort
        self.known = known
        """Call this once the client has shown a token: it then yields to no stranger."""


class TimedConnection(H11Protocol):
    """uvicorn's HTTP connection with timeouts."""

    limits: ClassVar[Limits] = Limits()
    idle: ClassVar[dict["TimedConnection", None]]
    """Idle connections, longest idle first."""
    strangers: ClassVar[dict["TimedConnection", None]]
    """Connections without a token, oldest first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = h11.Connection(h11.SERVER, self.limits.head_bytes)
        self.timeout_keep_alive = self.limits.keep_alive_seconds
        self.logger = logging.getLogger(LOGGER)
        self.line: Line | None = None
        self._late: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._begun = False  # whether anything arrived since the last request
        self._over = False
        self._upgraded = False

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Accept a connection, if necessary in place of an idle one."""
        super().connection_made(transport)
        self.line = Line(transport.abort, self._known)
        self.app_state = {**self.app_state, "line": self.line}
        with suppress(OSError, AttributeError, TypeError):  # do not wait a quarter of an hour for a vanished peer
            transport.get_extra_info("socket").setsockopt(_TCP, _USER_TIMEOUT, int(self.limits.write_seconds * 2000))
        if not self._find_room():
            self._refuse(503, "TOO_MANY_CONNECTIONS", "too many connections are open.", "Try again in a moment.")
            return
        self.idle[self] = None
        self.strangers[self] = None
        self._expect()

    def _find_room(self) -> bool:
        """Strangers get half of all connections, and yield first, whatever they do; then the longest idle one."""
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
        """Remove the connection's state."""
        self._forget()
        self._known()
        self._cancel_stuck()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Handle received data, and check whether the head is complete."""
        if self._over:
            return
        self._begun = True
        super().data_received(data)
        if self._over or self._upgraded or self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE:
            self._expect()  # a running timer is not reset: an occasional byte buys no time
        elif self._nobody_reads():
            self._expect()
        else:
            self._forget()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand over to the WebSocket, which has its own timers.

        It still counts, and stays a stranger until the door admits it.
        """
        self._upgraded = True
        self._forget()
        self._cancel_stuck()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """The response is complete: wait for the next request, with a timeout."""
        self._begun = False
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_closing()
        elif self.conn.their_state is h11.IDLE:
            self.idle[self] = None
        elif self._nobody_reads():
            self._expect()

    def shutdown(self) -> None:
        """The server stops: notify endless responses."""
        if self.line is not None and self.line.on_shutdown is not None:
            self.line.on_shutdown()
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            self.transport.abort()
        self._watch_closing()

    def make_way(self) -> None:
        """Close an idle connection in favour of a new one."""
        self._too_late()

    def give_up(self) -> None:
        """Close a stranger's connection, whatever it is doing."""
        self._known()
        if self in self.idle:
            self.make_way()
        else:
            self._over = True
            self._forget()
            self.transport.abort()

    # Missing requests

    def _nobody_reads(self) -> bool:
        """Whether an already answered body is still arriving."""
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

    # Unread responses

    def pause_writing(self) -> None:
        """The client reads too slowly: start the timer."""
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        """The client caught up."""
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
        """Closing waits for the last bytes to be read; limit that."""
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self._expect_taking()

    # Refusals

    def _close(self) -> None:
        self._over = True
        self._forget()
        self.transport.close()
        self._watch_closing()

    def _refuse(self, status: int, code: str, detail: str, remedy: str) -> None:
        """Send the reason and close, without handling the request."""
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
        """The input is not HTTP, or its head is endless."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or (self.cycle and self.cycle.response_started):
            self._over = True
            self.transport.abort()  # a response has already started
        elif len(self.conn.trailing_data[0]) > self.limits.head_bytes:
            self._refuse(431, "HEAD_TOO_LARGE", "the request's head is too large.", "Send fewer or shorter headers.")
        else:
            self._refuse(400, "BAD_REQUEST", "this is not an HTTP request.", "Speak HTTP/1.1.")

    def _unsupported_upgrade_warning(self) -> None:
        """Ignored: clients could fill the log."""


def patient(limits: Limits) -> type[TimedConnection]:
    """The connection class of one listener, with its own counters."""

    class Limited(TimedConnection):
        idle: ClassVar[dict[TimedConnection, None]] = {}
        strangers: ClassVar[dict[TimedConnection, None]] = {}

    Limited.limits = limits
    # Only our own faults: logging clients' faults would let them fill the log.
    logging.getLogger(LOGGER).setLevel(logging.ERROR)
    return Limited


def room_for(connections: int) -> int:
    """Raise the limit of open files as far as the system allows; returns how many connections fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - _SPARE_FILES))
