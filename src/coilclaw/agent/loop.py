"""The turn: receive, remember, ask the model, gate its calls, feed the results back, answer."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from coilclaw.agent.context import chat_messages, system_prompt
from coilclaw.agent.proposal import call_key, typed_call
from coilclaw.gate.conveyor import Conveyor, Observer, Outcome
from coilclaw.gate.estop import Estop
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import INTERNAL, ToolResult
from coilclaw.packets.chat import ChatRequest, ChatResponse, ProposedCall, ToolSpec
from coilclaw.packets.errors import ModelOutputError, ProviderError, UsageError
from coilclaw.packets.ids import Clock, new_id
from coilclaw.packets.job import UserMessage
from coilclaw.packets.ports import Provider
from coilclaw.store.database import Database
from coilclaw.store.threads import MessageRow, add_message, ensure_thread, recent_messages, thread_labels

Ending: TypeAlias = Literal["answered", "max_rounds", "budget", "pending"]
ReadProposal: TypeAlias = Callable[[str], ChatResponse | None]
STOPPED = "ESTOP was engaged while the model was answering, so its answer was cut off. Tools are stopped too."
REPAIR = "Your last answer could not be read ({fault}). Answer again: plain text, or valid tool calls."


class LoopLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a turn."""

    max_tool_rounds: int = 5
    turn_token_budget: int = 100_000
    max_message_bytes: int = 1 << 20
    recent_messages: int = 20
    max_calls_per_round: int = 16


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
        tools: tuple[ToolSpec, ...],
        owner_prompt: Callable[[], str],
        read_proposal: ReadProposal,
        estop: Estop,
        clock: Clock,
        limits: LoopLimits,
        observe: Observer,
        redact: Callable[[str], str],
        seal: Callable[[str], str],
    ) -> None:
        self._db = db
        self._conveyor = conveyor
        self._provider = provider
        self._model = model
        self._fallback_model = fallback_model
        self._tools = tools
        self._owner_prompt = owner_prompt
        self._read_proposal = read_proposal
        self._estop = estop
        self._clock = clock
        self._limits = limits
        self._observe = observe
        self._redact = redact
        self._seal = seal

    async def turn(self, message: UserMessage, on_text: Callable[[str], None] | None = None) -> Reply:
        """Answer one message of the owner."""
        self._check(message)
        turn_id = new_id("turn", self._clock())
        labels = thread_labels(self._db.reader, message.thread_id)
        text = self._redact(message.text)
        if text != message.text:
            self._observe("message_redacted", {"message": "a secret in your message was taken out before it was kept."})
        await self._db.write(lambda tx: self._receive(tx, msgspec.structs.replace(message, text=text), turn_id))
        self._observe("conversation_started", {"conversation_id": message.thread_id, "turn_id": turn_id})
        turn = Turn(turn_id, message.thread_id, message.source, labels)
        for row in recent_messages(self._db.reader, message.thread_id, self._limits.recent_messages):
            if row.role == "user" or (row.role == "tool" and row.metadata.get("fetched") is True):
                turn.hear(row.content)
        try:
            return await self._rounds(turn, on_text)
        except ProviderError as error:
            code = "FAILED_MODEL_OUTPUT" if isinstance(error, ModelOutputError) else "PROVIDER_FAILED"
            await self._conveyor.note("turn_failed", turn_id, {"code": code})
            raise

    def _check(self, message: UserMessage) -> None:
        if not message.text.strip():
            raise UsageError("the message is empty.", remedy="Say what you want done.")
        if "\0" in message.text:
            raise UsageError("the message holds NUL bytes.", remedy="Send text; put binary data in a workspace file.")
        try:
            size = len(message.text.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise UsageError("the message is not valid UTF-8 text.") from error
        if size > self._limits.max_message_bytes:
            raise UsageError(
                f"the message is {size} bytes; at most {self._limits.max_message_bytes} are taken.",
                remedy="Put the text in a workspace file and ask about that.",
            )

    def _receive(self, tx: sqlite3.Connection, message: UserMessage, turn_id: str) -> None:
        ensure_thread(tx, self._clock, message.thread_id, message.channel, message.text.strip().splitlines()[0])
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

    async def _rounds(self, turn: Turn, on_text: Callable[[str], None] | None) -> Reply:
        outcomes: list[Outcome] = []
        tokens = 0
        ending: Ending = "answered"
        for number in range(self._limits.max_tool_rounds + 1):
            if tokens > self._limits.turn_token_budget:
                ending = "budget"
            elif number == self._limits.max_tool_rounds:
                ending = "max_rounds"
            elif any(outcome.pending for outcome in outcomes):
                ending = "pending"
            tools = self._tools if ending == "answered" else ()
            response = await self._ask(turn, tools, on_text)
            tokens += response.usage.total if response.usage else 0
            if not response.tool_calls or ending != "answered":
                return await self._answer(turn, response, tuple(outcomes), ending, tokens)
            outcomes += await self._calls(turn, number, response)
        raise AssertionError("the last round always answers")

    async def _ask(
        self, turn: Turn, tools: tuple[ToolSpec, ...], on_text: Callable[[str], None] | None
    ) -> ChatResponse:
        """One answer: a repair try on the same model, then the fallback model once, then the failure is final."""
        request = ChatRequest(
            system_prompt=system_prompt(self._owner_prompt(), stopped=self._estop.engaged()),
            messages=chat_messages(recent_messages(self._db.reader, turn.thread_id, self._limits.recent_messages)),
            tools=tools,
            model=self._model,
            metadata={"hint": "chat"},
        )
        try:
            return self._read(await self._chat(request, on_text))
        except ModelOutputError as error:
            fault = error.message
        repair = msgspec.structs.replace(
            request, system_prompt=f"{request.system_prompt}\n\n{REPAIR.format(fault=fault[:200])}"
        )
        try:
            return self._read(await self._chat(repair, on_text))
        except ModelOutputError:
            if not self._fallback_model:
                raise
        return self._read(await self._chat(msgspec.structs.replace(repair, model=self._fallback_model), on_text))

    async def _chat(self, request: ChatRequest, on_text: Callable[[str], None] | None) -> ChatResponse:
        """Ask the model. ESTOP ends a request that is under way; once engaged, text is still answered."""
        if self._estop.engaged():
            return await self._provider.chat(request, on_text)
        work = asyncio.ensure_future(self._provider.chat(request, on_text))
        stop = asyncio.ensure_future(self._estop.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            return ChatResponse(final_text=STOPPED, provider=self._provider.name)
        finally:
            stop.cancel()
            work.cancel()
            await asyncio.wait({work})

    def _read(self, response: ChatResponse) -> ChatResponse:
        """Native calls and the structured form are two spellings of the same proposal."""
        if not response.tool_calls:
            structured = self._read_proposal(response.final_text)
            if structured is not None:
                response = msgspec.structs.replace(
                    response, final_text=structured.final_text, tool_calls=structured.tool_calls
                )
        if not response.tool_calls and not response.final_text.strip():
            raise ModelOutputError("the model answered with nothing at all.")
        if len(response.tool_calls) > self._limits.max_calls_per_round:
            raise ModelOutputError(
                f"the model proposed {len(response.tool_calls)} calls at once; at most"
                f" {self._limits.max_calls_per_round} are taken."
            )
        return response

    async def _calls(self, turn: Turn, number: int, response: ChatResponse) -> list[Outcome]:
        """Store the proposals together with the answer that made them, then carry each through the gate."""
        proposed = _with_ids(tuple(self._sealed(call) for call in response.tool_calls), number)
        actions = [
            self._conveyor.propose(
                typed_call(msgspec.structs.replace(raw, call_id=kept.call_id)),
                turn,
                call_key(turn.turn_id, number, index),
            )
            for index, (raw, kept) in enumerate(zip(response.tool_calls, proposed, strict=True))
        ]
        row = self._row(turn, "assistant", response.final_text, response, tool_calls=proposed)

        def store(tx: sqlite3.Connection) -> None:
            add_message(tx, self._clock, row)
            for action in actions:
                self._conveyor.store(tx, action)

        await self._db.write(store)
        outcomes: list[Outcome] = []
        for action in actions:
            remember = self._remember(turn, action.call.call_id, action.action_id)
            outcomes.append(await self._conveyor.carry(action, turn, stored=True, record=remember))
        return outcomes

    def _sealed(self, call: ProposedCall) -> ProposedCall:
        """The proposal as it may be remembered: without registered secrets."""
        return msgspec.structs.replace(
            call,
            call_id=self._seal(call.call_id),
            tool=self._seal(call.tool),
            arguments=self._seal(call.arguments),
            justification=self._seal(call.justification),
        )

    def _remember(self, turn: Turn, call_id: str, action_id: str) -> Callable[[sqlite3.Connection, ToolResult], None]:
        def record(tx: sqlite3.Connection, result: ToolResult) -> None:
            metadata = {"code": result.code, "success": result.success, "receipt_id": result.receipt_id}
            if result.fetched:
                metadata["fetched"] = True
            row = MessageRow(
                message_id=new_id("msg", self._clock()),
                thread_id=turn.thread_id,
                turn_id=turn.turn_id,
                role="tool",
                content=result.output,
                label=result.label,
                tool_call_id=call_id,
                action_id=action_id,
                metadata=dict(metadata),
            )
            add_message(tx, self._clock, row)

        return record

    def _row(
        self,
        turn: Turn,
        role: Literal["assistant"],
        text: str,
        response: ChatResponse,
        *,
        tool_calls: tuple[ProposedCall, ...] = (),
    ) -> MessageRow:
        usage = response.usage
        return MessageRow(
            message_id=new_id("msg", self._clock()),
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            role=role,
            content=self._redact(text),
            label=turn.taint[0] if turn.taint else INTERNAL,
            tool_calls=tool_calls,
            provider=response.provider,
            model=response.model,
            metadata={"usage": {"input": usage.input_tokens, "output": usage.output_tokens}} if usage else {},
        )

    async def _answer(
        self, turn: Turn, response: ChatResponse, outcomes: tuple[Outcome, ...], ending: Ending, tokens: int
    ) -> Reply:
        text = response.final_text.strip() or _closing(ending, self._limits)
        row = self._row(turn, "assistant", text, response)
        await self._db.write(lambda tx: add_message(tx, self._clock, row))
        self._observe("memory_persisted", {"conversation_id": turn.thread_id, "turn_id": turn.turn_id})
        return Reply(
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            text=row.content,
            outcomes=outcomes,
            ending=ending,
            provider=response.provider,
            model=response.model,
            tokens=tokens,
        )


def _with_ids(calls: tuple[ProposedCall, ...], number: int) -> tuple[ProposedCall, ...]:
    """Every call gets an id of its own, whatever the model wrote."""
    seen: set[str] = set()
    named: list[ProposedCall] = []
    for index, call in enumerate(calls):
        call_id = call.call_id if call.call_id and call.call_id not in seen else f"call_{number}_{index}"
        seen.add(call_id)
        named.append(msgspec.structs.replace(call, call_id=call_id))
    return tuple(named)


def _closing(ending: Ending, limits: LoopLimits) -> str:
    return {
        "answered": "(the model gave no text)",
        "max_rounds": f"I stopped after {limits.max_tool_rounds} rounds of tool calls without a final answer.",
        "budget": f"I stopped: this turn used up its {limits.turn_token_budget} tokens.",
        "pending": "This waits for your approval.",
    }[ending]
