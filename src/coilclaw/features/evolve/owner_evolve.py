"""What the owner does with the agent from a paired device: look, direct, stop, release, take back."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.evolve.changes import resolved, say
from coilclaw.features.evolve.desk_files import order
from coilclaw.features.evolve.init import needed
from coilclaw.features.evolve.tools import ROLLBACK
from coilclaw.features.evolve.up import stop
from coilclaw.features.evolve.views import EvolvePage, evolve_page, read_log
from coilclaw.packets.action import ToolCall

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.action import Action
    from coilclaw.runtime.runtime import Runtime


class EvolveLog(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a log."""

    text: str


class OwnerEvolve:
    """Each raises a UsageError before there is a repository."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor") -> None:
        self._app = app
        self._conveyor = conveyor

    def page(self) -> EvolvePage:
        """Everything the page shows."""
        return evolve_page(self._app)

    def log(self, which: str) -> EvolveLog:
        """The end of a log."""
        return EvolveLog(text=read_log(self._app, which, None)[0])

    async def say(self, text: str) -> None:
        """Add a directive."""
        await say(self._app, text)

    async def stop(self) -> None:
        """End what runs."""
        places = needed(self._app)
        await asyncio.to_thread(lambda: stop(places))

    async def release(self) -> None:
        """End a hold."""
        needed(self._app)
        order(self._app, {"kind": "release"})

    async def rollback(self, ref: str, *, by: str, key: str | None) -> "Action":
        """Propose a rollback."""
        from coilclaw.runtime.owner_calls import OwnerCalls

        call = ToolCall.of(ROLLBACK, {"ref": ref, "commit": await resolved(self._app, ref)})
        return await OwnerCalls(self._app, self._conveyor).make(call, by=by, key=key)
