"""Decodes a body incrementally under a limit: a bomb is stopped at the first excess byte, not after unpacking."""

import zlib
from collections.abc import Iterator

ACCEPT_ENCODING = "gzip, deflate"
_PIECE = 1 << 16
_GZIP, _ZLIB, _RAW = 31, 15, -15
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}
_MAX_MEMBERS = 64


class BadBody(Exception):
    """The body contradicts its headers."""


class OverCap(Exception):
    """The body is larger than the request allows."""


class Decoder:
    """Decodes received chunks; neither the raw nor the decoded size may exceed `max_bytes`."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", *_WINDOWS):
            raise BadBody(f"the body is encoded as {self._encoding[:40]!r}, which was not requested")
        window = _WINDOWS.get(self._encoding)
        self._inflate = None if window is None else zlib.decompressobj(window)
        self._max = max_bytes
        self._received = 0
        self._decoded = 0
        self._members = 1

    def expect(self, length: str) -> None:
        """Refuse a body that announces an excessive size before reading it."""
        if length.isdigit() and (len(length) > 18 or int(length) > self._max):
            raise OverCap

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decoded chunks of one received chunk; raises OverCap or BadBody."""
        first = self._received == 0
        self._received += len(data)
        if self._received > self._max:
            raise OverCap
        if self._inflate is None:
            yield from self._counted(data)
            return
        more = bool(data)
        while more:
            if self._inflate.eof and not self._next_member(data):
                return  # padding or garbage after the end is not part of the body
            piece, data = self._inflated(data, first)
            first = False
            more = bool(data) or len(piece) == _PIECE  # a full chunk may leave output pending
            yield from self._counted(piece)

    def finish(self) -> None:
        """At the end of the message a compressed body must have ended too."""
        if self._inflate is not None and self._received and not self._inflate.eof:
            raise BadBody("the compressed body is truncated")

    def _inflated(self, data: bytes, first: bool) -> tuple[bytes, bytes]:
        assert self._inflate is not None  # noqa: S101 feed() returned before otherwise
        try:
            piece = self._inflate.decompress(data, _PIECE)
        except zlib.error as error:
            if not (first and self._encoding == "deflate"):
                raise BadBody("the compressed body is corrupt") from error
            self._inflate = zlib.decompressobj(_RAW)  # some servers send raw deflate
            return self._inflated(data, first=False)
        return piece, self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail

    def _next_member(self, data: bytes) -> bool:
        """gzip may consist of several streams; their number is limited."""
        if self._encoding == "deflate" or not data.startswith(b"\x1f"):
            return False
        self._members += 1
        if self._members > _MAX_MEMBERS:
            raise BadBody("the compressed body has too many parts")
        self._inflate = zlib.decompressobj(_GZIP)
        return True

    def _counted(self, data: bytes) -> Iterator[bytes]:
        self._decoded += len(data)
        if self._decoded > self._max:
            raise OverCap
        if data:
            yield data
