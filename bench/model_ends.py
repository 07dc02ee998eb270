"""Both ends of a model call, each a process of its own: a server that streams, and a client that measures.

`serve THINKING_SECONDS BYTES` prints its port; `ask` reads ports, prints seconds to the first event and to the end.
"""

import asyncio
import json
import socket
import sys
import time

EVENT = (
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"'
    + b"word " * 32
    + b'"}\n\n'
)
BODY = json.dumps({"model": "m", "stream": True, "input": [{"role": "user", "content": "x" * 20_000}]}).encode()


async def _serve(thinking: float, size: int) -> None:
    piece = EVENT * 64
    count = size // len(piece)
    done = b'data: {"type":"response.completed","response":{"usage":{"input_tokens":5,"output_tokens":5}}}\n\n'

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        await asyncio.sleep(thinking)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for data in (EVENT, *([piece] * count), done):
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


def _ask(port: int) -> tuple[float, float]:
    head = f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    started = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), 120) as made:
        made.sendall(head + BODY)
        first, seen = 0.0, b""
        while not seen.endswith(b"0\r\n\r\n"):
            data = made.recv(1 << 18)
            if not data:
                raise SystemExit("the answer broke off")
            seen = (seen + data)[-600:] if first else seen + data
            if not first and b"delta" in seen:
                first = time.perf_counter() - started
    return first, time.perf_counter() - started


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(_serve(float(sys.argv[2]), int(sys.argv[3])))
    for line in sys.stdin:
        print(*_ask(int(line)), flush=True)
