"""A step of a job: one answer of the model and the carrying of its calls, taken up where a crash left it.

Whatever is stored is never asked for again: the answer of a step carries the step's number, its calls the ids of their
actions, so that a new process sees which of them still need carrying.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from coilclaw.agent.calls import Calls
from coilclaw.agent.context import chat_messages, of_chat, of_job, system_prompt, take_in_shown
from coilclaw.agent.model import Halted, Model
from coilclaw.agent.recorded import Recorded
from coilclaw.agent.spending import Spent
from coilclaw.gate.estop import Estop
from coilclaw.gate.skills import NO_SKILLS, TurnSkills
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import OWNER, Label
from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ChatRequest, ChatResponse, ToolSpec
from coilclaw.packets.errors import StepOverrun
from coilclaw.packets.ids import Clock
from coilclaw.packets.job import JobLimits, StepReport
from coilclaw.store.database import Database
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
    words: tuple[tuple[str, Label], ...]
    """What was asked for, and the step of the plan it is at, each with its label; always shown. What is not the
    owner's stands as the agent's own words."""
    task: str
    """What the model is told about the job."""
    limits: JobLimits
    inherited: tuple[Label, ...]
    fresh: tuple[Label, ...]
    position: int = 0
    """The step of the plan it works on."""
    hint: str = "job"
    """What a router goes by."""
    evidence: tuple[str, ...] = ()
    """What the step of the plan must leave; its calls carry it as their expected outputs."""


class Stepper:
    """Does steps."""

    def __init__(
        self,
        *,
        db: Database,
        model: Model,
        calls: Calls,
        tools: tuple[ToolSpec, ...],
        owner_prompt: Callable[[Turn], str],
        estop: Estop,
        clock: Clock,
        limits: StepLimits,
        skills: TurnSkills = NO_SKILLS,
    ) -> None:
        self._db = db
        self._model = model
        self._calls = calls
        self._recorded = Recorded(db=db, calls=calls)
        self._tools = tools
        self._owner_prompt = owner_prompt
        self._estop = estop
        self._clock = clock
        self._limits = limits
        self._skills = skills

    async def step(self, order: StepOrder) -> StepReport:
        """Do the step, or what is left of it."""
        turn = Turn(order.turn_id, order.thread_id, "job", order.inherited, fresh=order.fresh, job=order.limits)
        earlier, own = self._shown(order, turn)
        stored = _answer_of(own, order.number)
        if stored is not None and not stored.tool_calls:
            return _done(turn, "answered", text=stored.content)
        about: dict[str, Json] = {"job_id": order.limits.job_id, "step": order.number}
        if order.position:
            about["plan_step"] = order.position
        if stored is not None:
            return await self._take_up(turn, stored, own, about)
        rows = [*earlier, *_missing(order, own), *_fitting(own, self._limits.shown_bytes)]
        return await self._begin(turn, order, rows, about)

    def _shown(self, order: StepOrder, turn: Turn) -> tuple[list[MessageRow], list[MessageRow]]:
        """What the model will be shown: the conversation before the job, and the job's own turn. All of it taints."""
        db = self._db.reader
        earlier = of_chat(messages_before(db, order.thread_id, order.turn_id, self._limits.earlier))
        own = of_job(turn_messages(db, order.thread_id, order.turn_id, self._limits.messages))
        self._recorded.recall(turn)  # a step that was cut left no checkpoint
        take_in_shown(turn, (row.label for row in (*earlier, *own)))
        return earlier, own

    async def _begin(
        self, turn: Turn, order: StepOrder, rows: Sequence[MessageRow], about: dict[str, Json]
    ) -> StepReport:
        if self._estop.engaged():
            return _done(turn, "held")
        allowed = order.limits.constraints.allowed_tools
        skills = await self._skills.guide(turn)
        owner = f"{self._owner_prompt(turn)}\n\n{skills.text}"
        request = ChatRequest(
            system_prompt=system_prompt(owner, stopped=False, task=order.task),
            messages=chat_messages(rows),
            tools=tuple(
                tool for tool in self._tools if (allowed is None or tool.name in allowed) and skills.leaves(tool.name)
            ),
            model=self._model.name,
            max_output_tokens=self._limits.output_tokens,
            metadata={"hint": order.hint},
        )
        spent: list[Spent] = []
        try:
            response = await self._model.ask(request, spent, max_calls=None)
            self._check_bounds(response, spent)
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
        actions = await self._calls.propose(turn, order.number, response, spent, about, order.evidence)
        for action in actions:
            if self._estop.engaged():
                return _done(turn, "held")
            outcome = await self._calls.carry(turn, action, about)
            if outcome.pending or outcome.again:
                waiting.append(action.action_id)
        return _done(turn, "waiting" if waiting else "called", waiting=tuple(waiting), calls=len(actions))

    def _check_bounds(self, response: ChatResponse, spent: Sequence[Spent]) -> None:
        """StepOverrun when the answer wants more than one step may do; asking again within the step would not help."""
        calls, written = len(response.tool_calls), sum(each.output_tokens for each in spent)
        if calls > self._limits.calls:
            raise StepOverrun(f"The step proposed {calls} calls; a step may make {self._limits.calls}.")
        if written > self._limits.output_tokens:
            raise StepOverrun(f"The step wrote {written} tokens; a step may write {self._limits.output_tokens}.")

    # After a crash, a cut or a stop

    async def _take_up(
        self, turn: Turn, answer: MessageRow, own: Sequence[MessageRow], about: dict[str, Json]
    ) -> StepReport:
        """Bring every call of a stored answer to its end, or to where it waits."""
        waiting = await self._recorded.take_up(turn, answer, own, about, self._estop.engaged)
        if waiting is None:
            return _done(turn, "held")
        stage: Stage = "waiting" if waiting else "called"
        return _done(turn, stage, waiting=tuple(waiting), calls=len(answer.tool_calls))


def _done(turn: Turn, stage: Stage, *, text: str = "", waiting: tuple[str, ...] = (), calls: int = 0) -> StepReport:
    return StepReport(stage=stage, text=text, waiting=waiting, calls=calls, inherited=turn.inherited, fresh=turn.fresh)


def _missing(order: StepOrder, own: Sequence[MessageRow]) -> list[MessageRow]:
    """The words of the job that have gone out of sight, or out of memory."""
    there = {(row.role, row.content) for row in own}
    told = [
        MessageRow(
            message_id="",
            thread_id=order.thread_id,
            turn_id=order.turn_id,
            role="user" if label == OWNER else "assistant",
            content=words,
            label=label,
        )
        for words, label in order.words
    ]
    return [row for row in told if (row.role, row.content) not in there]


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
