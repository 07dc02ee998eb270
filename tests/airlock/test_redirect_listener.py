"""The loopback listener of an OAuth redirect: one right request ends it, nothing else does."""

import asyncio
import contextlib
import socket
from urllib.parse import urlsplit

import pytest

from coilclaw.airlock import redirect_listener
from coilclaw.airlock.redirect_listener import MOST_OPEN, MOST_WRONG, RedirectListener
from coilclaw.packets.errors import OAuthError
from tests.runtime.oauth_harness import raw_request

RIGHT = "state=right"


def accept(query):
    return query if query == RIGHT else None


def request_for(uri, query=RIGHT, *, method="GET", path="/oauth/callback", host=None, more=""):
    host = host or urlsplit(uri).netloc
    return f"{method} {path}?{query} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


async def test_the_right_request_ends_the_wait_with_a_plain_page():
    async with RedirectListener[str]() as listener:
        waiting = asyncio.create_task(listener.wait(accept))
        await asyncio.sleep(0)
        page = await raw_request(listener.redirect_uri, request_for(listener.redirect_uri))
        assert await waiting == RIGHT
    head, _, body = page.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    told = head.decode().lower()
    for line in (
        "content-type: text/plain; charset=utf-8",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
        "content-security-policy: default-src 'none'; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
    ):
        assert line in told
    assert b"<" not in body
    assert b"state" not in body


WRONG = {
    "another state": {"query": "state=wrong&code=<b>x</b>"},
    "no query": {"query": ""},
    "another path": {"path": "/"},
    "a path below": {"path": "/oauth/callback/more"},
    "an icon": {"path": "/favicon.ico"},
    "a name that leads here": {"host": "evil.example"},
    "a name that leads here, with the port": {"host": "localhost:{port}"},
    "no port": {"host": "127.0.0.1"},
    "two hosts": {"more": "Host: 127.0.0.1:{port}\r\n"},
    "a post": {"method": "POST"},
    "a head": {"method": "HEAD"},
    "an absolute address": {"path": "http://127.0.0.1:{port}/oauth/callback"},
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_request_is_answered_and_does_not_end_it(name):
    async with RedirectListener[str]() as listener:
        waiting = asyncio.create_task(listener.wait(accept))
        await asyncio.sleep(0)
        uri = listener.redirect_uri
        fields = {key: value.replace("{port}", str(urlsplit(uri).port)) for key, value in WRONG[name].items()}
        page = await raw_request(uri, request_for(uri, **fields))
        assert page.startswith(b"HTTP/1.1 4")
        assert b"keeps waiting" in page
        assert b"<b>" not in page
        assert b"evil" not in page
        assert not waiting.done()
        await raw_request(uri, request_for(uri))
        assert await waiting == RIGHT


@pytest.mark.parametrize("data", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"x" * 40_000])
async def test_what_is_not_a_request_does_not_end_it(data):
    async with RedirectListener[str]() as listener:
        waiting = asyncio.create_task(listener.wait(accept))
        await asyncio.sleep(0)
        with contextlib.suppress(ConnectionError):  # it may hang up while we are still writing
            await raw_request(listener.redirect_uri, data)
        await raw_request(listener.redirect_uri, request_for(listener.redirect_uri))
        assert await waiting == RIGHT


async def test_a_second_right_request_is_too_late():
    async with RedirectListener[str]() as listener:
        waiting = asyncio.create_task(listener.wait(accept))
        await asyncio.sleep(0)
        uri = listener.redirect_uri
        pages = await asyncio.gather(*(raw_request(uri, request_for(uri)) for _ in range(5)))
        assert await waiting == RIGHT
    assert sorted(page[:12] for page in pages) == [b"HTTP/1.1 200"] + [b"HTTP/1.1 400"] * 4


async def test_connections_that_say_nothing_do_not_keep_the_right_one_out():
    async with RedirectListener[str]() as listener:
        waiting = asyncio.create_task(listener.wait(accept))
        port = urlsplit(listener.redirect_uri).port
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3 * MOST_OPEN)]
        await raw_request(listener.redirect_uri, request_for(listener.redirect_uri))
        assert await waiting == RIGHT
        assert len(listener._open) <= MOST_OPEN
        for _, writer in silent:
            writer.close()


async def test_a_flood_ends_it_with_a_reason(monkeypatch):
    monkeypatch.setattr(redirect_listener, "MOST_WRONG", 5)
    assert MOST_WRONG > 100
    async with RedirectListener[str]() as listener:
        waiting = asyncio.create_task(listener.wait(accept))
        await asyncio.sleep(0)
        for _ in range(5):
            await raw_request(listener.redirect_uri, request_for(listener.redirect_uri, "state=no"))
        with pytest.raises(OAuthError, match="--paste") as caught:
            await waiting
    assert caught.value.code == "FLOODED"


async def test_it_gives_up_in_time_and_closes_the_port():
    async with RedirectListener[str]() as listener:
        with pytest.raises(OAuthError, match="--paste") as caught:
            await listener.wait(accept, seconds=0.01)
        port = urlsplit(listener.redirect_uri).port
    assert caught.value.code == "TIMEOUT"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_it_listens_on_loopback_alone():
    async with RedirectListener[str]() as listener:
        places = [each.getsockname() for each in listener._server.sockets]
        assert [(each.family) for each in listener._server.sockets] == [socket.AF_INET]
        assert [host for host, _ in places] == ["127.0.0.1"]
        assert listener.redirect_uri == f"http://127.0.0.1:{places[0][1]}/oauth/callback"
