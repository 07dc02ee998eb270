"""The listener: uvicorn inside our own event loop, stopped by our own signal."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from litestar.types import ASGIApp


class _Uvicorn(uvicorn.Server):
    """Leaves the signals to whoever started us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def listen(app: ASGIApp, host: str, port: int, stop: asyncio.Event, ready: Callable[[int], None]) -> None:
    """Serve until `stop` is set; `ready` is told the port as soon as requests are taken."""
    config = uvicorn.Config(
        app, host=host, port=port, lifespan="off", log_config=None, access_log=False, server_header=False
    )
    server = _Uvicorn(config)
    serving = asyncio.ensure_future(server.serve())
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if not serving.done():
            ready(server.servers[0].sockets[0].getsockname()[1])
            stopped = asyncio.ensure_future(stop.wait())
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
    finally:
        server.should_exit = True
        await serving
