"""The loopback listener that an OAuth redirect returns to: one accepted request, then it is closed.

It lives here because only this room and `sandbox` open sockets. Every program and every page on this machine can reach
it, so nothing but the right state ends the wait, and no answer repeats anything of a request.
"""

import asyncio
import re
from collections.abc import Callable
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from coilclaw.packets.errors import OAuthError

HOST: Final = "127.0.0.1"
PATH: Final = "/oauth/callback"
WAIT_SECONDS: Final = 300.0
HEAD_BYTES: Final = 16 << 10
MOST_WRONG: Final = 500
"""Wrong requests that are answered before the listener gives up: a flood must not go on for five minutes."""
MOST_OPEN: Final = 16
"""Connections at a time. The oldest makes way: a browser's request takes milliseconds, an idle one for ever."""
_REQUEST_SECONDS = 10.0
_LINE = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,8191}) HTTP/1\.[01]\Z")
_HEADERS = (
    "Content-Type: text/plain; charset=utf-8",
    "Cache-Control: no-store",
    "Referrer-Policy: no-referrer",
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options: nosniff",
    "Connection: close",
)
_DONE = "CoilClaw has the answer. You can close this page and go back to CoilClaw."
_WRONG = "This is not the answer CoilClaw is waiting for. It keeps waiting."

T = TypeVar("T")


class RedirectListener(Generic[T]):
    """Waits on 127.0.0.1 for the one redirect that `accept` recognises by its query. Use it as a context manager."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[object], asyncio.StreamWriter] = {}
        self._accept: Callable[[str], T | None] | None = None
        self._answer: asyncio.Future[T] | None = None
        self._wrong = 0
        self._port = 0

    @property
    def redirect_uri(self) -> str:
        """Where the authorization server sends the browser back to."""
        return f"http://{HOST}:{self._port}{PATH}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0, limit=HEAD_BYTES, backlog=MOST_OPEN)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        while left := [task for task in self._open if task is not asyncio.current_task()]:
            _, late = await asyncio.wait(left, timeout=0.25)  # the page that says so may still be on its way
            for task in late:
                task.cancel()

    async def wait(self, accept: Callable[[str], T | None], *, seconds: float = WAIT_SECONDS) -> T:
        """What `accept` makes of the first query it recognises; OAuthError when none came in time."""
        self._accept = accept
        self._answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                return await self._answer
        except TimeoutError:
            raise OAuthError(
                "Nobody answered in the browser in time.",
                code="TIMEOUT",
                remedy="Connect again; on a machine without a browser, use --paste.",
            ) from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 the server runs this in a task
        if len(self._open) >= MOST_OPEN:
            oldest = next(iter(self._open))
            self._open.pop(oldest).transport.abort()
            oldest.cancel()
        self._open[task] = writer
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._judge(head[:-4])
                writer.write(_page(status, text))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # cut off, too long, too slow, or this listener is closing: nothing was accepted and nothing waits
        finally:
            writer.transport.abort()
            self._open.pop(task, None)

    def _judge(self, head: bytes) -> tuple[str, str]:
        """Status and text for a request; the first one that is accepted ends the wait."""
        status, query = _query_of(head, f"{HOST}:{self._port}")
        waiting = self._answer is not None and not self._answer.done()
        answer = self._accept(query) if query is not None and waiting and self._accept is not None else None
        if answer is not None and self._answer is not None:
            self._answer.set_result(answer)
            return "200 OK", _DONE
        self._wrong += 1
        if self._wrong >= MOST_WRONG and self._answer is not None and not self._answer.done():
            self._answer.set_exception(
                OAuthError(
                    "Too many wrong requests came to the address CoilClaw was waiting on.",
                    code="FLOODED",
                    remedy="Close other pages and connect again, or use --paste.",
                )
            )
        return status, _WRONG


def _query_of(head: bytes, host: str) -> tuple[str, str | None]:
    """The query of a request to exactly our address, or the status that refuses it."""
    first, *lines = head.split(b"\r\n")
    line = _LINE.match(first)
    if not line:
        return "400 Bad Request", None
    fields = [name_value.partition(b":") for name_value in lines]
    hosts = [value.strip() for name, _, value in fields if name.lower() == b"host"]
    if hosts != [host.encode()]:  # a name that was rebound to this machine
        return "421 Misdirected Request", None
    if line[1] != b"GET":
        return "405 Method Not Allowed", None
    path, mark, query = line[2].decode("ascii").partition("?")
    if path != PATH:
        return "404 Not Found", None
    return "400 Bad Request", query if mark else ""


def _page(status: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    return "\r\n".join((f"HTTP/1.1 {status}", *_HEADERS, f"Content-Length: {len(body)}", "", "")).encode() + body
