"""Strict HTTP/1.1 from a box: what two programs could read differently is refused. No byte of a head is passed on."""

import asyncio
import re
from typing import Final

import msgspec

HEAD_BYTES: Final = 32 << 10
BODY_BYTES: Final = 32 << 20
HEAD_SECONDS: Final = 30.0
BODY_SECONDS: Final = 120.0
"""For all of a body: a slow one holds a connection of its own session, and no longer than this."""
_IDLE_SECONDS: Final = 600.0
"""A connection may wait so long for its next request."""
_HEADERS: Final = 100
_CHUNKS: Final = 4096
_READ: Final = 1 << 16
_AHEAD: Final = 64 << 10
"""How much of the next request is read while an answer streams."""
_LINE = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,2048}) HTTP/1\.1\Z")
_FIELD = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}):[\t ]*((?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?)[\t ]*\Z"
)
_LENGTH = re.compile(r"[0-9]{1,9}\Z")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n\Z")
_BODILESS: Final = frozenset({"GET", "HEAD"})


class BadHttp(Exception):
    """A request that is refused before anything is done for it."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.reason = reason


class BoxRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The head of one request."""

    method: str
    target: str
    """Path and query, as they came."""
    headers: tuple[tuple[str, str], ...]
    """Names in lower case."""
    length: int | None
    """Of the body; None when it comes in chunks."""

    def header(self, name: str) -> str:
        """The value of a header, or nothing; of two of them nothing too."""
        found = [value for key, value in self.headers if key == name]
        return found[0] if len(found) == 1 else ""

    @property
    def keeps(self) -> bool:
        """Whether its connection stays open."""
        return "close" not in self.header("connection").lower()


def read_request(head: bytes, port: int) -> BoxRequest:
    """Parse a head, without its final empty line; raises BadHttp."""
    first, *lines = head.split(b"\r\n")
    line = _LINE.match(first)
    if not line:
        raise BadHttp(400, "BAD_REQUEST", "this is not an HTTP/1.1 request for a path")
    if len(lines) > _HEADERS:
        raise BadHttp(431, "HEADERS", f"a request has at most {_HEADERS} headers")
    fields = tuple(_field(each) for each in lines)
    hosts = [value.lower() for name, value in fields if name == "host"]
    if hosts not in ([f"127.0.0.1:{port}"], [f"localhost:{port}"]):
        raise BadHttp(421, "HOST", f"only 127.0.0.1:{port} is served here")
    method = line[1].decode()
    return BoxRequest(method=method, target=line[2].decode(), headers=fields, length=_framing(method, fields))


def _field(line: bytes) -> tuple[str, str]:
    found = _FIELD.match(line)
    if not found:
        raise BadHttp(400, "BAD_REQUEST", "a header is malformed")
    return found[1].decode().lower(), found[2].decode("latin-1")


def _framing(method: str, fields: tuple[tuple[str, str], ...]) -> int | None:
    """One framing, said once: two could hide a second request in a body."""
    lengths = [value for name, value in fields if name == "content-length"]
    codings = [value for name, value in fields if name == "transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise BadHttp(400, "FRAMING", "a request says the length of its body once")
    if any(name == "content-encoding" for name, _ in fields):
        raise BadHttp(415, "ENCODING", "a body must not be compressed")
    if codings:
        if codings[0].lower() != "chunked" or method in _BODILESS:
            raise BadHttp(400, "FRAMING", "only `chunked` is known, and only for a body")
        return None
    if lengths and not _LENGTH.match(lengths[0]):
        raise BadHttp(400, "FRAMING", "Content-Length is not a plain number")
    length = int(lengths[0]) if lengths else 0
    if length and method in _BODILESS:
        raise BadHttp(400, "FRAMING", f"{method} has no body")
    if length > BODY_BYTES:
        raise BadHttp(413, "TOO_LARGE", f"a body has at most {BODY_BYTES} bytes")
    return length


class BoxClient:
    """One connection from a box."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self._reader = reader
        self._writer = writer
        self._port = port
        self._buffer = bytearray()
        self.begun = False
        """Whether an answer is on its way, so that no other one can begin."""

    async def request(self) -> BoxRequest | None:
        """The next request; None when there is none any more."""
        try:
            if not self._buffer:
                async with asyncio.timeout(_IDLE_SECONDS):
                    if not await self._fill():
                        return None
            async with asyncio.timeout(HEAD_SECONDS):
                while b"\r\n\r\n" not in self._buffer:
                    if len(self._buffer) > HEAD_BYTES:
                        raise BadHttp(431, "HEADERS", f"a head has at most {HEAD_BYTES} bytes")
                    if not await self._fill():
                        return None
        except TimeoutError:
            return None
        head = self._take(self._buffer.index(b"\r\n\r\n") + 4)[:-4]
        if len(head) > HEAD_BYTES:
            raise BadHttp(431, "HEADERS", f"a head has at most {HEAD_BYTES} bytes")
        return read_request(head, self._port)

    async def body(self, request: BoxRequest) -> bytes:
        """The whole body; raises BadHttp if it is too large, malformed, or does not come in time."""
        if request.length == 0:
            return b""
        expected = request.header("expect").lower()
        if expected and expected != "100-continue":
            raise BadHttp(417, "EXPECT", "only 100-continue is known")
        if expected:
            await self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await (self._chunked() if request.length is None else self._exactly(request.length))
        except TimeoutError:
            raise BadHttp(408, "TIMEOUT", "the body did not come in time") from None

    async def gone(self) -> None:
        """Return when the box has hung up, or sends so much that it cannot be asking in turn."""
        while len(self._buffer) < _AHEAD:
            if not await self._fill():
                return

    async def write(self, data: bytes) -> None:
        """Send bytes, waiting for a reader that is slow."""
        self.post(data)
        await self.drained()

    def post(self, data: bytes) -> None:
        """Send bytes without waiting; nobody is there to miss them once the connection is closed."""
        if not self._writer.transport.is_closing():
            self._writer.write(data)

    async def drained(self) -> None:
        """Wait for a reader that is slow."""
        if self._writer.transport.get_write_buffer_size() > _READ or self._writer.transport.is_closing():
            async with asyncio.timeout(_IDLE_SECONDS):
                await self._writer.drain()

    async def ended(self) -> None:
        """Say that nothing follows: closing with unread bytes would reset the connection and lose the answer."""
        async with asyncio.timeout(1):
            await self._writer.drain()
            self._writer.write_eof()
            while await self._reader.read(_READ):
                pass

    def abort(self) -> None:
        """Cut the connection, so that what was sent cannot be taken for a whole answer."""
        self._writer.transport.abort()

    async def _fill(self) -> bool:
        data = await self._reader.read(_READ)
        self._buffer += data
        return bool(data)

    def _take(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not await self._fill():
                raise BadHttp(400, "BROKEN", "the body broke off")
        return self._take(size)

    async def _chunked(self) -> bytes:
        body, chunks = bytearray(), 0
        while True:
            found, chunks = _CHUNK.match(await self._line()), chunks + 1
            # Tiny chunks cost the server far more than the box: no honest program sends a book letter by letter.
            if not found or chunks > _CHUNKS + len(body) // 64:
                raise BadHttp(400, "FRAMING", "a chunk is malformed, or there are too many")
            size = int(found[1], 16)
            if len(body) + size > BODY_BYTES:
                raise BadHttp(413, "TOO_LARGE", f"a body has at most {BODY_BYTES} bytes")
            data = await self._exactly(size + 2)
            if not data.endswith(b"\r\n"):
                raise BadHttp(400, "FRAMING", "a chunk is malformed, or the body has trailers")
            if size == 0:
                return bytes(body)
            body += data[:-2]

    async def _line(self) -> bytes:
        while (end := self._buffer.find(b"\n", 0, 64)) < 0:
            if len(self._buffer) >= 64:
                raise BadHttp(400, "FRAMING", "a chunk is malformed")
            if not await self._fill():
                raise BadHttp(400, "BROKEN", "the body broke off")
        return self._take(end + 1)
