"""The turn: receive, remember, ask the model, gate its calls, feed the results back, answer."""

import asyncio
import copy
import math
from collections.abc import Callable, Collection, Sequence
from typing import Literal, TypeAlias

import msgspec

from coilclaw.agent.calls import Calls
from coilclaw.agent.compaction import Compaction, ShownRows, Use
from coilclaw.agent.context import REPEATED, REPEATS, of_chat, repeats, system_prompt, take_in_shown
from coilclaw.agent.model import PATIENCE, Halted, Model, OnText, ReadProposal
from coilclaw.agent.pictures import PictureReader, Pictures
from coilclaw.agent.recorded import Recorded, round_of
from coilclaw.agent.spending import Spent, check_day
from coilclaw.agent.window import declared_size
from coilclaw.gate.conveyor import Conveyor, Observer, Outcome
from coilclaw.gate.estop import Estop
from coilclaw.gate.skills import NO_SKILLS, TAKE, Guidance, OnTurn, TurnSkills
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Source
from coilclaw.packets.chat import ChatRequest, ChatResponse, ToolSpec
from coilclaw.packets.errors import ModelOutputError, ProviderError, UsageError
from coilclaw.packets.ids import Clock, new_id
from coilclaw.packets.job import UserMessage
from coilclaw.packets.ports import Provider
from coilclaw.store.database import Database
from coilclaw.store.threads import (
    MessageRow,
    add_message,
    ensure_thread,
    messages_and_since,
    messages_until,
    name_thread,
    thread_labels,
    turn_messages,
)
from coilclaw.store.tx import Tx
from coilclaw.store.usage import tokens_of_turn

Also: TypeAlias = Callable[[Tx, str], None]
"""Writes what belongs to a message that is being accepted, given the id of its turn."""
Ending: TypeAlias = Literal["answered", "max_rounds", "budget", "stuck", "pending"]
OnAnswer: TypeAlias = Callable[[Tx, Ending], None]
"""Writes what belongs to the end of a turn, in the transaction that keeps its last word."""
TURN_MESSAGES = 1000
"""More messages than the rounds and calls of one turn can produce."""
STOPPED = "ESTOP was engaged while the model was answering, so its answer was cut off. Tools are stopped too."


class LoopLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a turn."""

    max_tool_rounds: int = 50
    turn_token_budget: int = 3_000_000
    max_message_bytes: int = 1 << 20
    recent_messages: int = 1000
    context_tokens: int = 0
    """The window to fill; 0 means as large as the model's."""
    max_calls_per_round: int = 16
    daily_tokens: int | None = None
    """Tokens that all work of a day may use together; None means no limit."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended."""

    thread_id: str
    turn_id: str
    text: str
    outcomes: tuple[Outcome, ...]
    ending: Ending
    provider: str
    model: str
    tokens: int


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A stored message that waits for its answer. All of it is in the database, so any process can answer."""

    turn_id: str
    thread_id: str
    source: Source


class Agent:
    """Runs turns."""

    def __init__(
        self,
        *,
        db: Database,
        conveyor: Conveyor,
        provider: Provider,
        model: str,
        fallback_model: str,
        provider_of: Callable[[str], Provider | None],
        tools: tuple[ToolSpec, ...],
        owner_prompt: Callable[[Turn], str],
        where: str,
        read_proposal: ReadProposal,
        estop: Estop,
        clock: Clock,
        limits: LoopLimits,
        observe: Observer,
        redact: Callable[[str], str],
        seal: Callable[[str], str],
        read_picture: PictureReader,
        skills: TurnSkills = NO_SKILLS,
    ) -> None:
        self._db = db
        self._conveyor = conveyor
        self._read_proposal = read_proposal
        self._provider_of = provider_of
        """The model chosen for a conversation; None: the default."""
        self._calls = Calls(db=db, conveyor=conveyor, clock=clock, redact=redact, seal=seal)
        self._recorded = Recorded(db=db, calls=self._calls)
        self._offer(tools)
        self._owner_prompt = owner_prompt
        self._where = where
        self._estop = estop
        self._clock = clock
        self._limits = limits
        self._observe = observe
        self._redact = redact
        self._skills = skills
        self._read_picture = read_picture
        self._use(provider, model, fallback_model)

    def _use(self, provider: Provider, model: str, fallback_model: str) -> None:
        self._model = Model(
            provider=provider,
            model=model,
            fallback_model=fallback_model,
            read_proposal=self._read_proposal,
            estop=self._estop,
            patience=PATIENCE,
            on_wait=self._tell_wait,
        )
        window = self._limits.context_tokens or provider.capabilities.context_window
        pictures = Pictures(self._read_picture, sees=provider.capabilities.sees)
        self._compaction = Compaction(model=self._model, calls=self._calls, window=window, pictures=pictures)

    def _tell_wait(self, why: str, seconds: float) -> None:
        text = f"waiting {math.ceil(seconds)} s, then the model is asked again: {why}"
        self._observe("model_waiting", {"message": text})

    def _of(self, thread_id: str) -> "Agent":
        """The same agent with the model of a conversation, looked up anew for every turn."""
        provider = self._provider_of(thread_id)
        if provider is None:
            return self
        chosen = copy.copy(self)
        chosen._use(provider, "", "")  # noqa: SLF001 - a copy of itself
        return chosen

    def without(self, tools: Collection[str]) -> "Agent":
        """The same agent with fewer tools to offer."""
        fewer = copy.copy(self)
        fewer._offer(tuple(tool for tool in self._tools if tool.name not in tools))  # noqa: SLF001 - a copy of itself
        return fewer

    def _offer(self, tools: tuple[ToolSpec, ...]) -> None:
        self._tools = tools
        self._declared = declared_size(tools)

    async def turn(
        self,
        message: UserMessage,
        on_text: OnText | None = None,
        *,
        turn_id: str = "",
        in_transaction: Also | None = None,
        on_answer: OnAnswer | None = None,
    ) -> Reply:
        """Answer one message of the owner."""
        self._check(message)
        check_day(self._db.reader, self._clock, self._limits.daily_tokens)
        return await self._run(await self.accept(message, in_transaction, turn_id=turn_id), on_text, None, on_answer)

    async def accept(self, message: UserMessage, in_transaction: Also | None = None, *, turn_id: str = "") -> Accepted:
        """Check a message and keep it, without secrets. `also` writes in the same transaction, right before it."""
        self._check(message)
        turn_id = turn_id or new_id("turn", self._clock())
        text = self._redact(message.text)
        if text != message.text:
            self._observe(
                "message_redacted", {"message": "a secret in your message was redacted before it was stored."}
            )
        kept = msgspec.structs.replace(message, text=text)
        matched = self._skills.match(text)  # before any model is asked, and kept with the message
        await self._db.write(lambda tx: self._receive(tx, kept, turn_id, in_transaction, matched))
        return Accepted(turn_id=turn_id, thread_id=message.thread_id, source=message.source)

    async def run(
        self,
        accepted: Accepted,
        on_text: OnText | None = None,
        on_round: Callable[[], None] | None = None,
        on_answer: OnAnswer | None = None,
    ) -> Reply:
        """Answer an accepted message, whichever process accepted it, and continue from what is stored.

        `on_round` is told before the model is asked each time.
        """
        check_day(self._db.reader, self._clock, self._limits.daily_tokens)
        return await self._run(accepted, on_text, on_round, on_answer)

    async def _run(
        self,
        accepted: Accepted,
        on_text: OnText | None,
        on_round: Callable[[], None] | None,
        on_answer: OnAnswer | None,
    ) -> Reply:
        self._observe("conversation_started", {"conversation_id": accepted.thread_id, "turn_id": accepted.turn_id})
        # Looked up now, not when it was accepted: answers given in between belong to the earlier conversation.
        labels = thread_labels(self._db.reader, accepted.thread_id)
        turn = Turn(accepted.turn_id, accepted.thread_id, accepted.source, labels)
        self._recorded.recall(turn)
        try:
            return await self._of(turn.thread_id)._rounds(turn, on_text, on_round, on_answer)  # noqa: SLF001
        except ProviderError as error:
            code = "FAILED_MODEL_OUTPUT" if isinstance(error, ModelOutputError) else "PROVIDER_FAILED"
            await self._conveyor.intake.note("turn_failed", accepted.turn_id, {"code": code})
            raise

    def _check(self, message: UserMessage) -> None:
        if not message.text.strip():
            raise UsageError("the message is empty.", remedy="Say what you want done.")
        if "\0" in message.text:
            raise UsageError(
                "the message contains NUL bytes.", remedy="Send text; put binary data in a workspace file."
            )
        try:
            size = len(message.text.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise UsageError("the message is not valid UTF-8 text.") from error
        if size > self._limits.max_message_bytes:
            raise UsageError(
                f"the message is {size} bytes; at most {self._limits.max_message_bytes} are allowed.",
                remedy="Put the text in a workspace file and ask about that.",
            )

    def _receive(
        self, tx: Tx, message: UserMessage, turn_id: str, in_transaction: Also | None, matched: OnTurn | None
    ) -> None:
        ensure_thread(tx, self._clock, message.thread_id, message.channel, message.text.strip().splitlines()[0])
        name_thread(tx, message.thread_id, message.text.strip().splitlines()[0])
        if in_transaction is not None:
            in_transaction(tx, turn_id)
        if matched is not None:
            matched(tx, turn_id)
        row = MessageRow(
            message_id=message.message_id,
            thread_id=message.thread_id,
            turn_id=turn_id,
            role="user",
            content=message.text,
            label=message.label,
            metadata=message.metadata,
        )
        add_message(tx, self._clock, row)

    async def _rounds(
        self, turn: Turn, on_text: OnText | None, on_round: Callable[[], None] | None, on_answer: OnAnswer | None
    ) -> Reply:
        try:
            return await self._all_rounds(turn, on_text, on_round, on_answer)
        except asyncio.CancelledError:
            await asyncio.shield(self._calls.let_go(turn))
            raise

    async def _all_rounds(
        self, turn: Turn, on_text: OnText | None, on_round: Callable[[], None] | None, on_answer: OnAnswer | None
    ) -> Reply:
        outcomes: list[Outcome] = []
        first, tokens, waits = await self._left(turn)
        ending: Ending = "answered"
        owner = self._owner_prompt(turn)  # once: the prompt stays the same, so the provider's cache keeps working
        skills = await self._skills.guide(turn)
        if skills.lacks and first == 0:  # no model is asked: what the owner wrote down as needed is not there
            refused = ChatResponse(final_text=skills.lacks, provider=self._model.provider)
            return await self._answer(turn, refused, [], (), "answered", 0, on_answer)
        before: list[MessageRow] | None = None
        known: dict[str, MessageRow] = {}
        for number in range(first, self._limits.max_tool_rounds + 1):
            if waits:
                return await self._wait(turn, tuple(outcomes), tokens, on_answer)
            if tokens > self._limits.turn_token_budget:
                ending = "budget"
            elif number == self._limits.max_tool_rounds:
                ending = "max_rounds"
            if before is None or number == 1:  # from its first answer on, what stood before a turn stays as it is
                before = self._before(turn.thread_id, turn.turn_id)
            rows = [*before, *self._since(turn, known)]
            repeated = repeats(rows, turn.turn_id)
            if repeated > REPEATS:
                ending = "stuck"
            tools = self._told_of(skills)
            spent: list[Spent] = []
            if on_round is not None:
                on_round()
            notice = REPEATED if repeated == REPEATS else ""
            prompt = system_prompt(f"{owner}\n\n{skills.text}", stopped=self._estop.engaged(), task=self._where)
            asked = ChatRequest(
                system_prompt=prompt,
                messages=(),
                tools=tools,
                model=self._model.name,
                may_call=ending == "answered",
                metadata={"hint": "chat"},
            )
            response = await self._ask(turn, asked, rows, spent, on_text, notice)
            tokens += sum(each.total for each in spent)
            if not response.tool_calls or ending != "answered":
                return await self._answer(turn, response, spent, tuple(outcomes), ending, tokens, on_answer)
            for action in await self._calls.propose(turn, number, response, spent, {"round": number}):
                outcome = await self._calls.carry(turn, action, {})
                outcomes.append(outcome)
                waits = waits or outcome.pending
                if action.call.tool == TAKE:
                    skills = await self._skills.guide(turn)
        raise AssertionError("the last round always answers")

    def _told_of(self, skills: Guidance) -> tuple[ToolSpec, ...]:
        return tuple(tool for tool in self._tools if skills.leaves(tool.name))

    async def _wait(self, turn: Turn, outcomes: tuple[Outcome, ...], tokens: int, on_answer: OnAnswer | None) -> Reply:
        """Suspend the turn; it resumes when the last of its calls has an outcome."""
        if on_answer is not None:
            await self._db.write(lambda tx: on_answer(tx, "pending"))
        return Reply(
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            text=_closing("pending", self._limits),
            outcomes=outcomes,
            ending="pending",
            provider=self._model.provider,
            model=self._model.name,
            tokens=tokens,
        )

    async def _left(self, turn: Turn) -> tuple[int, int, bool]:
        """What a process that died left of this turn: its next round, the tokens it took, whether a call waits.

        Its last answer's calls are brought to their end first. Those of earlier rounds have theirs.
        """
        own = turn_messages(self._db.reader, turn.thread_id, turn.turn_id, TURN_MESSAGES)
        answers = [row for row in own if row.role == "assistant" and row.tool_calls]
        if not answers:
            return 0, 0, False
        waiting = await self._recorded.take_up(turn, answers[-1], own, {}, lambda: False)
        number = max(round_of(row, place) for place, row in enumerate(answers)) + 1
        tokens = tokens_of_turn(self._db.reader, turn.turn_id, since=own[0].created_at)
        return min(number, self._limits.max_tool_rounds), tokens, bool(waiting)

    async def _ask(
        self,
        turn: Turn,
        request: ChatRequest,
        rows: Sequence[MessageRow],
        spent: list[Spent],
        on_text: OnText | None,
        notice: str,
    ) -> ChatResponse:
        """Ask with as much of these rows as fits."""
        take_in_shown(turn, {row.label for row in rows})
        try:
            return await self._compaction.ask(
                turn,
                request,
                ShownRows(rows=rows, notice=notice),
                spent,
                declared=self._declared,
                max_calls=self._limits.max_calls_per_round,
                on_text=on_text,
            )
        except Halted:
            return ChatResponse(final_text=STOPPED, provider=self._model.provider)
        except BaseException:  # Ctrl-C too: the request was paid for
            await self._calls.lose(turn, spent)
            raise

    async def compact(self, thread_id: str) -> int:
        """Summarise the oldest part of a conversation now; returns the number of messages summarised."""
        turn = self._looking(thread_id)
        prompt = system_prompt(self._owner_prompt(turn), stopped=False, task=self._where)
        return await self._of(thread_id)._compaction.compact(turn, self._shown(turn), prompt, self._declared)  # noqa: SLF001

    def context_use(self, thread_id: str) -> Use:
        """How full the model's window is with this conversation."""
        turn = self._looking(thread_id)
        prompt = system_prompt(self._owner_prompt(turn), stopped=False, task=self._where)
        return self._of(thread_id)._compaction.use(self._shown(turn), prompt, self._declared)  # noqa: SLF001

    def _looking(self, thread_id: str) -> Turn:
        return Turn(new_id("turn", self._clock()), thread_id, "chat", thread_labels(self._db.reader, thread_id))

    def _shown(self, turn: Turn) -> list[MessageRow]:
        """The recent conversation, and all since this turn began: the current question must not scroll away."""
        return [*self._before(turn.thread_id, turn.turn_id), *self._since(turn, {})]

    def _since(self, turn: Turn, known: dict[str, MessageRow]) -> list[MessageRow]:
        return of_chat(messages_and_since(self._db.reader, turn.thread_id, turn.turn_id, TURN_MESSAGES, known))

    def _before(self, thread_id: str, turn_id: str) -> list[MessageRow]:
        """The recent conversation; a job that works in it may have pushed it further back."""
        most = self._limits.recent_messages
        rows = messages_until(self._db.reader, thread_id, turn_id, most)
        kept = of_chat(rows)
        if len(kept) < len(rows):
            kept = of_chat(messages_until(self._db.reader, thread_id, turn_id, most * 10))[-most:]
        return kept

    async def _answer(
        self,
        turn: Turn,
        response: ChatResponse,
        spent: list[Spent],
        outcomes: tuple[Outcome, ...],
        ending: Ending,
        tokens: int,
        on_answer: OnAnswer | None,
    ) -> Reply:
        text = response.final_text.strip() or _closing(ending, self._limits)

        def in_transaction(tx: Tx) -> None:
            if on_answer is not None:
                on_answer(tx, ending)

        kept = await self._calls.answer(turn, text, response, spent, {}, in_transaction)
        self._observe("memory_persisted", {"conversation_id": turn.thread_id, "turn_id": turn.turn_id})
        return Reply(
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            text=kept,
            outcomes=outcomes,
            ending=ending,
            provider=response.provider,
            model=response.model,
            tokens=tokens,
        )


def _closing(ending: Ending, limits: LoopLimits) -> str:
    return {
        "answered": "(the model gave no text)",
        "max_rounds": f"I stopped after {limits.max_tool_rounds} rounds of tool calls without a final answer.",
        "stuck": "I stopped: the same call kept giving the same result, so going on would not have helped.",
        "budget": f"I stopped: this turn used up its {limits.turn_token_budget} tokens.",
        "pending": "This waits for your approval.",
    }[ending]
