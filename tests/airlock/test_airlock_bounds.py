"""Answers that are too large, too slow, too dense or not HTTP: each ends at its cap, and says so."""

import asyncio
import gzip
import zlib

import pytest

from coilclaw.airlock import Limits
from coilclaw.airlock.body import Decoder, OverCap
from coilclaw.packets.errors import EgressRefused
from coilclaw.packets.http import HttpRequest
from tests.airlock.airlock_harness import Lock, answer, failed, serving


async def test_a_body_announced_over_the_cap_is_not_read() -> None:
    async with serving(answer(b"x" * 5000)) as server:
        lock = Lock(server.url())
        error = await failed(lock, server.url(), max_bytes=4999)
        assert (error.sent, error.timeout) == (True, False)
        assert lock.codes == ["CAPPED"]
        assert len((await lock.get(server.url(), max_bytes=5000)).body) == 5000


async def test_a_body_without_end_is_cut_at_the_cap() -> None:
    async def flood(_head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(b"x" * 10000)
            await writer.drain()

    async with serving(flood) as server:
        lock = Lock(server.url())
        await failed(lock, server.url(), max_bytes=50_000)
    assert lock.codes == ["CAPPED"]
    assert lock.lines[0].bytes <= 50_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw"])
async def test_compressed_bodies_are_decoded(encoding: str) -> None:
    text = b"plain text " * 20_000
    packed = {"gzip": gzip.compress(text), "deflate": zlib.compress(text), "raw": zlib.compress(text, wbits=-15)}[
        encoding
    ]
    name = "gzip" if encoding == "gzip" else "deflate"
    async with serving(answer(packed, "200 OK", f"Content-Encoding: {name}")) as server:
        response = await Lock(server.url()).get(server.url())
    assert response.body == text
    assert response.header("content-encoding") == ""


async def test_a_compression_bomb_is_stopped_at_the_cap() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    async with serving(answer(bomb, "200 OK", "Content-Encoding: gzip")) as server:
        lock = Lock(server.url())
        await failed(lock, server.url(), max_bytes=1 << 20)
    assert lock.codes == ["CAPPED"]
    assert lock.lines[0].bytes <= 1 << 20


async def test_a_compressed_body_that_unpacks_to_nothing_is_capped_as_it_arrives() -> None:
    head = zlib.compress(b"")[:2]
    async with serving(answer(head + b"\x00\x00\x00\xff\xff" * 5000, "200 OK", "Content-Encoding: deflate")) as server:
        lock = Lock(server.url())
        await failed(lock, server.url(), max_bytes=1000)
        assert lock.codes == ["CAPPED"]
    decoder = Decoder("deflate", 1000)
    with pytest.raises(OverCap):
        list(decoder.feed(head + b"\x00\x00\x00\xff\xff" * 5000))


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "identity, gzip", "x"])
async def test_an_encoding_that_was_not_asked_for_is_refused(encoding: str) -> None:
    async with serving(answer(gzip.compress(b"x"), "200 OK", f"Content-Encoding: {encoding}")) as server:
        lock = Lock(server.url())
        await failed(lock, server.url())
    assert lock.codes == ["BROKEN"]


@pytest.mark.parametrize(
    "body", [gzip.compress(b"x" * 1000, mtime=0)[:-9], b"not gzip at all", gzip.compress(b"", mtime=0) * 100]
)
async def test_a_damaged_compressed_body_is_an_error(body: bytes) -> None:
    async with serving(answer(body, "200 OK", "Content-Encoding: gzip")) as server:
        await failed(Lock(server.url()), server.url())


async def drip(_head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def test_a_slow_drip_ends_with_the_whole_request() -> None:
    async with serving(drip) as server:
        lock = Lock(server.url())
        error = await failed(lock, server.url(), timeout_seconds=1.0)
    assert (error.timeout, error.sent) == (True, True)
    assert lock.codes == ["TIMEOUT"]


async def test_slow_headers_end_with_the_whole_request() -> None:
    over = asyncio.Event()

    async def silence(_head: bytes, _writer: asyncio.StreamWriter) -> None:
        await over.wait()

    async with serving(silence) as server:
        error = await failed(Lock(server.url()), server.url(), timeout_seconds=1.0)
        over.set()
    assert (error.timeout, error.sent) == (True, True)


async def test_a_pause_longer_than_the_read_limit_ends_it_except_for_a_provider() -> None:
    async def pause(_head: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.3)
        writer.write(answer(b"late"))

    async with serving(pause) as server:
        lock = Lock(server.url(), limits=Limits(read_seconds=0.1))
        assert (await failed(lock, server.url())).timeout
        assert (await lock.get(server.url(), "provider")).body == b"late"


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 50_000 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 100 + answer(),
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;" + b"e" * 100_000 + b"\r\nx\r\n",
    ],
    ids=range(10),
)
async def test_an_answer_that_is_not_http_is_an_error_after_sending(reply: bytes) -> None:
    async with serving(reply) as server:
        lock = Lock(server.url())
        error = await failed(lock, server.url())
    assert error.sent
    assert lock.codes == ["BROKEN"]


async def test_a_stream_hands_over_pieces_and_says_when_it_was_left_early() -> None:
    async with serving(drip) as server:
        lock = Lock(server.url())
        request = HttpRequest(principal="provider", method="GET", url=server.url())
        async with lock.airlock.stream(request) as arrival:
            async for piece in arrival.chunks():
                assert piece
                break
    assert lock.codes == ["PARTIAL"]
    assert lock.lines[0].bytes >= 1


async def test_a_cancelled_request_hangs_up_and_leaves_a_line() -> None:
    async with serving(drip) as server:
        lock = Lock(server.url())
        task = asyncio.create_task(lock.get(server.url()))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert lock.codes in (["PARTIAL"], ["CANCELLED"])


async def test_a_narrowed_airlock_only_reaches_less() -> None:
    async with serving(answer()) as server:
        lock = Lock(server.url())
        narrow = lock.airlock.narrowed(["example.com"])
        with pytest.raises(EgressRefused) as caught:
            await narrow.send(HttpRequest(principal="http", method="GET", url=server.url()))
    assert caught.value.code == "NARROWED"
    assert lock.codes == ["NARROWED"]
