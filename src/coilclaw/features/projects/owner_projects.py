"""Projects as a paired device adds and vouches for them: proposed here, approved like all that governs the agent."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.features.projects.folder import add_call, vouch_call
from coilclaw.packets.errors import UsageError
from coilclaw.runtime.owner_calls import OwnerCalls

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.action import Action
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.projects import Project


class OwnerProjects:
    """Proposes projects for the owner."""

    def __init__(self, app: "Runtime", conveyor: "Conveyor") -> None:
        self._app = app
        self._calls = OwnerCalls(app, conveyor)

    async def add(self, path: str, name: str, *, vouch: bool, by: str, key: str | None) -> "Action":
        """The action that waits, or that of an earlier try of this request; a UsageError says why it cannot be."""
        action = self._calls.earlier("project_add", key)
        if action is not None:
            return action
        if not path.startswith(("/", "~")):
            raise UsageError("this is not a whole path.", remedy="Begin with / or ~, such as ~/code/site.")
        call = await asyncio.to_thread(add_call, self._app, path, name, vouch=vouch)
        return await self._calls.make(call, by=by, key=key)

    async def vouch(self, project: "Project", *, by: str, key: str | None) -> "Action":
        """The action that lets its files count as the owner's once it is approved."""
        return await self._calls.make(vouch_call(project), by=by, key=key)
