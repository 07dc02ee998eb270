"""Calls of the owner's own hand, by a paired device: carried through the gate like any other.

In lane A the owner's authenticated request is the approval, and the call is carried out at once. What leaves the
machine or governs the agent waits, like every such call, until it is approved for itself.
"""

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

from coilclaw.gate.conveyor import Conveyor, Outcome
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action, ToolCall, ToolResult
from coilclaw.packets.ids import new_id
from coilclaw.store.actions import action_with_key, load_action
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


class OwnerCalls:
    """Carries calls of the owner through the gate."""

    def __init__(self, app: "Runtime", conveyor: Conveyor) -> None:
        self._app = app
        self._conveyor = conveyor

    async def known(self, call: ToolCall, key: str | None) -> Action | None:
        """The action that an earlier request with this key created; a Conflict if that was for another call."""
        return None if key is None else await self._conveyor.intake.known(call, key)

    def earlier(self, tool: str, key: str | None) -> Action | None:
        """The action that an earlier request with this key created, whatever its arguments, which may hold the time."""
        return None if key is None else action_with_key(self._app.db.reader, tool, key)

    async def make(
        self,
        call: ToolCall,
        *,
        by: str,
        key: str | None,
        at_once: bool = True,
        project_id: str = "",
        also: Callable[[Tx, Action], None] | None = None,
        turn: Turn | None = None,
    ) -> Action:
        """Propose the call and return the action; `at_once` runs it where the owner's word is enough.

        `also` writes in the transaction that stores it; `turn` is that of a job the owner started.
        """
        now = self._app.clock()
        turn = turn or Turn(new_id("turn", now), project_id, "gateway")
        action = await self._conveyor.intake.proposed(call, turn, key or new_id("key", now))

        def record(tx: Tx, _: ToolResult) -> None:
            if also is not None:
                also(tx, action)

        try:
            outcome = await self._conveyor.carry(action, turn, stored=False, record=record)
            made = outcome.action
        except sqlite3.IntegrityError:  # the same request came in twice at this very moment
            known = await self.known(call, key)
            if known is None:
                raise
            made = known
        return await self.go_on(made, by=by) if at_once else made

    async def go_on(self, action: Action, *, by: str) -> Action:
        """Take a call of lane A to its end from whatever state it is in; leave others as they are."""
        if action.decision.lane == "A" and action.status == "PENDING":
            answered = await self._app.approvals(self._conveyor).approve(action, by=by, digest=action.digest)
            action = answered.action if isinstance(answered, Outcome) else answered
        if action.decision.lane == "A" and action.status == "APPROVED":
            await self._conveyor.execute(action)
        return load_action(self._app.db.reader, action.action_id) or action


def may_go_on(known: Action | None) -> bool:
    """Whether a call under a key is yet to be made, is pending or succeeded; a failed one is tried again."""
    return known is None or known.status in ("PENDING", "APPROVED", "EXECUTED")
