"""The sessions of clients over HTTP: each belongs to one paired device, and ends with its access."""

import asyncio
import os
from typing import TYPE_CHECKING

from coilclaw.features.mcp_server.session import McpSession
from coilclaw.features.mcp_server.slots import Slots, busy

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime

MOST_SESSIONS = 16
"""Per device; one more ends the device's least recently used session that is idle."""


class McpSessions:
    """Every open session of this server, by device and id. They are in memory: a restart ends them."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor") -> None:
        self._app = app
        self._conveyor = conveyor
        self._open: dict[str, dict[str, McpSession]] = {}
        self._slots: dict[str, Slots] = {}

    def begin(self, device_id: str) -> tuple[str, McpSession]:
        """A new session of a device, and its id; RpcError if all of the device's sessions are busy."""
        mine = self._open.setdefault(device_id, {})
        if len(mine) >= MOST_SESSIONS:
            idle = next((name for name, each in mine.items() if not each.busy), None)
            if idle is None:
                raise busy(f"{MOST_SESSIONS} sessions of this device are busy. End one, or try again later.")
            self.end(device_id, idle)
        slots = self._slots.setdefault(device_id, Slots())
        session_id = os.urandom(32).hex()
        mine[session_id] = session = McpSession(self._app, self._conveyor, slots)
        return session_id, session

    def find(self, device_id: str, session_id: str) -> McpSession | None:
        """The session of that id, if this device began it."""
        mine = self._open.get(device_id, {})
        session = mine.pop(session_id, None)
        if session is not None:
            mine[session_id] = session  # least recently used first
        return session

    def end(self, device_id: str, session_id: str) -> bool:
        """End a session: calls under way finish, waiting ones do not begin. False if there is none."""
        session = self._open.get(device_id, {}).pop(session_id, None)
        if session is None:
            return False
        session.close()
        return True

    def revoked(self, device_id: str) -> None:
        """End every session of a device that lost its access, and what it still has running."""
        for session in self._open.pop(device_id, {}).values():
            session.close(cancel=True)
        self._slots.pop(device_id, None)

    async def until_stopped(self, stop: asyncio.Event) -> None:
        """Wait for the end of the server, and then for the calls under way."""
        await stop.wait()
        left = [session for mine in self._open.values() for session in mine.values()]
        for session in left:
            session.close()
        await asyncio.gather(*(session.settle() for session in left))
