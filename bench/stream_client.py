"""A viewer in a process of its own: reads frames until it has so many bytes, and acknowledges them if asked."""

import asyncio
import json
import struct
import sys

from websockets.asyncio.client import connect

_HEAD = struct.Struct(">BIQ")
_OUTPUT = 1


async def _read(url: str, token: str, wanted: int) -> None:
    ours = bool(token)
    protocols = ["coilclaw-binary", token] if ours else None
    async with connect(url, subprotocols=protocols, compression=None, max_size=None, ping_interval=None) as socket:  # pyright: ignore[reportArgumentType]
        if ours:
            await socket.send(json.dumps({"type": "subscribe", "session_id": "sess_bench"}))
        got = 0
        while got < wanted:
            frame = await socket.recv()
            if not ours:
                got += len(frame)
            elif isinstance(frame, bytes):
                kind, _, offset = _HEAD.unpack_from(frame)
                if kind == _OUTPUT:
                    got += len(frame) - _HEAD.size
                    ack = {"type": "ack", "session_id": "sess_bench", "offset": offset + len(frame) - _HEAD.size}
                    await socket.send(json.dumps(ack))
            elif '"gap"' in frame:
                raise SystemExit("output was skipped, so nothing was measured")


asyncio.run(_read(sys.argv[1], sys.argv[2], int(sys.argv[3])))
