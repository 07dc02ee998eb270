"""The server: requests, events to many readers, the first words of an answer, and what idling costs."""

import asyncio
import re
import time
from collections.abc import Iterator

import msgspec

from bench.processes import SERVER_CONFIG, model_server
from bench.rounds import Timing, timings
from bench.row import Plan, Row, alone, beside
from bench.site import Line, Served, bare, cpu_of, memory_of, served
from coilclaw.server.door.slow_clients import room_for

READERS = 100
LINES = 8
ROUTE = "/v1/sign-in"
"""Cheap, but behind the whole door."""


def measure(plan: Plan) -> Iterator[Row]:
    """Everything through `coilclaw up`, over real sockets."""
    with (
        model_server() as base_url,
        served(plan.folder / "served", SERVER_CONFIG.format(base_url=base_url)) as site,
        bare("routes", plan.folder) as (routes, routes_pid),
        bare("writes", plan.folder) as (writes, _),
        asyncio.Runner() as loop,
    ):
        loop.run(asyncio.sleep(2))  # what is done once at the start is no idling
        yield from _idle(loop, site, routes, routes_pid)
        yield from _streams(plan, loop, site)  # before anything else has made room that they could use
        yield _requests(plan, loop, site, routes)
        yield from _fan_out(plan, loop, site, writes)
        yield _first_word(plan, loop, site, base_url)


def _idle(loop: asyncio.Runner, site: Served, routes: int, routes_pid: int) -> Iterator[Row]:
    """After a first request each, so that both have loaded what they load when first needed."""

    async def once() -> None:
        for port, path, head in ((site.port, ROUTE, site.head), (routes, "/", "Host: x\r\n")):
            line = await Line.to(port)
            await line.ask("GET", path, head)
            line.close()

    loop.run(once())
    ours, theirs = Timing.of([memory_of(site.pid)]), Timing.of([memory_of(routes_pid)])
    yield beside("server", "idle memory: worker + server", "MB", ours, "bare Litestar + uvicorn", theirs, at_most=2.0)
    yield alone("server", "idle memory, by itself", "MB", ours, at_most=80 * (1 << 20) / 1e6)


def _requests(plan: Plan, loop: asyncio.Runner, site: Served, routes: int) -> Row:
    number = plan.size(1600, 160)

    async def ask(port: int, path: str, head: str) -> float:
        lines = [await Line.to(port) for _ in range(LINES)]

        async def one(line: Line) -> None:
            for _ in range(number // LINES):
                await line.ask("GET", path, head)

        start = time.perf_counter()
        await asyncio.gather(*(one(line) for line in lines))
        taken = time.perf_counter() - start
        for line in lines:
            line.close()
        return taken / number

    found = timings(
        {
            "ours": lambda: loop.run(ask(site.port, ROUTE, site.head)),
            "bare": lambda: loop.run(ask(routes, "/", "Host: x\r\n")),
        },
        plan.rounds,
    )
    ours, theirs = found["ours"].scaled(1e6), found["bare"].scaled(1e6)
    note = f"{1e6 / ours.median:.0f} requests/s, bare {1e6 / theirs.median:.0f}"
    what = f"an authenticated request (GET {ROUTE})"
    return beside("server", what, "us", ours, "a bare Litestar route", theirs, note=note)


def _fan_out(plan: Plan, loop: asyncio.Runner, site: Served, writes: int) -> Iterator[Row]:
    """From the commit to the last reader. Both sides are read by the same readers."""
    number = plan.size(500, 50)

    async def ours() -> float:
        lines = [await (await Line.to(site.port)).follow("/v1/events?topics=job", site.head) for _ in range(READERS)]
        start = time.perf_counter()
        reading = [asyncio.ensure_future(line.count(b"\nevent: job\n", number)) for line in lines]
        await asyncio.to_thread(site.happen, number)
        await asyncio.gather(*reading)
        return _over(lines, start) / number

    async def theirs(how: str) -> float:
        lines = [await Line.to(writes) for _ in range(READERS)]
        trigger = await Line.to(writes)
        await asyncio.sleep(0.05)
        start = time.perf_counter()
        reading = [asyncio.ensure_future(line.count(b"\nevent: job\n", number)) for line in lines]
        trigger.writer.write(f"{how} {number}\n".encode())
        await asyncio.gather(*reading)
        return _over([*lines, trigger], start) / number

    found = timings(
        {
            "ours": lambda: loop.run(ours()),
            "one": lambda: loop.run(theirs("one")),
            "all": lambda: loop.run(theirs("all")),
        },
        plan.rounds,
    )
    told = found["ours"].scaled(1e6)
    note = f"{1e6 / told.median:.0f} events/s, {READERS * 1e6 / told.median:.0f} deliveries/s"
    what = f"an event from its commit to {READERS} readers, of {number} at once"
    yield beside("server", what, "us", told, "raw asyncio writes, one each", found["one"].scaled(1e6), note=note)
    # Nothing can be quicker than this: no database, no encoding, no HTTP, one write for all events.
    yield beside("server", f"{what} (again)", "us", told, "raw, all in one write", found["all"].scaled(1e6))


def _over(lines: list[Line], start: float) -> float:
    taken = time.perf_counter() - start
    for line in lines:
        line.close()
    return taken


def _first_word(plan: Plan, loop: asyncio.Runner, site: Served, base_url: str) -> Row:
    """From the request to the first piece of text: by message and stream, and from the model server itself."""
    found = re.search(r":(\d+)/", base_url)
    assert found is not None
    port = int(found[1])
    question = {"model": "fake-model", "stream": True, "messages": [{"role": "user", "content": "hi"}]}

    async def direct() -> float:
        line = await Line.to(port)
        body = msgspec.json.encode(question)
        start = time.perf_counter()
        head = f"Host: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        line.writer.write(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode() + body)
        await line.count(b'"content"', 1)
        return _over([line], start)

    async def ours() -> float:
        asking = await Line.to(site.port)
        made = msgspec.json.decode(await asking.ask("POST", "/v1/chat/threads", site.head, b'{"title": "bench"}'))
        where = f"/v1/events?topics=thread&thread_id={made['thread_id']}"
        stream = await (await Line.to(site.port)).follow(where, site.head)
        start = time.perf_counter()
        text = asyncio.ensure_future(stream.count(b"event: text\n", 1))
        await asking.ask("POST", f"/v1/chat/threads/{made['thread_id']}/messages", site.head, b'{"text": "hi"}')
        await text
        return _over([asking, stream], start)

    cases = {"direct": lambda: loop.run(direct()), "ours": lambda: loop.run(ours())}
    taken = timings(cases, min(plan.rounds, 11))
    over = (taken["ours"].median - taken["direct"].median) * 1e3
    return beside(
        "server", "the first text of an answer, from POST to stream", "ms", taken["ours"].scaled(1e3),
        "the model server itself", taken["direct"].scaled(1e3), note=f"{over:.1f} ms over the provider's own",
    )  # fmt: skip


def _streams(plan: Plan, loop: asyncio.Runner, site: Served) -> Iterator[Row]:
    """What open streams hold and use while nothing happens."""
    number = min(plan.size(1000, 100), room_for(1100))

    async def opened() -> list[Line]:
        return [await (await Line.to(site.port)).follow("/v1/events", site.head) for _ in range(number)]

    def used(seconds: float) -> float:
        before = cpu_of(site.pid)
        loop.run(asyncio.sleep(seconds))
        return (cpu_of(site.pid) - before) / seconds * 1e3

    seconds = plan.size(20, 4)
    nobody = used(seconds)
    before = memory_of(site.pid)
    lines = loop.run(opened())
    each = (memory_of(site.pid) - before) / number
    note = f"{each * 1e3:.1f} kB each"
    yield alone("server", f"memory of an open stream, of {number}", "MB", Timing.of([each]), note=note)
    for line in lines[1:]:
        line.close()
    loop.run(asyncio.sleep(1))
    note = f"without any stream {nobody:.1f} ms"
    yield alone(
        "server", "CPU of an idle second with one stream, worker included", "ms", Timing.of([used(seconds)]), note=note
    )
    lines[0].close()
