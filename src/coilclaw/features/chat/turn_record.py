"""How turns are written down: each change with its event, and with what the conversation is told, or not at all."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coilclaw.features.chat.attachments import Attached, note_of
from coilclaw.features.chat.store.turns import (
    TurnEnd,
    TurnRow,
    add_running_turn,
    add_turn,
    begin_turn,
    claim_turn,
    end_turn,
    queue_again,
)
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import new_id
from coilclaw.store.threads import MessageRow, add_message, name_thread, thread_exists
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


class TurnRecord:
    """Writes turns. Whoever was faster is right: a change of what no longer stands so changes nothing."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app

    def keep(self, tx: Tx, turn: TurnRow, text: str, files: Sequence[Attached]) -> None:
        """Keep a turn that waits, in the transaction that keeps its message."""
        add_turn(tx, self._app.clock, turn)
        name_thread(tx, turn.thread_id, self._app.redact(text).strip().splitlines()[0])
        if files:
            add_message(tx, self._app.clock, note_of(files, turn, new_id("msg", self._app.clock())))
        self._tell(tx, "turn_queued", turn, {"message_id": turn.message_id})

    def send(self, tx: Tx, thread_id: str, text: str) -> None:
        """Keep a message of the agent's that answers none, in a conversation that is there."""
        if not thread_exists(tx, thread_id):
            raise UsageError(
                f"there is no conversation {thread_id}.",
                remedy="Look it up in the panel or with `coilclaw memory search`.",
            )
        message = MessageRow(
            message_id=new_id("msg", self._app.clock()),
            thread_id=thread_id,
            turn_id="",
            role="assistant",
            content=self._app.redact(text),
            label=INTERNAL,
        )
        add_message(tx, self._app.clock, message)

    async def begin(self, turn: TurnRow, worker: str) -> bool:
        """Take a waiting turn in hand."""

        def write(tx: Tx) -> bool:
            if not begin_turn(tx, self._app.clock, turn, worker):
                return False
            self._tell(tx, "turn_started", turn, {})
            return True

        return await self._app.db.write(write)

    async def end(self, turn: TurnRow, end: TurnEnd, words: str = "") -> None:
        """End a turn, also while the work is being cut."""

        await asyncio.shield(self._app.db.write(lambda tx: self._end(tx, turn, end, words)))

    def answered(self, tx: Tx, turn: TurnRow, ending: str) -> None:
        """End a turn in the transaction that keeps its last word."""
        self._end(tx, turn, TurnEnd(state="ANSWERED", ending=ending))

    def _end(self, tx: Tx, turn: TurnRow, end: TurnEnd, words: str = "") -> None:
        if not end_turn(tx, self._app.clock, turn, end):
            return
        if words:
            add_message(tx, self._app.clock, self._notice(turn, end, words))
        self._tell(tx, "turn_ended", turn, {"state": end.state, "code": end.code, "ending": end.ending})

    def keep_running(self, tx: Tx, turn: TurnRow) -> None:
        """Keep a turn that is answered at once, in the transaction that keeps its message."""
        add_running_turn(tx, self._app.clock, turn)
        self._tell(tx, "turn_started", turn, {"message_id": turn.message_id})

    async def claim(self, turn: TurnRow, worker: str) -> bool:
        """Take in hand what a dead process left."""

        def write(tx: Tx) -> bool:
            if not claim_turn(tx, self._app.clock, turn, worker):
                return False
            self._tell(tx, "turn_started", turn, {"again": True})
            return True

        return await self._app.db.write(write)

    async def queue_again(self, turn: TurnRow, worker: str) -> None:
        """Have a turn wait again that a dead process had in hand."""

        def write(tx: Tx) -> None:
            if queue_again(tx, turn, worker):
                self._tell(tx, "turn_queued", turn, {"message_id": turn.message_id, "again": True})

        await self._app.db.write(write)

    def _notice(self, turn: TurnRow, end: TurnEnd, words: str) -> MessageRow:
        return MessageRow(
            message_id=new_id("msg", self._app.clock()),
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            role="system",
            content=words,
            label=INTERNAL,
            metadata={"turn_state": end.state, "code": end.code},
        )

    def _tell(self, tx: Tx, event: str, turn: TurnRow, payload: dict[str, Json]) -> None:
        add_event(tx, self._app.clock, event, turn.turn_id, {"thread_id": turn.thread_id, **payload})
