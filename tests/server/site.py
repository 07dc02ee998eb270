"""A real server on a real socket over a home in a temporary folder, and a client that speaks to it."""

import asyncio
from contextlib import asynccontextmanager

import httpx

from coilclaw.app.background import Background
from coilclaw.app.front import Front
from coilclaw.server.application import build
from coilclaw.server.caller import Caller
from coilclaw.server.listener import listen


def as_paired(app):
    """Until the door stands: everybody is a paired device."""

    async def door(scope, receive, send):
        scope.setdefault("state", {})["caller"] = Caller(
            device_id="dev_test", token_id="tok_test", way="bearer", confirmed=True
        )
        await app(scope, receive, send)

    return door


class Site:
    """The served home: `sample` is the home, `http` an httpx client with the right address and token."""

    def __init__(self, sample, front, http, port):
        self.sample = sample
        self.front = front
        self.http = http
        self.port = port


@asynccontextmanager
async def served(sample, *makers, door=as_paired):
    """Serve the parts that the makers make (app.front_*.…_part functions), on a free port of loopback."""
    background = Background(sample.app)
    front = Front(sample.app, background)
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    app = door(build(front.core, [make(front) for make in makers]))
    serving = asyncio.ensure_future(listen(app, "127.0.0.1", 0, stop, port.set_result))
    try:
        number = await port
        async with httpx.AsyncClient(base_url=f"http://localhost:{number}", timeout=20, trust_env=False) as http:
            yield Site(sample, front, http, number)
    finally:
        stop.set()
        await serving
