"""The fake transport keeps the contract other rooms test against."""

import pytest

from coilclaw.airlock import Listing
from coilclaw.airlock.fake import FakeTransport
from coilclaw.packets.errors import EgressRefused, TransportError
from coilclaw.packets.http import HttpRequest, HttpResponse
from coilclaw.packets.ports import Transport

URL = "https://example.com/"


def ok(body: bytes) -> HttpResponse:
    return HttpResponse(status=200, headers=(), body=body, url=URL)


def get(url: str = URL) -> HttpRequest:
    return HttpRequest(principal="web_open", method="GET", url=url)


async def test_answers_come_in_turn_and_the_last_repeats() -> None:
    transport: Transport = FakeTransport({URL: (TransportError("down", sent=False), ok(b"one"), ok(b"two"))})
    with pytest.raises(TransportError):
        await transport.send(get())
    assert [(await transport.send(get())).body for _ in range(3)] == [b"one", b"two", b"two"]


async def test_a_stream_arrives_in_pieces_and_a_function_may_answer() -> None:
    transport = FakeTransport({URL: lambda request: ok(request.url.encode())}, piece=5)
    async with transport.stream(get()) as arrival:
        pieces = [piece async for piece in arrival.chunks()]
    assert b"".join(pieces) == URL.encode()
    assert len(pieces) == 4
    assert transport.seen == [get()]


async def test_an_unscripted_url_and_a_judged_one_are_refused() -> None:
    transport = FakeTransport({URL: ok(b"")}, listing=Listing())
    for url, code in (("https://example.org/", "NOT_SCRIPTED"), ("https://10.0.0.1/", "IP_LITERAL")):
        with pytest.raises(EgressRefused) as caught:
            await transport.send(get(url))
        assert caught.value.code == code
