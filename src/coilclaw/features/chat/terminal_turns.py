"""Turns at the terminal: stored like every other, so that any later process can resume what a dead one left."""

import asyncio
import sqlite3
from collections.abc import Callable, Container, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.chat.store.turns import TurnEnd, TurnRow, open_turns, resumable_turns
from coilclaw.features.chat.turn_ends import end_of_left, failure
from coilclaw.features.chat.turn_record import TurnRecord
from coilclaw.packets.errors import CoilclawError, UsageError
from coilclaw.packets.ids import new_id
from coilclaw.store.claims import Claimant
from coilclaw.store.threads import recent_messages
from coilclaw.store.tx import Tx

LOOKED_AT = 100
"""Messages among which the owner's last words are looked for."""

if TYPE_CHECKING:
    from coilclaw.agent.loop import Agent, Reply
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.packets.job import UserMessage
    from coilclaw.runtime.runtime import Runtime


class TerminalTurns:
    """Answers messages here and now. A turn is this process's for as long as it holds its lock."""

    def __init__(self, app: "Runtime", agent: "Agent") -> None:
        self._app = app
        self._agent = agent
        self._record = TurnRecord(app)
        self._claimant = Claimant(app.home.locks_dir, "turns", app.clock)

    def close(self) -> None:
        """Let go of this process's name."""
        self._claimant.close()

    async def post(self, message: "UserMessage", on_text: Callable[[str], None] | None) -> "Reply":
        """Keep the message with its turn, and answer it. One that is answered elsewhere now must be waited for."""
        turn = TurnRow(
            turn_id=new_id("turn", self._app.clock()),
            thread_id=message.thread_id,
            message_id=message.message_id,
            state="RUNNING",
            worker=self._claimant.name,
        )
        return await self._seen_through(
            turn,
            self._agent.turn(
                message,
                on_text,
                turn_id=turn.turn_id,
                in_transaction=lambda tx, _: self._keep(tx, turn),
                on_answer=lambda tx, ending: self._record.answered(tx, turn, ending),
            ),
        )

    def _keep(self, tx: Tx, turn: TurnRow) -> None:
        here = (each for each in open_turns(tx) if each.thread_id == turn.thread_id)
        if any(each.worker is not None and not self._claimant.gone(each.worker) for each in here):
            raise UsageError(
                "an answer is being written in this conversation, in the panel or at another terminal.",
                remedy="Wait for it or stop it there, or start a new conversation.",
            )
        self._record.keep_running(tx, turn)

    async def take_up(
        self, thread_id: str, conveyor: "Conveyor", on_text: Callable[[str], None] | None, say: Callable[[str], None]
    ) -> None:
        """Go on with what a dead process left in this conversation, or say what it needs."""
        here = [turn for turn in open_turns(self._app.db.reader) if turn.thread_id == thread_id]
        left = [turn for turn in here if self._claimant.gone(turn.worker)]
        if not left:
            return
        await conveyor.recover()
        for turn in left:
            end = end_of_left(self._app.db.reader, turn)
            if end is not None:
                await self._record.end(turn, *end)
                say(end[1])
            elif await self._record.claim(turn, self._claimant.name):
                say("Resuming what was interrupted.")
                await self._go_on(turn, on_text)

    async def resume(self, turn_ids: Container[str], on_text: Callable[[str], None] | None) -> "list[Reply]":
        """Go on with those of these turns whose calls have their outcomes by now; the answers."""
        db, mine = self._app.db.reader, self._claimant.name
        due = [turn for turn in resumable_turns(db) if turn.turn_id in turn_ids]
        replies = [await self._go_on(turn, on_text) for turn in due if await self._record.resume(turn, mine)]
        # A process that died at its question had not even written that the turn waits.
        left = [turn for turn in open_turns(db) if turn.turn_id in turn_ids and self._is_left(turn)]
        return [*replies, *[await self._go_on(turn, on_text) for turn in left if await self._record.claim(turn, mine)]]

    def _is_left(self, turn: TurnRow) -> bool:
        """Whether a dead process left a turn that can go on; the owner's newer words win."""
        db = self._app.db.reader
        if turn.state != "RUNNING" or not self._claimant.gone(turn.worker) or end_of_left(db, turn) is not None:
            return False
        said = [row.turn_id for row in recent_messages(db, turn.thread_id, LOOKED_AT) if row.role == "user"]
        return said[-1:] == [turn.turn_id]

    async def _go_on(self, turn: TurnRow, on_text: Callable[[str], None] | None) -> "Reply":
        from coilclaw.agent.loop import Accepted

        mine = msgspec.structs.replace(turn, state="RUNNING", worker=self._claimant.name)
        accepted = Accepted(turn_id=turn.turn_id, thread_id=turn.thread_id, source="chat")
        return await self._seen_through(
            mine,
            self._agent.run(accepted, on_text, on_answer=lambda tx, ending: self._record.answered(tx, mine, ending)),
        )

    async def _seen_through(self, turn: TurnRow, answer: "Coroutine[None, None, Reply]") -> "Reply":
        """However it ends, that is on record."""
        try:
            return await answer
        except asyncio.CancelledError:
            await self._app.background.end_turn(turn.turn_id)
            await self._record.end(turn, TurnEnd(state="STOPPED"))
            raise
        except Exception as error:
            with suppress(CoilclawError, sqlite3.Error):  # what broke it is what is told
                await self._record.end(turn, failure(error, self._app.redact)[0])
            raise
