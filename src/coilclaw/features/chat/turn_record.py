"""How turns are written down: each change with its event, and with what the conversation is told, or not at all."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.chat.attachments import Attached, note_of
from coilclaw.features.chat.store.turns import (
    TurnEnd,
    TurnRow,
    add_running_turn,
    add_turn,
    begin_turn,
    claim_turn,
    end_turn,
    expired_calls,
    is_outdated,
    queue_again,
    resume_turn,
    wait_turn,
    waiting_turns,
)
from coilclaw.features.chat.turn_ends import nobody_answered
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
    """Writes turns. The first writer wins: an update of a turn that has changed meanwhile does nothing."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app

    def keep(self, tx: Tx, turn: TurnRow, text: str, files: Sequence[Attached]) -> None:
        """Keep a turn that is queued, in the transaction that keeps its message."""
        self._outdate(tx, turn.thread_id)
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
        """End a turn in the transaction that keeps its last word. With calls that wait it waits too.

        Unless the owner has said something newer: that is what goes on then, and the calls are told of there.
        """
        if ending == "pending" and not is_outdated(tx, turn):
            if wait_turn(tx, turn):
                self._tell(tx, "turn_waiting", turn, {})
            return
        self._end(tx, turn, TurnEnd(state="ANSWERED", ending=ending))

    async def resume(self, turn: TurnRow, worker: str) -> bool:
        """Take a turn in hand whose calls have their outcomes; one that nobody answered in time ends instead."""

        def write(tx: Tx) -> bool:
            if not resume_turn(tx, self._app.clock, turn, worker):
                return False
            if late := expired_calls(tx, turn):
                mine = msgspec.structs.replace(turn, state="RUNNING", worker=worker)
                self._end(tx, mine, TurnEnd(state="STOPPED", code="EXPIRED"), nobody_answered(late))
                return False
            self._tell(tx, "turn_started", turn, {"resumed": True})
            return True

        return await self._app.db.write(write)

    def _outdate(self, tx: Tx, thread_id: str) -> None:
        """The owner's newer words win: what waits in their conversation is not resumed any more."""
        for turn in waiting_turns(tx, thread_id):
            self._end(tx, turn, TurnEnd(state="ANSWERED", ending="pending"))

    def _end(self, tx: Tx, turn: TurnRow, end: TurnEnd, words: str = "") -> None:
        if not end_turn(tx, self._app.clock, turn, end):
            return
        if words:
            add_message(tx, self._app.clock, self._notice(turn, end, words))
        self._tell(tx, "turn_ended", turn, {"state": end.state, "code": end.code, "ending": end.ending})

    def keep_running(self, tx: Tx, turn: TurnRow) -> None:
        """Keep a turn that is answered at once, in the transaction that keeps its message."""
        self._outdate(tx, turn.thread_id)
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
