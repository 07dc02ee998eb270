"""What the server is measured against, each in a process of its own: it prints its port and serves until it is ended.

`python bench/bare.py routes`: one route of a bare Litestar on uvicorn. `python bench/bare.py writes`: a plain asyncio
server that, told `one N` or `all N`, writes N events to everybody else who is connected, one by one or in one piece.
"""

import asyncio
import socket
import sys

EVENT = (
    b'id: 123456\nevent: job\ndata: {"seq":123456,"event":"job","type":"job_step","id":"job_1m7h0z8rzxb5zp46pr3",'
    b'"at":"2026-11-16T02:03:59.779Z","thread_id":"conv_1m7h0z8rzxb5zp46pr3","data":{"step":1}}\n\n'
)


def routes() -> None:
    """A route that says a little, and nothing else."""
    import uvicorn
    from litestar import Litestar, get

    @get("/", sync_to_thread=False)
    def little() -> dict[str, str]:
        return {"status": "ok"}

    # Named as TCP, because asyncio sends small answers at once (TCP_NODELAY) on such sockets alone.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(Litestar([little]), http="h11", lifespan="off", log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


async def writes() -> None:
    """Events to whoever is connected, as fast as they can be written."""
    everybody: set[asyncio.StreamWriter] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        everybody.add(writer)
        try:
            while line := await reader.readline():
                how, number = line.split()
                times, piece = (int(number), EVENT) if how == b"one" else (1, EVENT * int(number))
                for _ in range(times):
                    for each in everybody - {writer}:
                        each.write(piece)
                await asyncio.gather(*(each.drain() for each in everybody))
        finally:
            everybody.discard(writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    routes() if sys.argv[1] == "routes" else asyncio.run(writes())
