"""Turns over HTTP: a message is kept before its request is answered, and answered however its client fares.

A turn belongs to the process that has it in hand for as long as that process holds its lock; what a dead one left is
taken up by the next. Within a conversation they are answered one after the other.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.features.chat.attachments import attached_files
from coilclaw.features.chat.store.turns import (
    OVER,
    RESTS,
    TurnEnd,
    TurnRow,
    count_open,
    load_turn,
    next_turn,
    open_turns,
    resumable_turns,
)
from coilclaw.features.chat.streamed_text import StreamedText
from coilclaw.features.chat.turn_ends import STOPPED, STOPPED_BEFORE, end_of_left, failure
from coilclaw.features.chat.turn_record import TurnRecord
from coilclaw.features.jobs.background import NOBODY_THERE
from coilclaw.packets.action import OWNER
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, Conflict, UsageError
from coilclaw.packets.ids import new_id, stamp
from coilclaw.packets.job import UserMessage
from coilclaw.store.claims import Claimant
from coilclaw.work.worker import Claimed, Worker

if TYPE_CHECKING:
    from coilclaw.agent.loop import Agent
    from coilclaw.config import Config
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime

SayText: TypeAlias = Callable[[str, str, int, str], None]
"""Says a piece of an answer: thread, turn, the place in the text from which on it stands, the piece."""

WAITING_PER_THREAD = 20
WAITING = 200
"""Messages that may wait for their answers."""
POLL_SECONDS = 0.5
"""How soon a turn goes on after its last call was answered, here or in another process."""
STOP_SECONDS = 10.0
"""How long whoever stops a turn is kept waiting for its end; it ends all the same when that takes longer."""


def unheard(_thread_id: str, _turn_id: str, _offset: int, _piece: str) -> None:
    """Says it to nobody."""


class Turns:
    """The server's conversations as a channel: takes messages in and answers them in the background."""

    name = "panel"
    supports_draft_updates = True

    def __init__(
        self, app: "Runtime", conveyor: "Conveyor", say_text: SayText = unheard, *, grace_seconds: float = 10.0
    ) -> None:
        self._app = app
        self._conveyor = conveyor
        self._say_text = say_text
        self._grace = grace_seconds
        self._record = TurnRecord(app)
        self._accepting: tuple[Config, Agent] | None = None
        """Takes messages in. It asks no model, so it is built once; the key of a model may be another one any day."""
        self._claimant = Claimant(app.home.locks_dir, "turns", app.clock)
        self._worker: Worker | None = None
        self._running: set[str] = set()
        self._answers: dict[str, asyncio.Task[str]] = {}
        """What can be cancelled of what runs."""
        self._stopping: set[str] = set()
        self._spoken: dict[str, tuple[str, StreamedText]] = {}
        self._ended: dict[str, asyncio.Event] = {}

    @property
    def worker(self) -> str:
        """The name this process goes by while turns are in its hands; its lock is held for as long."""
        return self._claimant.name

    # Taking in

    async def post(
        self,
        thread_id: str | None,
        text: str,
        message_id: str = "",
        turn_id: str = "",
        *,
        attachments: Sequence[str] = (),
    ) -> TurnRow:
        """Keep a message and the turn that will answer it, both or neither; the same turn again changes nothing."""
        known = load_turn(self._app.db.reader, turn_id) if turn_id else None
        if known is not None:
            return known
        now = self._app.clock()
        turn = TurnRow(
            turn_id=turn_id or new_id("turn", now),
            thread_id=thread_id or new_id("conv", now),
            message_id=message_id or new_id("msg", now),
            state="QUEUED",
            worker=self.worker,
        )
        self._check_room(turn.thread_id)
        files = attached_files(self._app, turn.thread_id, attachments)
        message = UserMessage(
            message_id=turn.message_id,
            thread_id=turn.thread_id,
            channel=self.name,
            source="chat",
            text=text,
            label=OWNER,
            received_at=stamp(now),
            metadata={"attachments": [file.path for file in files]} if files else {},
        )
        with suppress(sqlite3.IntegrityError):  # the same request at the same time: it is kept once
            if self._accepting is None or self._accepting[0] is not self._app.config:
                self._accepting = self._app.config, self._agent()
            await self._accepting[1].accept(
                message, lambda tx, _: self._record.keep(tx, turn, text, files), turn_id=turn.turn_id
            )
        self._nudge()
        return self._loaded(turn.turn_id)

    def _nudge(self) -> None:
        if self._worker is not None:
            self._worker.nudge()

    def _check_room(self, thread_id: str) -> None:
        here, everywhere = count_open(self._app.db.reader, thread_id)
        if here >= WAITING_PER_THREAD or everywhere >= WAITING:
            raise Conflict(
                f"{here if here >= WAITING_PER_THREAD else everywhere} messages are already waiting for an answer.",
                remedy="Wait for them, or stop some.",
            )

    def _agent(self) -> "Agent":
        from coilclaw.features.chat.agent import AT_PANEL, agent_of

        return agent_of(self._app, self._conveyor, AT_PANEL).without(NOBODY_THERE)

    async def send(self, conversation_id: str, text: str) -> None:
        """Keep a message of the agent's in a conversation; whoever looks at it is told."""
        await self._app.db.write(lambda tx: self._record.send(tx, conversation_id, text))

    # Looking

    def partial(self, turn_id: str) -> str:
        """What a running turn has said so far in its present round."""
        spoken = self._spoken.get(turn_id)
        return "" if spoken is None else spoken[1].text

    def partials(self) -> list[tuple[str, str, str]]:
        """Thread, turn and text of every running turn, for readers that come later."""
        return [(thread_id, turn_id, spoken.text) for turn_id, (thread_id, spoken) in self._spoken.items()]

    async def ended(self, turn_id: str, seconds: float) -> TurnRow:
        """The turn once it is over or waits for the owner, or as it stands after so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            over = self._ended.setdefault(turn_id, asyncio.Event())
            turn = self._loaded(turn_id)
            left = until - loop.time()
            if turn.state in RESTS or left <= 0:
                self._ended.pop(turn_id, None)
                return turn
            with suppress(TimeoutError):  # now and then: another process may have it in hand
                await asyncio.wait_for(over.wait(), min(left, 1.0))

    def _loaded(self, turn_id: str) -> TurnRow:
        turn = load_turn(self._app.db.reader, turn_id)
        if turn is None:
            raise UsageError(f"there is no turn {turn_id!r}.")
        return turn

    # Stopping

    async def stop(self, turn_id: str) -> TurnRow:
        """End a turn: one that waits never runs, one that runs is cut. One that is over stays as it is.

        What it left running in the background ends too.
        """
        turn = await self._stop(turn_id)
        await self._app.background.end_turn(turn_id)
        return turn

    async def _stop(self, turn_id: str) -> TurnRow:
        turn = self._loaded(turn_id)
        if turn.state in ("QUEUED", "WAITING"):
            words = STOPPED_BEFORE if turn.state == "QUEUED" else STOPPED
            await self._end(turn, TurnEnd(state="STOPPED"), words)
            turn = self._loaded(turn_id)
        if turn.state in OVER:
            return turn
        if turn.worker == self.worker:
            self._stopping.add(turn_id)
            if turn_id in self._answers:
                self._answers[turn_id].cancel()
            self._nudge()
            return await self.ended(turn_id, STOP_SECONDS)
        if not self._claimant.gone(turn.worker):
            raise Conflict("another process is answering this.", remedy="Stop it there.")
        await self._end(turn, TurnEnd(state="STOPPED"), STOPPED)
        return self._loaded(turn_id)

    # Running

    async def start(self, stop: asyncio.Event) -> None:
        """Answer what waits until `stop` is set; what runs then may finish within the grace, after that it is cut."""
        self._worker = Worker(
            claim=self._claim,
            wake=self.recover,
            chores=(),
            held=lambda: False,  # a turn tells by itself that ESTOP stops its tools
            slots=lambda: self._app.config.server.turns_at_once,
            say=self._say,
            now=time.monotonic,
            poll_seconds=POLL_SECONDS,
            grace_seconds=self._grace,
        )
        try:
            await self._worker.run(stop)
        finally:
            self.close()

    async def _claim(self, _running: Collection[str]) -> Claimed | None:
        turn = await self._next()
        if turn is None:
            return None
        self._running.add(turn.turn_id)
        mine = msgspec.structs.replace(turn, state="RUNNING", worker=self.worker)
        return Claimed(id=turn.turn_id, run=lambda _stopping: self._see_to(mine))

    async def go_on(self) -> int:
        """Go on with every turn that a dead process left or whose calls have their outcomes, one by one; how many."""
        done = 0
        await self.recover()
        while not self._app.estop.engaged() and (turn := await self._next()) is not None:
            self._running.add(turn.turn_id)
            await self._see_to(msgspec.structs.replace(turn, state="RUNNING", worker=self.worker))
            done += 1
        return done

    async def _resumed(self) -> TurnRow | None:
        """A turn whose calls have their outcomes, taken in hand."""
        for turn in resumable_turns(self._app.db.reader):
            if await self._record.resume(turn, self.worker):
                return turn
            self._tell_ended(turn.turn_id)
        return None

    async def _next(self) -> TurnRow | None:
        """The turn that is due: one whose calls were answered, else the next that is queued."""
        if not self._app.estop.engaged():  # what is held goes on when the owner clears it
            resumed = await self._resumed()
            if resumed is not None:
                return resumed
        while (turn := next_turn(self._app.db.reader, self.worker, self._claimant.gone)) is not None:
            if await self._record.begin(turn, self.worker):
                return turn
        return None

    async def _see_to(self, turn: TurnRow) -> None:
        """Bring a turn to its end, whatever becomes of the answer."""
        spoken = StreamedText(
            self._app.redactor, lambda at, piece: self._say_text(turn.thread_id, turn.turn_id, at, piece)
        )
        self._spoken[turn.turn_id] = (turn.thread_id, spoken)
        answer = asyncio.ensure_future(self._answer(turn, spoken))
        self._answers[turn.turn_id] = answer
        if turn.turn_id in self._stopping:  # it was said between the claim and now
            answer.cancel()
        try:
            await self._over(answer)
            await self._write_down(turn, answer)
        finally:
            self._running.discard(turn.turn_id)
            del self._answers[turn.turn_id], self._spoken[turn.turn_id]
            self._stopping.discard(turn.turn_id)

    @staticmethod
    async def _over(answer: "asyncio.Task[str]") -> None:
        """Wait for an answer; whoever cancels the wait cancels the answer, and waits for that."""
        try:
            await asyncio.wait({answer})
        except asyncio.CancelledError:
            answer.cancel()
            await asyncio.wait({answer})

    async def _answer(self, turn: TurnRow, spoken: StreamedText) -> str:
        from coilclaw.agent.loop import Accepted

        accepted = Accepted(turn_id=turn.turn_id, thread_id=turn.thread_id, source="chat")
        reply = await self._agent().run(
            accepted, spoken, spoken.begin_again, lambda tx, ending: self._record.answered(tx, turn, ending)
        )
        spoken.finish()
        return reply.ending

    async def _write_down(self, turn: TurnRow, answer: "asyncio.Task[str]") -> None:
        if answer.cancelled():
            if turn.turn_id in self._stopping:
                await self._end(turn, TurnEnd(state="STOPPED"), STOPPED)
            return  # else this process is being ended: the next one tells how far it came
        error = answer.exception()
        if error is None:
            # Its end is on record already, with its last word; one that waits goes on later.
            self._tell_ended(turn.turn_id)
            return
        end, words = failure(error, self._app.redact)
        if end.code == "UNEXPECTED":
            self._trouble(error)
        await self._end(turn, end, words)

    def close(self) -> None:
        """Let go of this process's name; what still waits is the next one's."""
        self._claimant.close()

    # After a crash

    async def recover(self) -> int:
        """Take up the turns whose process is gone: they go on from what is on record, or say what they need."""
        left = [turn for turn in open_turns(self._app.db.reader) if turn.state == "RUNNING" and self._is_left(turn)]
        if not left:
            return 0
        await self._conveyor.recover()  # what became of its calls stands in the thread before its end does
        for turn in left:
            await self._take_up(turn)
        return len(left)

    def _is_left(self, turn: TurnRow) -> bool:
        if turn.worker == self.worker:  # its end could not be written
            return turn.turn_id not in self._running
        return self._claimant.gone(turn.worker)

    async def _take_up(self, turn: TurnRow) -> None:
        end = end_of_left(self._app.db.reader, turn)
        if end is not None:
            await self._end(turn, *end)
        elif turn.turn_id in self._stopping:
            await self._end(turn, TurnEnd(state="STOPPED"), STOPPED)
        else:
            await self._record.queue_again(turn, self.worker)
        self._stopping.discard(turn.turn_id)

    async def _end(self, turn: TurnRow, end: TurnEnd, words: str = "") -> None:
        await self._record.end(turn, end, words)
        self._tell_ended(turn.turn_id)

    def _tell_ended(self, turn_id: str) -> None:
        over = self._ended.pop(turn_id, None)
        if over is not None:
            over.set()

    def _say(self, event: str, fields: dict[str, Json]) -> None:
        if event == "worker_trouble":  # the disk, most likely; what waits goes on waiting
            self._app.warn(self._app.redact(f"a turn could not be processed: {fields['message']}"))

    def _trouble(self, error: BaseException) -> None:
        words = str(error) if isinstance(error, CoilclawError) else type(error).__name__
        self._say("worker_trouble", {"message": words})
