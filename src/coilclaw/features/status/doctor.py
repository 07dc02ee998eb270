"""The doctor: examines one patient at a time."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.packets.ids import stamp
from coilclaw.store.read_connection import reading_apart

if TYPE_CHECKING:
    from coilclaw.packets.box import Probe
    from coilclaw.runtime.runtime import Runtime


class Doctor:
    """Examines a home; whoever asks meanwhile hears what the first one hears."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._running: dict[bool, asyncio.Task[tuple[list[Probe], str]]] = {}

    async def check(self, *, short: bool) -> tuple[list["Probe"], str]:
        """Every probe, and when that was. It goes on even when the one who asked has left."""
        running = self._running.get(short)
        if running is None or running.done():
            running = self._running[short] = asyncio.ensure_future(asyncio.to_thread(self._examine, short=short))
        return await asyncio.shield(running)

    def _examine(self, *, short: bool) -> tuple[list["Probe"], str]:
        from coilclaw.runtime.checkup import examine

        with reading_apart(self._app.db.path) as db:
            return examine(self._app, lambda: db, short=short), stamp(self._app.clock())
