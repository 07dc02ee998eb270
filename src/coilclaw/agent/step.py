"""A step of a job: one answer of the model and the execution of its calls, resumed where a crash left it.

Whatever is stored is never asked for again: the answer of a step carries the step's number, its calls the ids of their
actions, so that a new process sees which of them still need carrying.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from coilclaw.agent.calls import Calls
from coilclaw.agent.compaction import Compaction, ShownRows
from coilclaw.agent.context import REPEATED, REPEATS, of_chat, of_job, repeats, system_prompt, take_in_shown
from coilclaw.agent.model import Halted, Model
from coilclaw.agent.pictures import Pictures
from coilclaw.agent.recorded import Recorded
from coilclaw.agent.spending import Spent
from coilclaw.agent.window import declared_size
from coilclaw.gate.estop import Estop
from coilclaw.gate.skills import NO_SKILLS, TurnSkills
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import OWNER, Label
from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import DEFAULT_CONTEXT_WINDOW, ChatRequest, ChatResponse, ToolSpec
from coilclaw.packets.errors import StepOverrun
from coilclaw.packets.ids import Clock
from coilclaw.packets.job import JobLimits, StepReport
from coilclaw.store.database import Database
from coilclaw.store.threads import MessageRow, messages_before, turn_messages

Stage: TypeAlias = Literal["called", "waiting", "answered", "held", "failed"]
"""All calls have an end; some wait; the model had nothing more to call; ESTOP holds the rest; it cannot be done."""
OWN_MESSAGES = 1000
"""How many messages of its own work are looked up; more than are shown at once."""
STUCK = "The same call kept giving the same result, so going on would not have helped."


class StepLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a step."""

    calls: int = 10
    output_tokens: int = 8000
    window: int = DEFAULT_CONTEXT_WINDOW
    """Tokens that a request and its answer may have together; the oldest part is summed up when it is full."""
    earlier: int = 20
    """How many messages of the conversation it was made in are looked up."""


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
    may_call: bool = True
    """False for a last word, when no more calls may be made."""
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
        pictures: Pictures,
        skills: TurnSkills = NO_SKILLS,
    ) -> None:
        self._db = db
        self._model = model
        self._calls = calls
        self._recorded = Recorded(db=db, calls=calls)
        self._compaction = Compaction(model=model, calls=calls, window=limits.window, pictures=pictures)
        self._tools = tools
        self._owner_prompt = owner_prompt
        self._estop = estop
        self._clock = clock
        self._limits = limits
        self._skills = skills

    async def step(self, order: StepOrder) -> StepReport:
        """Do the step, or the rest of it."""
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
        repeated = repeats(own, order.turn_id)
        if repeated > REPEATS:
            return _done(turn, "failed", reason=STUCK)
        notice = REPEATED if repeated == REPEATS else ""
        shown = ShownRows(rows=[*earlier, *own], notice=notice, words=_words(order), about=about)
        return await self._begin(turn, order, shown)

    def _shown(self, order: StepOrder, turn: Turn) -> tuple[list[MessageRow], list[MessageRow]]:
        """What the model will see: the conversation before the job, and the job's own turn. All of it taints."""
        db = self._db.reader
        earlier = of_chat(messages_before(db, order.thread_id, order.turn_id, self._limits.earlier))
        own = of_job(turn_messages(db, order.thread_id, order.turn_id, OWN_MESSAGES))
        self._recorded.recall(turn)  # a step that was cut left no checkpoint
        take_in_shown(turn, (row.label for row in (*earlier, *own)))
        return earlier, own

    async def _begin(self, turn: Turn, order: StepOrder, shown: ShownRows) -> StepReport:
        if self._estop.engaged():
            return _done(turn, "held")
        allowed = order.limits.constraints.allowed_tools
        skills = await self._skills.guide(turn)
        owner = f"{self._owner_prompt(turn)}\n\n{skills.text}"
        request = ChatRequest(
            system_prompt=system_prompt(owner, stopped=False, task=order.task),
            messages=(),
            tools=tuple(
                tool for tool in self._tools if (allowed is None or tool.name in allowed) and skills.leaves(tool.name)
            ),
            model=self._model.name,
            may_call=order.may_call,
            max_output_tokens=self._limits.output_tokens,
            metadata={"hint": order.hint},
        )
        spent: list[Spent] = []
        try:
            declared = declared_size(request.tools)
            response = await self._compaction.ask(turn, request, shown, spent, declared=declared, max_calls=None)
            self._check_bounds(response, spent)
        except Halted:
            await self._calls.lose(turn, spent)
            return _done(turn, "held")
        except BaseException:  # a cancellation too: the request was paid for
            await self._calls.lose(turn, spent)
            raise
        said = response.final_text.strip()
        if response.tool_calls and not order.may_call and not said:  # a server may ignore that text alone is wanted
            await self._calls.lose(turn, spent)
            return _done(turn, "called")
        if not response.tool_calls or not order.may_call:
            text = await self._calls.answer(turn, said, response, spent, shown.about)
            return _done(turn, "answered", text=text)
        waiting: list[str] = []
        actions = await self._calls.propose(turn, order.number, response, spent, shown.about, order.evidence)
        for action in actions:
            if self._estop.engaged():
                return _done(turn, "held")
            outcome = await self._calls.carry(turn, action, shown.about)
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


def _done(
    turn: Turn, stage: Stage, *, text: str = "", reason: str = "", waiting: tuple[str, ...] = (), calls: int = 0
) -> StepReport:
    return StepReport(
        stage=stage,
        text=text,
        reason=reason,
        waiting=waiting,
        calls=calls,
        inherited=turn.inherited,
        fresh=turn.fresh,
    )


def _words(order: StepOrder) -> list[MessageRow]:
    """The words of the job as rows: shown even when they have scrolled away or were deleted."""
    return [
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


def _answer_of(own: Sequence[MessageRow], number: int) -> MessageRow | None:
    """The stored answer of a step, if the model gave one already."""
    return next((row for row in reversed(own) if row.role == "assistant" and row.metadata.get("step") == number), None)
