"""MCP over stdin and stdout: a message a line. stdout carries nothing else; whatever prints goes to stderr."""

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from coilclaw.features.mcp_server.rpc import INVALID_REQUEST, RpcError, error_of, read_message
from coilclaw.features.mcp_server.session import McpSession
from coilclaw.features.mcp_server.slots import Slots
from coilclaw.packets.card import nobody

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

LINE_BYTES = 1 << 20
"""The longest message; a longer one is skipped and refused."""
_CHUNK = 64 << 10
_OPEN = 64
"""Messages being answered at once, more than calls can wait. A client that does not read is not read from either."""

Send: TypeAlias = Callable[[bytes], Awaitable[None]]


def take_stdout() -> int:
    """A descriptor of stdout that only the protocol knows; from now on everything else that prints goes to stderr."""
    own = os.dup(1)
    os.dup2(2, 1)
    return own


async def serve_stdio(app: "Runtime", source: int, target: int) -> None:
    """Serve one client until it closes its side, or until we are told to stop. Calls under way end with receipts."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    conveyor = app.conveyor(nobody)
    await conveyor.recover()
    session = McpSession(app, conveyor, Slots())
    stopping = asyncio.ensure_future(stop.wait())
    serving = asyncio.ensure_future(_converse(session, _lines(source), await _sender(target)))
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        session.close(cancel=stop.is_set())
        await session.settle()
    finally:
        stopping.cancel()
        serving.cancel()
        await asyncio.gather(serving, stopping, return_exceptions=True)
        await app.background.close()


async def _converse(session: McpSession, lines: AsyncIterator[bytes | None], send: Send) -> None:
    """Answer every line; several at once, because a cancellation must not wait for the call it is about."""
    room = asyncio.Semaphore(_OPEN)
    answering: set[asyncio.Task[None]] = set()

    async def answer(line: bytes | None) -> None:
        try:
            told = await _answered(session, line)
            if told is not None:
                await send(told + b"\n")
        except OSError:  # the client is gone: what waits for its turn does not begin
            session.close()
        finally:
            room.release()

    async for line in lines:
        await room.acquire()
        task = asyncio.ensure_future(answer(line))
        answering.add(task)
        task.add_done_callback(answering.discard)
    await asyncio.gather(*answering)


async def _answered(session: McpSession, line: bytes | None) -> bytes | None:
    if line is None:
        return error_of(RpcError(INVALID_REQUEST, f"The message is longer than {LINE_BYTES} bytes."))
    try:
        return await session.answer(read_message(line), cancelled=False)
    except RpcError as error:
        return error_of(error)


async def _lines(source: int) -> AsyncIterator[bytes | None]:
    """The lines of a descriptor, without empty ones; None stands for one that is too long."""
    read = await _reader(source)
    kept, skipping = b"", False
    while chunk := await read():
        *whole, rest = (kept + chunk).split(b"\n")
        for line in whole:
            if skipping or len(line) > LINE_BYTES:
                yield None
            elif line.strip():
                yield line
            skipping = False
        kept = rest
        if len(kept) > LINE_BYTES:
            kept, skipping = b"", True
    if skipping:
        yield None
    elif kept.strip():
        yield kept


async def _reader(source: int) -> Callable[[], Awaitable[bytes]]:
    if stat.S_ISREG(os.fstat(source).st_mode):  # no event loop can wait for a file, and none needs to
        return lambda: asyncio.to_thread(os.read, source, _CHUNK)
    stream = asyncio.StreamReader(limit=_CHUNK)
    pipe = os.fdopen(source, "rb", buffering=0, closefd=False)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), pipe)
    return lambda: stream.read(_CHUNK)


async def _sender(target: int) -> Send:
    if stat.S_ISREG(os.fstat(target).st_mode):

        async def keep(data: bytes) -> None:
            os.write(target, data)

        return keep
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(target, "wb", buffering=0, closefd=False)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    transport.set_write_buffer_limits(high=0)  # `drain` then waits until everything is written
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def send(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    return send
