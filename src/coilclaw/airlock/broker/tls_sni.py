"""Reads the server name from a TLS client's first message, passively. Pure."""

from typing import Final

from coilclaw.airlock.url import Refusal

HELLO_BYTES: Final = 32 << 10
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D
_RECORD_BYTES = 1 << 14


class _Short(Exception):
    """The bytes end before their announced length."""


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise _Short
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> "_Cursor":
        return _Cursor(self.take(self.number(size)))

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    @property
    def done(self) -> bool:
        return self._at == len(self._data)


def server_name(data: bytes) -> str | Refusal | None:
    """The server name in a ClientHello, why there is none, or None while more bytes are needed."""
    message = _message(data)
    if isinstance(message, Refusal) or message is None:
        return message
    try:
        return _named(_Cursor(message))
    except (_Short, UnicodeDecodeError):
        return Refusal("NOT_TLS", "the first message is not a TLS ClientHello")


def _message(data: bytes) -> bytes | Refusal | None:
    """The ClientHello, reassembled from its records."""
    records, message = _Cursor(data), b""
    try:
        while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
            kind, major, _, size = records.number(1), records.number(1), records.number(1), records.number(2)
            if kind != _HANDSHAKE or major != 3 or not 0 < size <= _RECORD_BYTES:
                return Refusal("NOT_TLS", "only TLS is allowed through a CONNECT")
            message += records.take(size)
            if message[0] != _CLIENT_HELLO:
                return Refusal("NOT_TLS", "the first message is not a TLS ClientHello")
    except _Short:
        if data[:1] not in (b"", bytes([_HANDSHAKE])):
            return Refusal("NOT_TLS", "only TLS is allowed through a CONNECT")
        return None if len(data) < HELLO_BYTES else Refusal("NOT_TLS", "the TLS ClientHello is too long")
    return message[4 : 4 + int.from_bytes(message[1:4], "big")]


def _named(hello: _Cursor) -> str | Refusal:
    hello.take(2 + 32)  # version and random
    for size in (1, 2, 1):  # session, cipher suites, compression
        hello.vector(size)
    if hello.done:
        return Refusal("NO_SNI", "the TLS ClientHello names no server")
    extensions, seen = hello.vector(2), dict[int, _Cursor]()
    while not extensions.done:
        kind = extensions.number(2)
        if kind in seen:
            return Refusal("NOT_TLS", "the TLS ClientHello repeats an extension")
        seen[kind] = extensions.vector(2)
    if not hello.done:
        raise _Short
    if _ENCRYPTED_HELLO in seen:
        return Refusal("ENCRYPTED_SNI", "the TLS ClientHello hides its server name; turn encrypted hello off")
    if _SERVER_NAME not in seen:
        return Refusal("NO_SNI", "the TLS ClientHello names no server")
    names = seen[_SERVER_NAME].vector(2)
    if names.number(1) != 0:
        return Refusal("NO_SNI", "the TLS ClientHello names no server")
    name = names.vector(2)
    if not names.done or not seen[_SERVER_NAME].done:
        return Refusal("NO_SNI", "the TLS ClientHello names more than one server")
    return name.rest().decode("ascii").lower()
