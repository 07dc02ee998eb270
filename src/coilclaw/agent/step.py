"""A step of a job: one answer of the model and the carrying of its calls, taken up where a crash left it.

Whatever is stored is never asked for again: the answer of a step carries the step's number, its calls the ids of their
actions, so that a new process sees which of them still need carrying.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec

from coilclaw.agent.calls import Calls
from coilclaw.agent.context import chat_messages, of_chat, of_job, system_prompt, take_in_shown
from coilclaw.agent.model import Halted, Model
from coilclaw.agent.spending import Spent
from coilclaw.gate.estop import Estop
from coilclaw.gate.records import Taken
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import INTERNAL, OWNER, Action, Label, ToolResult
from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ChatRequest, ToolSpec
from coilclaw.packets.errors import CoilclawError, RowDamaged
from coilclaw.packets.ids import Clock
from coilclaw.packets.job import JobLimits
from coilclaw.store.actions import load_action
from coilclaw.store.database import Database
from coilclaw.store.job_trail import Standing, asked_urls, brought_in, standing_of
from coilclaw.store.threads import MessageRow, messages_before, turn_messages

Stage: TypeAlias = Literal["called", "waiting", "answered", "held"]
"""All calls have an end; some wait; the model had nothing more to call; ESTOP holds the rest."""


class StepLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a step."""

    calls: int = 10
    output_tokens: int = 8000
    messages: int = 60
    """How much of its own work a job is shown, in messages."""
    shown_bytes: int = 256 * 1024
    """And in bytes; what the last answer brought is always shown."""
    earlier: int = 20
    """How much it is shown of the conversation it was made in."""


class StepOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Which step to do."""

    thread_id: str
    turn_id: str
    number: int
    words: tuple[str, ...]
    """What the owner asked for, and the step of the plan it is at; always shown."""
    task: str
    """What the model is told about the job."""
    limits: JobLimits
    inherited: tuple[Label, ...]
    fresh: tuple[Label, ...]


class StepDone(msgspec.Struct, frozen=True, kw_only=True):
    """How far a step came."""

    stage: Stage
    text: str = ""
    waiting: tuple[str, ...] = ()
    calls: int = 0
    inherited: tuple[Label, ...] = ()
    fresh: tuple[Label, ...] = ()


class Stepper:
    """Does steps."""

    def __init__(
        self,
        *,
        db: Database,
        model: Model,
        calls: Calls,
        tools: tuple[ToolSpec, ...],
        owner_prompt: Callable[[], str],
        estop: Estop,
        clock: Clock,
        limits: StepLimits,
    ) -> None:
        self._db = db
        self._model = model
        self._calls = calls
        self._tools = tools
        self._owner_prompt = owner_prompt
        self._estop = estop
        self._clock = clock
        self._limits = limits

    async def step(self, order: StepOrder) -> StepDone:
        """Do the step, or what is left of it."""
        turn = Turn(order.turn_id, order.thread_id, "job", order.inherited, fresh=order.fresh, job=order.limits)
        earlier, own = self._shown(order, turn)
        stored = _answer_of(own, order.number)
        if stored is not None and not stored.tool_calls:
            return _done(turn, "answered", text=stored.content)
        about: dict[str, Json] = {"job_id": order.limits.job_id, "step": order.number}
        if stored is not None:
            return await self._take_up(turn, stored, own, about)
        rows = [*earlier, *_missing(order, own), *_fitting(own, self._limits.shown_bytes)]
        return await self._begin(turn, order, rows, about)

    def _shown(self, order: StepOrder, turn: Turn) -> tuple[list[MessageRow], list[MessageRow]]:
        """What the model will be shown: the conversation before the job, and the job's own turn. All of it taints."""
        db = self._db.reader
        earlier = of_chat(messages_before(db, order.thread_id, order.turn_id, self._limits.earlier))
        own = of_job(turn_messages(db, order.thread_id, order.turn_id, self._limits.messages))
        for label, fresh in brought_in(db, order.thread_id, order.turn_id):  # a step that was cut left no checkpoint
            turn.take_in(label, kept=not fresh)
        take_in_shown(turn, (row.label for row in (*earlier, *own)))
        for row in (*earlier, *own):
            if row.role == "user" or (row.role == "tool" and row.metadata.get("fetched") is True):
                turn.hear(row.content)
        for words in order.words:
            turn.hear(words)
        for url in asked_urls(db, order.turn_id):
            turn.follow(url)
        return earlier, own

    async def _begin(
        self, turn: Turn, order: StepOrder, rows: Sequence[MessageRow], about: dict[str, Json]
    ) -> StepDone:
        if self._estop.engaged():
            return _done(turn, "held")
        allowed = order.limits.constraints.allowed_tools
        request = ChatRequest(
            system_prompt=system_prompt(self._owner_prompt(), stopped=False, task=order.task),
            messages=chat_messages(rows),
            tools=tuple(tool for tool in self._tools if allowed is None or tool.name in allowed),
            model=self._model.name,
            max_output_tokens=self._limits.output_tokens,
            metadata={"hint": "job"},
        )
        spent: list[Spent] = []
        try:
            response = await self._model.ask(request, spent, max_calls=self._limits.calls)
        except Halted:
            await self._calls.lose(turn, spent)
            return _done(turn, "held")
        except BaseException:  # a cut too: what was asked is paid for
            await self._calls.lose(turn, spent)
            raise
        if not response.tool_calls:
            text = await self._calls.answer(turn, response.final_text.strip(), response, spent, about)
            return _done(turn, "answered", text=text)
        waiting: list[str] = []
        actions = await self._calls.propose(turn, order.number, response, spent, about)
        for action in actions:
            if self._estop.engaged():
                return _done(turn, "held")
            outcome = await self._calls.carry(turn, action, about)
            if outcome.pending or outcome.again:
                waiting.append(action.action_id)
        return _done(turn, "waiting" if waiting else "called", waiting=tuple(waiting), calls=len(actions))

    # After a crash, a cut or a stop

    async def _take_up(
        self, turn: Turn, answer: MessageRow, own: Sequence[MessageRow], about: dict[str, Json]
    ) -> StepDone:
        """Bring every call of a stored answer to its end, or to where it waits."""
        recorded = {row.action_id for row in own if row.role == "tool"}
        waiting: list[str] = []
        for action_id, call in zip(_actions_of(answer), answer.tool_calls, strict=False):
            if self._estop.engaged():
                return _done(turn, "held")
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
            waiting += [] if standing.ended else [action_id]
        stage: Stage = "waiting" if waiting else "called"
        return _done(turn, stage, waiting=tuple(waiting), calls=len(answer.tool_calls))

    def _load(self, action_id: str) -> Action | None:
        try:
            return load_action(self._db.reader, action_id)
        except RowDamaged as error:  # this job's fault, not the disk's
            raise CoilclawError(error.message, remedy=error.remedy) from error

    async def _settled(self, turn: Turn, action_id: str) -> Standing | None:
        """Where an action stands, once what a dead process left begun has been taken up."""
        standing = standing_of(self._db.reader, turn.turn_id).get(action_id)
        if standing is not None and standing.begun and standing.held and not standing.ended:
            with suppress(Taken):  # somebody else was faster; what they wrote is looked at below
                await self._calls.conveyor.recover()
            standing = standing_of(self._db.reader, turn.turn_id).get(action_id)
        return standing


def _done(turn: Turn, stage: Stage, *, text: str = "", waiting: tuple[str, ...] = (), calls: int = 0) -> StepDone:
    return StepDone(stage=stage, text=text, waiting=waiting, calls=calls, inherited=turn.inherited, fresh=turn.fresh)


def _missing(order: StepOrder, own: Sequence[MessageRow]) -> list[MessageRow]:
    """The owner's words that have gone out of sight, or out of memory."""
    there = {row.content for row in own if row.role == "user"}
    return [
        MessageRow(
            message_id="", thread_id=order.thread_id, turn_id=order.turn_id, role="user", content=words, label=OWNER
        )
        for words in order.words
        if words not in there
    ]


def _fitting(own: Sequence[MessageRow], most: int) -> list[MessageRow]:
    """As much of the latest work as may be shown."""
    last = max((place for place, row in enumerate(own) if row.role == "assistant"), default=len(own))
    kept: list[MessageRow] = []
    size = 0
    for place in reversed(range(len(own))):
        row = own[place]
        size += len(row.content) + sum(len(call.arguments) for call in row.tool_calls)
        if place < last and size > most and row.role != "user":
            return [*(each for each in own[:place] if each.role == "user"), *reversed(kept)]
        kept.append(row)
    return list(reversed(kept))


def _answer_of(own: Sequence[MessageRow], number: int) -> MessageRow | None:
    """The stored answer of a step, if the model gave one already."""
    return next((row for row in reversed(own) if row.role == "assistant" and row.metadata.get("step") == number), None)


def _actions_of(answer: MessageRow) -> tuple[str, ...]:
    try:
        return msgspec.convert(answer.metadata.get("actions", []), tuple[str, ...])
    except msgspec.ValidationError:
        return ()


def _result_of(standing: Standing) -> ToolResult:
    """What the model is told of an action that came to its end, or to its waiting, while nobody was there."""
    if standing.ended and standing.result is not None:
        return standing.result
    if standing.ended:
        text = f"{standing.tool} ended as {standing.status}. {standing.rejection_reason or ''}".strip()
        return ToolResult(success=False, output=text, error=text, code=standing.status, label=INTERNAL)
    text = f"pending {standing.action_id}: it waits for the owner or for its next try."
    return ToolResult(success=False, output=text, error=text, code="APPROVAL_NEEDED", label=INTERNAL)
