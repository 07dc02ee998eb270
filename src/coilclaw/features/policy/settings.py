"""Changes of settings that a paired device proposes."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.features.owner_files.views import Edited
from coilclaw.packets.settings import SettingChange
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.runtime.settings import TOOL, notes, proposal
from coilclaw.store.actions import result_of

if TYPE_CHECKING:
    from coilclaw.packets.action import Action
    from coilclaw.server.serving import Serving


class ProposedSettings:
    """Proposes changes of config.toml for the owner."""

    def __init__(self, serving: "Serving") -> None:
        self._app = serving.runtime
        self._core = serving.core
        self._calls = OwnerCalls(serving.runtime, serving.core.conveyor)

    async def propose(self, changes: tuple[SettingChange, ...], *, by: str, key: str | None) -> Edited:
        """The action that waits, or that of an earlier try of this request; a UsageError when it cannot be made."""
        action = self._calls.earlier(TOOL, key)
        if action is None:
            call = await asyncio.to_thread(proposal, self._app, changes)
            action = await self._calls.make(call, by=by, key=key, at_once=False)
        return self._edited(action, changes, by)

    def _edited(self, action: "Action", changes: tuple[SettingChange, ...], by: str) -> Edited:
        result = result_of(self._core.db.reader, action.action_id)
        waits = action.status == "PENDING"
        told = " ".join(["It waits for the owner.", *notes(self._app, changes)])
        return Edited(
            action_id=action.action_id,
            path="config.toml",
            status=action.status,
            needs=self._core.approvals.owner.needed(self._core.db.reader, action.decision.lane, by) if waits else "",
            decision=action.decision,
            code=result.code if result is not None else "",
            message=told if waits or result is None else result.output,
        )
