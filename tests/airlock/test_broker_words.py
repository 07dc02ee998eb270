"""What the broker reads, read on its own: request heads and the first message of TLS, whole, in pieces and made up."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.airlock.broker.proxy_request import Asked, read_head
from coilclaw.airlock.broker.tls_sni import HELLO_BYTES, server_name
from coilclaw.airlock.url import Refusal


def hello(name: str | None) -> bytes:
    """The first bytes a real TLS client sends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def extended(*extensions: tuple[int, bytes]) -> bytes:
    """A hello with exactly these extensions."""
    body = b"".join(kind.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data for kind, data in extensions)
    inner = b"\x03\x03" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + len(body).to_bytes(2, "big") + body
    message = b"\1" + len(inner).to_bytes(3, "big") + inner
    return b"\x16\x03\1" + len(message).to_bytes(2, "big") + message


def named(*names: bytes, kind: int = 0) -> tuple[int, bytes]:
    """A server_name extension."""
    listed = b"".join(bytes([kind]) + len(name).to_bytes(2, "big") + name for name in names)
    return 0, len(listed).to_bytes(2, "big") + listed


def code(read: object) -> str:
    assert isinstance(read, Refusal), read
    return read.code


def test_the_name_in_a_real_clients_hello_is_found_however_it_is_cut() -> None:
    data = hello("Files.Example.org")
    assert server_name(data) == "files.example.org"
    assert all(server_name(data[:cut]) is None for cut in range(len(data)))
    assert code(server_name(hello(None))) == "NO_SNI"


def test_a_hello_spread_over_several_records_is_put_together() -> None:
    message = hello("files.test")[5:]
    for size in (1, 7, 100):
        pieces = [message[at : at + size] for at in range(0, len(message), size)]
        data = b"".join(b"\x16\x03\1" + len(piece).to_bytes(2, "big") + piece for piece in pieces)
        assert server_name(data) == "files.test"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (extended(named(b"a.test")), "a.test"),
        (extended(), "NO_SNI"),
        (extended(named(b"a.test", b"b.test")), "NO_SNI"),
        (extended(named(b"a.test", kind=1)), "NO_SNI"),
        (extended(named(b"a.test"), named(b"b.test")), "NOT_TLS"),
        (extended(named(b"a.test"), (0xFE0D, b"\0")), "ENCRYPTED_SNI"),
        (extended((0, b"")), "NOT_TLS"),
        (extended((0, b"\0\x20\0\0\1a")), "NOT_TLS"),
        (extended(named(b"\xe4.test")), "NOT_TLS"),
        (b"\x16\x03\1\0\0", "NOT_TLS"),
        (b"\x16\x02\1\0\5hello", "NOT_TLS"),
        (b"\x17\x03\3\0\1x", "NOT_TLS"),
        (b"\x80\x2e\1\3\1", "NOT_TLS"),
        (b"G", "NOT_TLS"),
        (b"\x16\x03\1\0\4\2\0\0\0", "NOT_TLS"),
        (b"\x16\x03\1\x40\0\1\xff\xff\xff" + bytes(HELLO_BYTES), "NOT_TLS"),
    ],
)
def test_only_one_readable_name_counts(data: bytes, expected: str) -> None:
    read = server_name(data)
    assert (read.code if isinstance(read, Refusal) else read) == expected


def test_a_name_with_anything_odd_in_it_is_never_a_host_that_was_decided_on() -> None:
    for odd in (b"a.test\0", b"a.test.", b"a.test\n", b" a.test"):
        assert server_name(extended(named(odd))) != "a.test"


@given(st.binary(max_size=400))
def test_no_bytes_break_the_reader_of_hellos(data: bytes) -> None:
    for whole in (data, b"\x16\x03\1" + len(data).to_bytes(2, "big") + data):
        assert server_name(whole) is None or isinstance(server_name(whole), str | Refusal)


@given(st.binary(max_size=300), st.integers(0, 299))
def test_a_damaged_hello_names_nobody_else(data: bytes, at: int) -> None:
    real = extended(named(b"a.test"))
    read = server_name(real[:at] + data + real[at + len(data) :])
    assert read is None or isinstance(read, str | Refusal)


def test_a_connect_is_read_as_the_https_address_it_stands_for() -> None:
    read = read_head(b"CONNECT Files.Test:443 HTTP/1.0")
    assert isinstance(read, Asked)
    assert (read.method, read.url, read.hosts, read.length) == ("CONNECT", "https://files.test:443/", frozenset(), 0)


def test_only_what_belongs_to_the_server_is_passed_on() -> None:
    head = (
        b"POST http://a.test:8080/x?y=1 HTTP/1.1\r\nHost: A.test:8080\r\nContent-Length: 3\r\n"
        b"Connection: close, X-One\r\nX-One: 1\r\nKeep-Alive: 5\r\n"
        b"Proxy-Connection: x\r\nProxy-Authorization: secret\r\nTE: trailers\r\n"
        b"Upgrade: websocket\r\nExpect: 100-continue\r\nAccept:  */* \r\nX-Empty:"
    )
    read = read_head(head)
    assert isinstance(read, Asked)
    assert read.headers == (("accept", "*/*"), ("x-empty", ""))
    assert (read.url, read.hosts, read.length) == ("http://a.test:8080/x?y=1", frozenset({"a.test:8080"}), 3)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"", "BAD_REQUEST"),
        (b"GET http://a.test/", "BAD_REQUEST"),
        (b"GET http://a.test/ HTTP/2.0", "BAD_REQUEST"),
        (b"GET http://a.test/ HTTP/1.1 ", "BAD_REQUEST"),
        (b"get http://a.test/ HTTP/1.1\r\nHost: a.test", "BAD_REQUEST"),
        (b"GET http://a.test/\x00 HTTP/1.1\r\nHost: a.test", "BAD_REQUEST"),
        (b"GET http://a.test/\xc3\xa4 HTTP/1.1\r\nHost: a.test", "BAD_REQUEST"),
        (b"GET ftp://a.test/ HTTP/1.1\r\nHost: a.test", "BAD_REQUEST"),
        (b"GET * HTTP/1.1\r\nHost: a.test", "BAD_REQUEST"),
        (b"TRACE http://a.test/ HTTP/1.1\r\nHost: a.test", "METHOD"),
        (b"GET http://a.test/ HTTP/1.1\r\nHost : a.test", "BAD_REQUEST"),
        (b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\tfolded", "BAD_REQUEST"),
        (b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: \x01", "BAD_REQUEST"),
        (b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nnot a field", "BAD_REQUEST"),
        (b"GET http://a.test/ HTTP/1.1\r\nHost: a.test" + b"\r\nX: 1" * 100, "BAD_REQUEST"),
        (b"GET http://a.test/ HTTP/1.1", "HOST_HEADER"),
        (b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nhost: b.test", "HOST_HEADER"),
        (b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1", "FRAMING"),
        (b"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0x1", "FRAMING"),
        (b"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nContent-length: 1", "FRAMING"),
        (b"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\ntransfer-encoding: x", "FRAMING"),
        (b"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1111111111111", "FRAMING"),
        (b"CONNECT a.test HTTP/1.1", "BAD_HOST"),
        (b"CONNECT a.test:443/x HTTP/1.1", "BAD_HOST"),
        (b"CONNECT a.test:443?x HTTP/1.1", "BAD_HOST"),
        (b"CONNECT u@a.test:443 HTTP/1.1", "BAD_HOST"),
        (b"CONNECT [::1]:443 HTTP/1.1", "BAD_HOST"),
        (b"CONNECT a.test.:443 HTTP/1.1", "BAD_HOST"),
        (b"CONNECT -a.test:443 HTTP/1.1", "BAD_HOST"),
        (b"CONNECT a.test:0443 HTTP/1.1", "BAD_HOST"),
        (b"CONNECT https://a.test:443 HTTP/1.1", "BAD_HOST"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(head: bytes, expected: str) -> None:
    assert code(read_head(head)) == expected


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader_of_heads(data: bytes) -> None:
    for head in (data, b"GET http://a.test/ HTTP/1.1\r\n" + data, b"CONNECT " + data + b" HTTP/1.1"):
        assert isinstance(read_head(head), Asked | Refusal)
