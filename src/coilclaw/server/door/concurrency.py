"""Per-device concurrency: a limited number of one device's requests run at once; the rest queue.

An admitted device may still send many requests, and most of them are computed in the shared event
loop. With a few per device at a time, another device's requests never wait long.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Concurrency:
    """Slots for each device's requests."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rooms: dict[str, asyncio.Semaphore] = {}
        self._inside: dict[str, int] = {}

    def __len__(self) -> int:
        """How many devices have running or queued requests."""
        return len(self._rooms)

    @asynccontextmanager
    async def room(self, device_id: str) -> AsyncGenerator[None]:
        """Wait for a slot, first come first served, and take it."""
        room = self._rooms.setdefault(device_id, asyncio.Semaphore(self._most))
        self._inside[device_id] = self._inside.get(device_id, 0) + 1
        try:
            async with room:
                yield
        finally:
            self._inside[device_id] -= 1
            if not self._inside[device_id]:
                del self._inside[device_id], self._rooms[device_id]
