"""However much one device asks for at once, the others are not kept waiting."""

import asyncio

from coilclaw.server.door.concurrency import Concurrency
from coilclaw.server.door.door import AT_ONCE, SENDING
from tests.server.echo import echo_part
from tests.server.site import served, unlimited
from tests.server.wire import request


async def test_of_one_device_a_few_are_under_way_and_the_rest_wait_in_line():
    crowd = Concurrency(2)
    inside: list[int] = []
    go = asyncio.Event()

    async def visit(number: int) -> None:
        async with crowd.room("a"):
            inside.append(number)
            await go.wait()

    visits = [asyncio.create_task(visit(number)) for number in range(5)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert inside == [0, 1]
    async with crowd.room("b"):
        assert len(crowd) == 2
    visits[3].cancel()
    go.set()
    await asyncio.gather(*visits, return_exceptions=True)
    assert inside == [0, 1, 2, 4]
    assert len(crowd) == 0


async def test_a_device_that_waits_for_many_answers_holds_up_nobody_else(sample):
    async with served(sample(), echo_part, rates=unlimited()) as site:
        doings = site.serving.doings
        waiting = [asyncio.create_task(site.http.post("/v1/echo/wait")) for _ in range(AT_ONCE * 3)]
        await doings.begun.wait()
        other = site.device()
        assert (await other.get("/v1/echo")).json() == {"said": 0}
        own = asyncio.create_task(site.http.get("/v1/echo"))
        assert (await other.get("/v1/echo")).json() == {"said": 0}
        assert not own.done()
        doings.go.set()
        assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [201] * len(waiting)
        assert (await own).json() == {"said": len(waiting)}


async def test_bodies_that_never_end_are_taken_in_a_few_at_a_time(sample):
    async with served(sample(server__body_seconds=3600), echo_part, rates=unlimited()) as site:
        head = request(
            site,
            f"Authorization: Bearer {site.token}",
            "Content-Type: application/json",
            "Content-Length: 500000",
            method="POST",
        )
        lines = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(SENDING * 2)]
        for _, writer in lines:
            writer.write(head.encode() + b'"' + b"x" * 1000)
            await writer.drain()
        assert (await site.http.get("/v1/echo")).json() == {"said": 0}
        sent = asyncio.create_task(site.http.post("/v1/echo", json={"text": "x"}))
        assert (await site.device().post("/v1/echo", json={"text": "of another"})).status_code == 201
        assert not sent.done()
        for _, writer in lines:
            writer.close()
        assert (await sent).status_code == 201
        assert site.serving.doings.done == ["of another", "x"]
