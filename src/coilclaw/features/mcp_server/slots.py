"""How many calls of one client run at once, how many wait, and how many are turned away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coilclaw.features.mcp_server.rpc import BUSY, RpcError

AT_ONCE = 4
WAITING = 32
RETRY_SECONDS = 5


def busy(message: str) -> RpcError:
    """The refusal that asks for another try."""
    return RpcError(BUSY, message, data={"retryAfterSeconds": RETRY_SECONDS})


class Slots:
    """The calls of one client, over all its sessions."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(AT_ONCE)
        self._inside = 0

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait for a slot and take it; RpcError if too many wait already."""
        if self._inside >= AT_ONCE + WAITING:
            raise busy(f"{self._inside} calls are already running or waiting. Try again in {RETRY_SECONDS} seconds.")
        self._inside += 1
        try:
            async with self._room:
                yield
        finally:
            self._inside -= 1
