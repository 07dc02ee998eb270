"""Per-device concurrency: so many requests of one device run at once; the rest wait in line.

Whoever is let in may still ask for much at once, and much of what is asked for is computed where everybody's requests
are served. With a few of each device at a time, those of another device are never far behind.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Concurrency:
    """Room for so many requests of each device."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rooms: dict[str, asyncio.Semaphore] = {}
        self._inside: dict[str, int] = {}

    def __len__(self) -> int:
        """How many devices have requests under way or in line."""
        return len(self._rooms)

    @asynccontextmanager
    async def room(self, device_id: str) -> AsyncGenerator[None]:
        """Wait for room, first come first served, and take it."""
        room = self._rooms.setdefault(device_id, asyncio.Semaphore(self._most))
        self._inside[device_id] = self._inside.get(device_id, 0) + 1
        try:
            async with room:
                yield
        finally:
            self._inside[device_id] -= 1
            if not self._inside[device_id]:
                del self._inside[device_id], self._rooms[device_id]
