"""Clients that take their time, over raw sockets: they are ended, and nobody else waits for them."""

import asyncio
import resource
from contextlib import asynccontextmanager

import pytest

from coilclaw.server.door.slow_clients import Limits, patient, room_for
from coilclaw.server.listener import listen

QUICK = Limits(head_seconds=0.3, keep_alive_seconds=0.3, write_seconds=0.5)
LONG = 240
"""Only ends what would hang."""


async def until_gone(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


async def plain(scope, receive, send):
    """Answers by path: at once, with more than fits on the way, or without end."""
    path = scope["path"]
    line = scope["state"]["line"]
    if path == "/known":
        scope["state"]["line"].known()
    if path in ("/endless", "/known"):
        ended = asyncio.ensure_future(until_gone(receive))
        line.on_shutdown = ended.cancel
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await asyncio.wait({ended})
        await send({"type": "http.response.body", "body": b"over"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Place:
    def __init__(self, port, protocol):
        self.port = port
        self.protocol = protocol
        self.opened = []

    async def connect(self, data=b""):
        """A plain connection that has sent so much; its reader and writer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.opened.append(writer)
        writer.write(data)
        await writer.drain()
        return reader, writer

    async def ask(self, path="/"):
        """A quick client's whole answer."""
        reader, _ = await self.connect(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(LONG):
            return await reader.read()


@asynccontextmanager
async def place(limits=QUICK, app=plain):
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    protocol = patient(limits)
    serving = asyncio.ensure_future(listen(app, "127.0.0.1", 0, stop, port.set_result, protocol=protocol))
    here = Place(await port, protocol)
    try:
        yield here
    finally:
        stop.set()
        async with asyncio.timeout(LONG):
            await serving
        for writer in here.opened:
            writer.transport.abort()
        await asyncio.sleep(0)


async def rest(reader):
    """Everything until the other side ends it."""
    async with asyncio.timeout(LONG):
        try:
            return await reader.read()
        except ConnectionError:  # reset, or a pipe that broke under what was still being sent
            return b""


async def test_a_head_that_never_ends_is_answered_408_and_the_connection_closed():
    async with place() as here:
        reader, _ = await here.connect(b"GET / HTTP/1.1\r\nHost: x\r\n")
        answer = await rest(reader)
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b"application/problem+json" in answer
        assert b'"code":"TOO_SLOW"' in answer


async def test_a_byte_now_and_then_buys_no_time():
    async with place() as here:
        reader, writer = await here.connect(b"GET / HTTP/1.1\r\n")

        async def trickle():
            while True:
                writer.write(b"X-A: b\r\n")
                await asyncio.sleep(0.05)

        trickling = asyncio.ensure_future(trickle())
        await rest(reader)
        trickling.cancel()


async def test_a_connection_that_says_nothing_is_closed_without_a_word():
    async with place() as here:
        reader, _ = await here.connect()
        assert await rest(reader) == b""


async def test_after_an_answer_the_next_request_may_come_but_not_for_ever():
    async with place(Limits(head_seconds=LONG, keep_alive_seconds=5)) as here:
        reader, writer = await here.connect(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        assert await rest(reader) == b""


async def test_the_head_of_a_second_request_has_no_more_time_than_the_first():
    async with place(Limits(head_seconds=0.3, keep_alive_seconds=LONG)) as here:
        reader, writer = await here.connect(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"ok")
        writer.write(b"GET / HT")
        assert b" 408 " in await rest(reader)


async def test_the_rest_of_a_body_that_was_answered_is_not_waited_for():
    async with place(Limits(head_seconds=0.3, keep_alive_seconds=LONG)) as here:
        reader, writer = await here.connect(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        await reader.readuntil(b"ok")

        async def trickle():
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.05)

        trickling = asyncio.ensure_future(trickle())
        await rest(reader)
        trickling.cancel()


async def test_an_answer_that_nobody_takes_is_dropped():
    dropped = asyncio.Event()

    async def much(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(64):
            await send({"type": "http.response.body", "body": b"x" * (1 << 20), "more_body": True})
        dropped.set()  # sending waits for the client to take it, or for the end of the connection
        await send({"type": "http.response.body", "body": b""})

    async with place(app=much) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port, limit=1024)
        here.opened.append(writer)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(LONG):
            await dropped.wait()
        assert len(await rest(reader)) < 64 << 20


async def test_a_head_that_is_too_large_is_refused():
    async with place(Limits(head_seconds=LONG)) as here:
        reader, _ = await here.connect(b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000)
        answer = await rest(reader)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
     b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"],
)  # fmt: skip
async def test_what_is_not_http_is_refused(garbage):
    async with place(Limits(head_seconds=LONG)) as here:
        reader, _ = await here.connect(garbage)
        assert (await rest(reader)).startswith(b"HTTP/1.1 400 ")


async def test_garbage_in_a_body_ends_the_connection_and_nothing_else():
    async with place(Limits(head_seconds=LONG)) as here:
        head = b"POST /endless HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        reader, writer = await here.connect(head)
        await reader.readuntil(b"begun")
        writer.write(b"zz\r\nnot a chunk\r\n")
        await rest(reader)
        assert (await here.ask()).endswith(b"ok")


async def test_when_all_connections_are_in_use_the_longest_idle_makes_way():
    async with place(Limits(head_seconds=LONG, connections=5)) as here:
        lazy = [await here.connect(b"GET /") for _ in range(5)]
        for _ in range(10):
            assert (await here.ask()).endswith(b"ok")
        assert b" 408 " in await rest(lazy[0][0])


async def test_strangers_make_way_whatever_they_do_and_those_we_know_do_not():
    async with place(Limits(connections=4)) as here:
        known, _ = await here.connect(b"GET /known HTTP/1.1\r\nHost: x\r\n\r\n")
        await known.readuntil(b"begun")
        first, _ = await here.connect(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await first.readuntil(b"begun")
        for _ in range(6):
            reader, _ = await here.connect(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"begun")
        assert b"over" not in await rest(first)
        assert (await here.ask()).startswith(b"HTTP/1.1 200 ")
        assert not known.at_eof()


async def test_when_every_connection_is_at_work_a_new_one_is_told_to_come_later():
    async with place(Limits(connections=3)) as here:
        for _ in range(3):
            reader, _ = await here.connect(b"GET /known HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"begun")
        answer = await here.ask()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 5" in answer


async def test_an_endless_answer_is_told_when_the_server_ends():
    async with place(Limits()) as here:
        reader, _ = await here.connect(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"begun")
    assert b"over" in await rest(reader)


@pytest.mark.slow
async def test_three_hundred_slow_clients_keep_nobody_from_being_served_and_are_gone_afterwards():
    async with place(Limits(head_seconds=5, keep_alive_seconds=5, write_seconds=5)) as here:
        slow = [await here.connect(b"GET / HTTP/1.1\r\nHost: x\r\n") for _ in range(300)]
        trickling = True

        async def trickle():
            while trickling:
                for _, writer in slow:
                    writer.write(b"X-a: b\r\n")
                await asyncio.sleep(0.1)

        trickler = asyncio.ensure_future(trickle())
        for _ in range(100):
            assert (await here.ask()).endswith(b"ok")
        for reader, _ in slow:
            await rest(reader)
        trickling = False
        await trickler
        assert (await here.ask()).endswith(b"ok")


def test_as_many_connections_as_files_are_allowed_for():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        assert room_for(10) == 10
        assert room_for(1000) == min(1000, hard - 200)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(1200, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
