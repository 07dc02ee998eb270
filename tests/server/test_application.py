"""The application: how a request reaches its handler."""

import asyncio

from litestar import Controller, get
from litestar.di import NamedDependency

from coilclaw.server.application import build
from coilclaw.server.part import Part


class Sums(Controller):
    @get("/sum")
    async def add(self, one: NamedDependency[int], two: NamedDependency[int]) -> int:
        """Their sum."""
        return one + two


async def test_dependencies_are_resolved_without_a_task_each():
    loop = asyncio.get_running_loop()
    app = build(object(), [Part(controllers=(Sums,), given={"one": 1, "two": 2})])
    started, sent = [], []

    def start(loop, coroutine, **options):
        started.append(coroutine.__name__)
        return asyncio.Task(coroutine, loop=loop, **options)

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/sum", "query_string": b"", "headers": [], "state": {}}
    loop.set_task_factory(start)
    try:
        await app(scope, receive, send)
    finally:
        loop.set_task_factory(None)
    assert sent[1]["body"] == b"3"
    assert started == []
