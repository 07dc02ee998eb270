"""The broker: the proxy at the only address that a box with granted domains can reach. The airlock's judge decides.

One broker serves one run of one box: its listener, created inside the box's network namespace, identifies the box, and
its allowlist is fixed when the box starts. It never terminates TLS: a CONNECT carries TLS that names exactly the server
that was allowed.
"""

import asyncio
import contextlib
import hashlib
from typing import Final, Literal, TypeAlias

from coilclaw.airlock.broker.proxy_request import END, HEAD_BYTES, HOP_BY_HOP, Asked, read_head
from coilclaw.airlock.broker.tls_sni import server_name
from coilclaw.airlock.http import Wire
from coilclaw.airlock.judge import judge_target
from coilclaw.airlock.transport import Airlock
from coilclaw.airlock.url import Refusal, Target, parse_url
from coilclaw.lib.streams import READ, hang_up
from coilclaw.packets.box import BrokerLimits
from coilclaw.packets.errors import EgressRefused, TransportError

Streams: TypeAlias = "tuple[asyncio.StreamReader, asyncio.StreamWriter]"

_LINGER_SECONDS = 1.0
_UNRECOGNIZED_NAME: Final = b"\x15\x03\x03\x00\x02\x02\x70"
"""The TLS alert for a name that is not served here, so that the client can say why it ended."""
_STATUS: Final = {
    400: "Bad Request", 403: "Forbidden", 413: "Content Too Large", 429: "Too Many Requests", 502: "Bad Gateway",
    504: "Gateway Timeout",
}  # fmt: skip
_MALFORMED: Final = frozenset({"BAD_REQUEST", "FRAMING", "HOST_HEADER", "PIPELINED", "TIMEOUT", "METHOD", "BROKEN"})


class _Refused(Exception):
    """A refused request: a status, a code for the log and one line for the box."""

    def __init__(self, code: str, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.status = status or (400 if code in _MALFORMED else 403)


class _Counted:
    """The result of one request."""

    def __init__(self) -> None:
        self.target: Target | None = None
        self.code = "CANCELLED"
        self.verdict: Literal["pass", "block"] = "pass"
        self.status = 0
        self.size = 0
        self.hash = hashlib.sha256()


class Broker:
    """Serves one box for one run."""

    def __init__(self, airlock: Airlock, domains: tuple[str, ...], limits: BrokerLimits) -> None:
        self._airlock = airlock.narrowed(domains)
        self._limits = limits
        self._in = self._limits.bytes_in
        self._out = self._limits.bytes_out
        self._requests = self._limits.requests

    async def serve(self, _port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection from the box."""
        counted = _Counted()
        deadline = asyncio.get_running_loop().time() + self._limits.request_seconds
        try:
            await self._answer(reader, writer, counted, deadline)
        finally:
            sha256 = counted.hash.hexdigest() if counted.size else ""
            self._airlock.note(
                "box", counted.target, counted.verdict, counted.code, status=counted.status, size=counted.size,
                sha256=sha256,
            )  # fmt: skip

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counted: _Counted, deadline: float
    ) -> None:
        """Handle one request, whatever its outcome."""
        try:
            asked, body = await self._read(reader)
            if asked.method == "CONNECT":
                await self._tunnel(asked, (reader, writer), counted, deadline)
            else:
                await self._forward(asked, body, writer, counted, deadline)
        except _Refused as refused:
            counted.code, counted.verdict = refused.code, "pass" if refused.code == "CAPPED" else "block"
            await self._say((reader, writer), refused.status, f"{refused.code}: {refused.reason}", counted)
        except EgressRefused as error:
            counted.code, counted.verdict = error.code, "block"
            await self._say((reader, writer), 403, f"{error.code}: {error.message}", counted)
        except TransportError as error:
            counted.code = "TIMEOUT" if error.timeout else "BROKEN" if error.sent else "NO_CONNECTION"
            await self._say((reader, writer), 504 if error.timeout else 502, error.message, counted)
        except TimeoutError:
            counted.code = "TIMEOUT"
        except OSError:
            counted.code = "BROKEN"

    async def _say(self, client: Streams, status: int, reason: str, counted: _Counted) -> None:
        """Our own response, unless another one has started."""
        if counted.status:
            return
        reader, writer = client
        counted.status = status
        text = reason.splitlines()[0][:400].encode("ascii", "replace") + b"\n"
        head = (
            f"HTTP/1.1 {status} {_STATUS[status]}\r\ncontent-type: text/plain\r\n"
            f"content-length: {len(text)}\r\nconnection: close\r\n\r\n"
        )
        writer.write(head.encode("ascii") + text)
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_LINGER_SECONDS):
                await writer.drain()
                writer.write_eof()
                while await reader.read(
                    READ
                ):  # closing with unread bytes would reset the connection and lose the response
                    pass

    # -- the request

    async def _read(self, reader: asyncio.StreamReader) -> tuple[Asked, bytes]:
        """The whole request, parsed strictly; nothing may follow it."""
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                data = b""
                while END not in data:
                    if len(data) > HEAD_BYTES:
                        raise _Refused("BAD_REQUEST", f"a request head has at most {HEAD_BYTES} bytes")
                    data += await self._more(reader)
                head, _, body = data.partition(END)
                asked = read_head(head)
                if isinstance(asked, Refusal):
                    raise _Refused(asked.code, asked.reason)
                if asked.length > min(self._limits.body_bytes, self._out):
                    raise _Refused("TOO_LARGE", "the body is larger than this box may send", 413)
                while len(body) < asked.length:
                    body += await self._more(reader)
        except TimeoutError:
            raise _Refused("TIMEOUT", "the request did not arrive in time") from None
        if len(body) > asked.length:
            raise _Refused("PIPELINED", "only one request per connection is allowed")
        self._requests -= 1
        if self._requests < 0:
            raise _Refused("TOO_MANY", f"a box makes at most {self._limits.requests} requests", 429)
        return asked, body

    async def _more(self, reader: asyncio.StreamReader) -> bytes:
        data = await reader.read(READ)
        if not data:
            raise _Refused("BROKEN", "the request is incomplete")
        return data

    def _decide(self, asked: Asked, counted: _Counted) -> Target:
        """Ask the airlock's judge, before any name is looked up."""
        target = parse_url(asked.url)
        if isinstance(target, Refusal):
            raise _Refused(target.code, target.reason)
        counted.target = target
        if asked.method == "CONNECT" and target.kind != "name":
            raise _Refused("IP_LITERAL", "a CONNECT goes to a name, not to an address")
        if not asked.hosts <= {target.authority, f"{target.host}:{target.port}"}:
            raise _Refused("HOST_HEADER", "the Host header names a different host than the request")
        judged = judge_target(target, "box", self._airlock.listing)
        if isinstance(judged, Refusal):
            raise _Refused(judged.code, judged.reason)
        return judged

    # -- plain http

    async def _forward(
        self, asked: Asked, body: bytes, writer: asyncio.StreamWriter, counted: _Counted, deadline: float
    ) -> None:
        target = self._decide(asked, counted)
        streams = await self._airlock.connect(target, deadline, tls=False)
        wire = Wire(target, streams, deadline=deadline, read_seconds=self._limits.idle_seconds, max_bytes=self._in)
        try:
            headers = [("host", target.authority), ("connection", "close"), *asked.headers]
            if asked.method == "POST":
                headers.append(("content-length", str(len(body))))
            self._out -= len(body)
            await wire.send(asked.method, headers, body)
            status, answered = await wire.head()
            counted.status = status
            lines = [f"HTTP/1.1 {status} ", *(f"{n}: {v}" for n, v in _kept(answered)), "connection: close"]
            writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))
            async for piece in wire.body():
                await self._deliver(piece, writer, counted, deadline)
            await self._drained(writer, deadline)
            counted.code = "OK"
        finally:
            await wire.close()

    # -- a tunnel

    async def _tunnel(self, asked: Asked, client: Streams, counted: _Counted, deadline: float) -> None:
        target = self._decide(asked, counted)
        server = await self._airlock.connect(target, deadline, tls=False)
        try:
            client[1].write(b"HTTP/1.1 200 Connected\r\n\r\n")
            counted.status = 200
            hello = await self._hello(client, target)
            await self._splice(hello, client, server, counted, deadline)
        finally:
            await hang_up(server[1])

    async def _hello(self, client: Streams, target: Target) -> bytes:
        """The TLS ClientHello, after checking that it names the server of the CONNECT."""
        data = b""
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                while (name := server_name(data)) is None:
                    data += await self._more(client[0])
        except TimeoutError:
            raise _Refused("TIMEOUT", "no TLS ClientHello arrived in time") from None
        if isinstance(name, Refusal) or name != target.host:
            client[1].write(_UNRECOGNIZED_NAME)
            fault = name if isinstance(name, Refusal) else Refusal("SNI_MISMATCH", "TLS names a different server")
            raise _Refused(fault.code, fault.reason)
        return data

    async def _splice(self, hello: bytes, client: Streams, server: Streams, counted: _Counted, deadline: float) -> None:
        """Relay bytes in both directions until the server closes, a limit is reached, or the connection is idle."""

        async def outwards() -> None:
            data = hello
            while data:
                self._out -= len(data)
                if self._out < 0:
                    raise _Refused("CAPPED", "this box may send no more")
                server[1].write(data)
                await self._drained(server[1], deadline)
                data = await self._heard(client[0], deadline)
            with contextlib.suppress(OSError):
                server[1].write_eof()

        async def inwards() -> None:
            while data := await self._heard(server[0], deadline):
                await self._deliver(data, client[1], counted, deadline)

        sending = asyncio.ensure_future(outwards())
        receiving = asyncio.ensure_future(inwards())
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and sending.exception() is None:
                await asyncio.wait({receiving})  # the client has finished sending; the response may still arrive
        finally:
            for task in (sending, receiving):
                task.cancel()
            ended = await asyncio.gather(sending, receiving, return_exceptions=True)
        for end in ended:
            if isinstance(end, _Refused):
                counted.code = end.code
                return
            if isinstance(end, TimeoutError):
                counted.code = "TIMEOUT"
                return
        counted.code = "OK"

    # -- limits

    async def _heard(self, reader: asyncio.StreamReader, deadline: float) -> bytes:
        async with asyncio.timeout_at(min(deadline, asyncio.get_running_loop().time() + self._limits.idle_seconds)):
            return await reader.read(READ)

    async def _drained(self, writer: asyncio.StreamWriter, deadline: float) -> None:
        async with asyncio.timeout_at(min(deadline, asyncio.get_running_loop().time() + self._limits.idle_seconds)):
            await writer.drain()

    async def _deliver(
        self, data: bytes, writer: asyncio.StreamWriter, counted: _Counted, deadline: float
    ) -> None:  # fmt: skip
        """Send bytes to the box, counted against its total limit."""
        if len(data) > self._in:
            raise _Refused("CAPPED", "this box may receive no more")
        self._in -= len(data)
        counted.size += len(data)
        counted.hash.update(data)
        writer.write(data)
        await self._drained(writer, deadline)


def _kept(headers: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    named = {part.strip().lower() for name, value in headers if name == "connection" for part in value.split(",")}
    return [(n, v) for n, v in headers if n not in HOP_BY_HOP | named and not n.startswith("proxy-")]
