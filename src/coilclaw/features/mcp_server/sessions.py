"""The sessions of clients over HTTP: each belongs to one paired device, and ends with its access."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from coilclaw.features.mcp_server.session import McpSession
from coilclaw.features.mcp_server.slots import Slots, busy
from coilclaw.server.door.caller import Caller

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime

MOST_SESSIONS = 16
"""Per device; one more ends the device's least recently used session that is idle."""

WATCH_SECONDS = 0.5


class McpSessions:
    """Every open session of this server, by device and id. They are in memory: a restart ends them."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor", still_valid: Callable[[Caller], bool]) -> None:
        self._app = app
        self._conveyor = conveyor
        self._still_valid = still_valid
        self._callers: dict[str, Caller] = {}
        """How each device last signed in."""
        self._open: dict[str, dict[str, McpSession]] = {}
        self._slots: dict[str, Slots] = {}

    def begin(self, caller: Caller) -> tuple[str, McpSession]:
        """A new session of a device, and its id; RpcError if all of the device's sessions are busy."""
        device_id = caller.device_id
        self._callers[device_id] = caller
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

    def find(self, caller: Caller, session_id: str) -> McpSession | None:
        """The session of that id, if this device began it."""
        mine = self._open.get(caller.device_id, {})
        session = mine.pop(session_id, None)
        if session is not None:
            self._callers[caller.device_id] = caller
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
        self._callers.pop(device_id, None)

    async def watch(self, stop: asyncio.Event) -> None:
        """End what devices still run that another process revoked; at the end of the server, wait for the rest."""
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), WATCH_SECONDS)
            for device_id, mine in list(self._open.items()):
                at_work = any(session.busy for session in mine.values())
                if at_work and not self._still_valid(self._callers[device_id]):
                    self.revoked(device_id)
        left = [session for mine in self._open.values() for session in mine.values()]
        for session in left:
            session.close()
        await asyncio.gather(*(session.settle() for session in left))
