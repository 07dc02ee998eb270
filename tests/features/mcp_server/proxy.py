"""A proxy on loopback that signs every request in: the conformance suite has no way to send a token."""

import asyncio
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def signing_in(port, token):
    """The port of a proxy that forwards to `port`; its own name in Host and Origin becomes the server's."""
    own = 0

    async def forward(reader, writer):
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = [line for line in head.split(b"\r\n")[1:-2] if not line.lower().startswith(b"connection:")]
            length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
            body = await reader.readexactly(length)
            lines += [b"Authorization: Bearer " + token.encode(), b"Connection: close"]
            first, rest = head.split(b"\r\n", 1)[0], b"\r\n".join(lines)
            rest = rest.replace(f":{own}".encode(), f":{port}".encode())
            there, back = await asyncio.open_connection("127.0.0.1", port)
            back.write(first + b"\r\n" + rest + b"\r\n\r\n" + body)
            writer.write(await there.read())
            await writer.drain()
            back.close()
        writer.close()

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    own = server.sockets[0].getsockname()[1]
    async with server:
        yield own
