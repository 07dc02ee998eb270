"""Calls: the proposals of one answer, stored together with it, then carried through the gate one by one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from coilclaw.agent.spending import Spent, write_spent
from coilclaw.gate.conveyor import Conveyor, Outcome, Record
from coilclaw.gate.owner_edit import carry_edited
from coilclaw.gate.proposal import call_key, typed_call
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Action, Label, ToolResult
from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ChatResponse, ProposedCall, unique_ids
from coilclaw.packets.ids import Clock, new_id
from coilclaw.packets.labels import is_untrusted, join_labels
from coilclaw.packets.pictures import pictures_of_result
from coilclaw.store.actions import load_action
from coilclaw.store.database import Database
from coilclaw.store.job_history import standing_of
from coilclaw.store.threads import MessageRow, add_message
from coilclaw.store.tx import Tx


class Calls:
    """Keeps answers and carries what they propose."""

    def __init__(
        self,
        *,
        db: Database,
        conveyor: Conveyor,
        clock: Clock,
        redact: Callable[[str], str],
        seal: Callable[[str], str],
    ) -> None:
        self._db = db
        self._clock = clock
        self._redact = redact
        self._seal = seal
        self.conveyor = conveyor

    async def propose(
        self,
        turn: Turn,
        number: int,
        response: ChatResponse,
        spent: list[Spent],
        metadata: dict[str, Json],
        expected: tuple[str, ...] = (),
    ) -> list[Action]:
        """Store the answer of a round together with the actions it proposes and what it cost."""
        async with self._paid(turn, spent):
            return await self._propose(turn, number, response, spent, metadata, expected)

    async def _propose(
        self,
        turn: Turn,
        number: int,
        response: ChatResponse,
        spent: list[Spent],
        metadata: dict[str, Json],
        expected: tuple[str, ...],
    ) -> list[Action]:
        proposed = _with_ids(tuple(self._sealed(call) for call in response.tool_calls), number)
        actions = [
            await self.conveyor.intake.proposed(
                msgspec.structs.replace(
                    typed_call(msgspec.structs.replace(raw, call_id=kept.call_id)), expected_outputs=expected
                ),
                turn,
                call_key(turn.turn_id, number, index),
            )
            for index, (raw, kept) in enumerate(zip(response.tool_calls, proposed, strict=True))
        ]
        if metadata:
            metadata = {**metadata, "actions": [action.action_id for action in actions]}
        row = self._row(turn, response.final_text, response, proposed, metadata)

        def store(tx: Tx) -> None:
            add_message(tx, self._clock, row)
            for action in actions:
                self.conveyor.records.store(tx, action)
            write_spent(tx, self._clock, turn, spent)

        await self._db.write(store)
        return actions

    async def carry(self, turn: Turn, action: Action, metadata: dict[str, Json]) -> Outcome:
        """Take a stored action through the gate; its result becomes a message in the transaction that ends it."""
        record = self.recorder(turn, action.call.call_id, action.action_id, metadata)
        outcome = await self.conveyor.carry(action, turn, stored=True, record=record)
        if outcome.edited is not None:
            await carry_edited(self.conveyor, turn, action, outcome.edited, new_id("key", self._clock()))
        return outcome

    async def let_go(self, turn: Turn) -> None:
        """End the calls that a turn did not get to before it was cut short."""
        await self._db.write(lambda tx: None)  # any write under way is done by then
        for standing in standing_of(self._db.reader, turn.turn_id).values():
            if standing.status == "PENDING" and standing.held and not standing.begun:
                action = load_action(self._db.reader, standing.action_id)
                if action is not None:
                    record = self.recorder(turn, action.call.call_id, action.action_id, {})
                    await self.conveyor.guarded(action.action_id, self.conveyor.let_go(action, record))

    async def answer(
        self,
        turn: Turn,
        text: str,
        response: ChatResponse,
        spent: list[Spent],
        metadata: dict[str, Json],
        in_transaction: Callable[[Tx], None] | None = None,
    ) -> str:
        """Store a last word; returns it as it was kept. `also` writes in the same transaction."""
        row = self._row(turn, text, response, (), metadata)

        def store(tx: Tx) -> None:
            add_message(tx, self._clock, row)
            write_spent(tx, self._clock, turn, spent)
            if in_transaction is not None:
                in_transaction(tx)

        async with self._paid(turn, spent):
            await self._db.write(store)
        return row.content

    def summary(self, turn: Turn, text: str, label: Label, metadata: dict[str, Json]) -> MessageRow:
        """A summary as it is kept in its conversation, without secrets."""
        return MessageRow(
            message_id=new_id("msg", self._clock()),
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            role="system",
            content=self._redact(text),
            label=label,
            metadata=metadata,
        )

    async def keep_summary(self, turn: Turn, row: MessageRow, spent: list[Spent]) -> None:
        """Store a summary with what it cost."""

        def store(tx: Tx) -> None:
            add_message(tx, self._clock, row)
            write_spent(tx, self._clock, turn, spent)

        async with self._paid(turn, spent):
            await self._db.write(store)

    async def lose(self, turn: Turn, spent: list[Spent]) -> None:
        """Record the cost of unusable answers, even while the work is being cancelled."""
        if spent:
            await asyncio.shield(self._db.write(lambda tx: write_spent(tx, self._clock, turn, spent)))

    @asynccontextmanager
    async def _paid(self, turn: Turn, spent: list[Spent]) -> AsyncIterator[None]:
        """Record the cost of an answer that could not be stored. Cancelling does not undo a write under way."""
        try:
            yield
        except Exception:
            await self.lose(turn, spent)
            raise

    def recorder(self, turn: Turn, call_id: str, action_id: str, metadata: dict[str, Json]) -> Record:
        """Writes a call's result into its conversation."""

        def record(tx: Tx, result: ToolResult) -> None:
            about: dict[str, Json] = {
                **metadata,
                "code": result.code,
                "success": result.success,
                "receipt_id": result.receipt_id,
            }
            about["private"] = result.private
            about |= pictures_of_result(result.metadata)
            if result.fetched:
                found = {name: result.metadata[name] for name in ("url", "links") if name in result.metadata}
                about |= {"fetched": True, **found}
            if is_untrusted(result.label):
                about["fresh"] = result.fresh
            row = MessageRow(
                message_id=new_id("msg", self._clock()),
                thread_id=turn.thread_id,
                turn_id=turn.turn_id,
                role="tool",
                content=result.output,
                label=result.label,
                tool_call_id=call_id,
                action_id=action_id,
                metadata=about,
            )
            add_message(tx, self._clock, row)

        return record

    def _sealed(self, call: ProposedCall) -> ProposedCall:
        """The proposal as it may be remembered: without registered secrets."""
        return msgspec.structs.replace(
            call,
            call_id=self._seal(call.call_id),
            tool=self._seal(call.tool),
            arguments=self._seal(call.arguments),
            justification=self._seal(call.justification),
        )

    def _row(
        self,
        turn: Turn,
        text: str,
        response: ChatResponse,
        calls: tuple[ProposedCall, ...],
        metadata: dict[str, Json],
    ) -> MessageRow:
        usage = response.usage
        spent: dict[str, Json] = (
            {"usage": {"input": usage.input_tokens, "output": usage.output_tokens}} if usage else {}
        )
        return MessageRow(
            message_id=new_id("msg", self._clock()),
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            role="assistant",
            content=self._redact(text),
            label=join_labels(turn.taint),
            tool_calls=calls,
            provider=response.provider,
            model=response.model,
            metadata={**spent, **metadata},
        )


def _with_ids(calls: tuple[ProposedCall, ...], number: int) -> tuple[ProposedCall, ...]:
    """Every call gets an id of its own, whatever the model wrote."""
    ids = unique_ids([call.call_id for call in calls], f"call_{number}")
    return tuple(msgspec.structs.replace(call, call_id=each) for call, each in zip(calls, ids, strict=True))
