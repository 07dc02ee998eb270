"""Resumes a turn or a step from what it stored: nothing stored is requested or done again.

The answer of a round carries the ids of the actions it proposed, so that a new process sees which of them have come to
their end, which wait, and which still need carrying.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from coilclaw.agent.calls import Calls
from coilclaw.gate.records import Taken
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import INTERNAL, Action, ToolResult
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, RowDamaged
from coilclaw.store.actions import load_action
from coilclaw.store.database import Database
from coilclaw.store.job_history import Standing, brought_in, standing_of
from coilclaw.store.threads import MessageRow


class Recorded:
    """Resumes from stored answers and actions."""

    def __init__(self, *, db: Database, calls: Calls) -> None:
        self._db = db
        self._calls = calls

    def recall(self, turn: Turn) -> None:
        """Restore the turn's taint: the untrusted content that its calls brought in before it was interrupted."""
        for label, fresh in brought_in(self._db.reader, turn.thread_id, turn.turn_id):
            turn.take_in(label, kept=not fresh)

    async def take_up(
        self,
        turn: Turn,
        answer: MessageRow,
        own: Sequence[MessageRow],
        about: dict[str, Json],
        stopped: Callable[[], bool],
    ) -> list[str] | None:
        """Finish every call of a stored answer, or leave it waiting; returns the ids of those. None when stopped."""
        recorded = {row.action_id for row in own if row.role == "tool"}
        waiting: list[str] = []
        for action_id, call in zip(_actions_of(answer), answer.tool_calls, strict=False):
            if stopped():
                return None
            standing = await self._settled(turn, action_id)
            if standing is None:
                continue
            if standing.status == "PENDING" and standing.held and not standing.begun:
                action = self._load(action_id)
                if action is not None:
                    outcome = await self._calls.carry(turn, action, about)
                    waiting += [action_id] if outcome.pending or outcome.again else []
                continue
            if action_id not in recorded:
                record = self._calls.recorder(turn, call.call_id, action_id, about)
                result = _result_of(standing)
                await self._db.write(lambda tx, record=record, result=result: record(tx, result))
                turn.take_in(result.label, kept=not result.fresh)
            waiting += [] if standing.ended or standing.running else [action_id]
        return waiting

    def _load(self, action_id: str) -> Action | None:
        try:
            return load_action(self._db.reader, action_id)
        except RowDamaged as error:  # this work's fault, not the disk's
            raise CoilclawError(error.message, remedy=error.remedy) from error

    async def _settled(self, turn: Turn, action_id: str) -> Standing | None:
        """The action's state, after recovering what a dead process left unfinished."""
        standing = standing_of(self._db.reader, turn.turn_id).get(action_id)
        if standing is not None and standing.begun and standing.held and not standing.ended:
            with suppress(Taken):  # another process was faster; its result is read below
                await self._calls.conveyor.recover()
            standing = standing_of(self._db.reader, turn.turn_id).get(action_id)
        return standing


def round_of(answer: MessageRow, place: int) -> int:
    """The number of the round an answer was given in; keys of calls are made of it, so none may come twice."""
    number = answer.metadata.get("round")
    return max(number, place) if isinstance(number, int) else place


def _actions_of(answer: MessageRow) -> tuple[str, ...]:
    try:
        return msgspec.convert(answer.metadata.get("actions", []), tuple[str, ...])
    except msgspec.ValidationError:
        return ()


def _result_of(standing: Standing) -> ToolResult:
    """The message to the model about an action that ended or began to wait in the meantime."""
    if standing.result is not None and (standing.ended or standing.running):
        return standing.result
    if standing.ended:
        text = f"{standing.tool} ended as {standing.status}. {standing.rejection_reason or ''}".strip()
        return ToolResult(success=False, output=text, error=text, code=standing.status, label=INTERNAL)
    text = f"pending {standing.action_id}: it is waiting for the owner or for its next attempt."
    return ToolResult(success=False, output=text, error=text, code="APPROVAL_NEEDED", label=INTERNAL)
