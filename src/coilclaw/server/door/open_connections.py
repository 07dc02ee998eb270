"""Long-lived connections: limited in number, each closed when its device loses access."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import Trouble

CHECK_SECONDS = 0.5

T = TypeVar("T")


class OpenConnections(Generic[T]):
    """All connections of one kind: event streams, WebSockets."""

    def __init__(
        self, *, still_valid: Callable[[Caller], bool], most: int, end: Callable[[T], None], full: Callable[[], Trouble]
    ) -> None:
        self._still_valid = still_valid
        self._most = most
        # One device must not lock out the others.
        self._most_of_one = max(1, most * 5 // 6)
        self._end = end
        self._full = full
        self._open: dict[T, Caller] = {}
        self._by_device: Counter[str] = Counter()
        self._checking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def room_for(self, caller: Caller) -> None:
        """Raise if there are too many."""
        if len(self._open) >= self._most or self._by_device[caller.device_id] >= self._most_of_one:
            raise self._full()

    def add(self, connection: T, caller: Caller) -> None:
        """Count a connection and watch its device's access."""
        self._open[connection] = caller
        self._by_device[caller.device_id] += 1
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_forever(), name="open connections")

    def remove(self, connection: T) -> None:
        """A connection ended."""
        caller = self._open.pop(connection, None)
        if caller is None:
            return
        self._by_device[caller.device_id] -= 1
        if not self._by_device[caller.device_id]:
            del self._by_device[caller.device_id]
        if not self._open and self._checking is not None:
            self._checking.cancel()
            self._checking = None

    def check(self) -> None:
        """Close the connections of revoked devices and expired tokens."""
        good: dict[str, bool] = {}
        for connection, caller in list(self._open.items()):
            if caller.token_id not in good:
                good[caller.token_id] = self.holds(caller)
            if not good[caller.token_id]:
                self._end(connection)

    def holds(self, caller: Caller) -> bool:
        """Whether an admitted caller still has access."""
        try:
            return self._still_valid(caller)
        except Exception:  # fail closed: the client can reconnect through the door
            return False

    async def _check_forever(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check()
