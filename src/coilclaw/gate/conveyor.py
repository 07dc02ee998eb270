"""The conveyor: propose, decide, approve, run, receipt. Every effect of the product passes through `carry`.

Reads need one commit, effects two: the first claims the row and says it has begun, the second writes the receipt and
the new status together. Nothing is ever run twice by going round again.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import msgspec

from coilclaw.gate.cards import render_card
from coilclaw.gate.case import Policy, Setting
from coilclaw.gate.ends import (
    End,
    changed,
    denial,
    end_of,
    held_by_estop,
    interrupted,
    never_begun,
    refusal,
    stopped_before,
)
from coilclaw.gate.estop import Estop
from coilclaw.gate.facts import Inspected, Inspector
from coilclaw.gate.grants import Granter
from coilclaw.gate.policy import decide
from coilclaw.gate.turn import Turn
from coilclaw.ledger.audit import add_event
from coilclaw.ledger.ledger import Ledger
from coilclaw.packets.action import INTERNAL, Action, Status, ToolCall, ToolResult
from coilclaw.packets.canonical import Json, digest_of, sha256_hex
from coilclaw.packets.card import Answer, Card
from coilclaw.packets.decision import Decision
from coilclaw.packets.errors import StorageError
from coilclaw.packets.ids import Clock, from_stamp, new_id, stamp
from coilclaw.packets.ports import ToolOutput
from coilclaw.packets.receipt import Receipt, ReceiptStatus
from coilclaw.sandbox.files import read_existing
from coilclaw.store.actions import add_action, begin_action, finish_action, held_actions, let_go
from coilclaw.store.database import Database
from coilclaw.store.lock import HeldLock, holder_is_gone
from coilclaw.store.threads import MessageRow, add_message, ensure_owner

Observer: TypeAlias = Callable[[str, dict[str, Json]], None]
Approver: TypeAlias = Callable[[Card], Awaitable[Answer]]
Record: TypeAlias = Callable[[sqlite3.Connection, ToolResult], None]
"""Writes what the caller wants to remember of a result, in the transaction that ends the action."""

STATUS_OF: dict[ReceiptStatus, Status] = {
    "allowed": "EXECUTED",
    "denied": "REJECTED",
    "failed": "FAILED",
    "unknown": "UNKNOWN",
}
EVENT_OF: dict[ReceiptStatus, str] = {
    "allowed": "tool_completed",
    "denied": "tool_denied",
    "failed": "tool_failed",
    "unknown": "tool_unknown",
}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended, or that it waits."""

    action: Action
    result: ToolResult
    receipt: Receipt | None

    @property
    def pending(self) -> bool:
        """It waits for the owner; nothing has happened yet."""
        return self.receipt is None


class Conveyor:
    """Carries calls through the gate."""

    def __init__(
        self,
        *,
        db: Database,
        ledger: Ledger,
        inspector: Inspector,
        granter: Granter,
        estop: Estop,
        clock: Clock,
        policy: Callable[[], Policy],
        approve: Approver,
        observe: Observer,
        redact: Callable[[str], str],
        seal: Callable[[str], str],
        locks: Path,
        ttl: timedelta,
    ) -> None:
        self._db = db
        self._ledger = ledger
        self._inspector = inspector
        self._granter = granter
        self._estop = estop
        self._clock = clock
        self._policy = policy
        self._approve = approve
        self._observe = observe
        self._redact = redact
        self._seal = seal
        self._locks = locks
        self._ttl = ttl
        self._held: HeldLock | None = None

    # Proposing

    def decide(self, call: ToolCall, turn: Turn) -> Decision:
        """What the gate would say now, without doing anything."""
        return self._look(self._sealed(call), turn, "~")[1]

    def propose(self, call: ToolCall, turn: Turn, key: str) -> Action:
        """A new action with its first decision; it becomes real when it is stored."""
        call = self._sealed(call)
        now = self._clock()
        action_id = new_id("act", now)
        inspected, decision = self._look(call, turn, action_id)
        self._observe("tool_requested", {"tool": call.tool, "verdict": decision.verdict, "code": decision.code})
        return Action(
            action_id=action_id,
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            source=turn.source,
            source_id=turn.turn_id,
            call=call,
            idempotency_key=key,
            digest=_digest(call, inspected),
            taint=turn.taint,
            decision=decision,
            status="PENDING",
            attempt=0,
            expires_at=stamp(now + self._ttl),
            created_at=stamp(now),
        )

    def store(self, tx: sqlite3.Connection, action: Action) -> None:
        """Write the proposed action and say so in the audit, in the caller's transaction."""
        ensure_owner(tx, self._clock)
        add_action(tx, self._clock, action, self._worker())
        add_event(tx, self._clock, "tool_requested", action.action_id, self._facts_for_audit(action))

    async def note(self, event_type: str, entity_id: str, payload: dict[str, Json]) -> None:
        """Write an audit event that belongs to no single action."""
        await self._db.write(lambda tx: add_event(tx, self._clock, event_type, entity_id, payload))

    def _facts_for_audit(self, action: Action) -> dict[str, Json]:
        return {
            "tool": action.call.tool,
            "args_hash": action.call.args_hash,
            "digest": action.digest,
            "verdict": action.decision.verdict,
            "rule": action.decision.rule,
            "code": action.decision.code,
            "source": action.source,
            "thread_id": action.thread_id,
        }

    def _sealed(self, call: ToolCall) -> ToolCall:
        """The call without registered secrets; one that held any is marked, and the gate denies it."""
        args = call.args_bytes.decode("utf-8")
        sealed = self._seal(args)
        return msgspec.structs.replace(
            call,
            tool=self._seal(call.tool),
            args=msgspec.Raw(sealed.encode("utf-8")),
            call_id=self._seal(call.call_id),
            justification=self._seal(call.justification),
            withheld=sealed != args,
        )

    def _look(self, call: ToolCall, turn: Turn, action_id: str) -> tuple[Inspected, Decision]:
        inspected = self._inspector.inspect(call, turn, action_id)
        return inspected, decide(inspected.facts, self._policy(), Setting(source=turn.source))

    # Recovering

    def _worker(self) -> str:
        """The name this process goes by while effects run; its lock is held until it ends."""
        if self._held is None:
            self._held = HeldLock(self._locks / f"{new_id('worker', self._clock())}.lock")
        return self._held.path.stem

    async def recover(self) -> list[Outcome]:
        """End the actions whose process died while they ran: what cannot be known is said, nothing is run again."""
        ended: list[Outcome] = []
        for worker, begun, action in held_actions(self._db.reader):
            if not holder_is_gone(self._locks / f"{worker}.lock"):
                continue
            if not begun and action.decision.verdict == "ask":
                await self._leave_waiting(action, stored=True, record=None)
            else:
                tool = self._inspector.tools.get(action.call.tool)
                end = interrupted(tool, "INTERRUPTED", "The process that ran it died.") if begun else never_begun()
                ended.append(await self._finish(action, end, stored=True, record=self._post(action)))
        return ended

    def close(self) -> None:
        """Let go of this process's name."""
        if self._held is not None:
            self._held.close()

    # Carrying

    async def carry(self, action: Action, turn: Turn, *, stored: bool, record: Record | None = None) -> Outcome:
        """Take an action to its end: denied, run, or left waiting for the owner."""
        inspected, action = self._look_again(action, turn)
        if _digest(action.call, inspected) != action.digest:
            return await self._finish(action, changed(), stored=stored, record=record)
        approved = False
        if action.decision.verdict == "ask":
            answer = await self._approve(self._card(action, inspected))
            if answer.approved is None:
                return await self._leave_waiting(action, stored=stored, record=record)
            if not answer.approved:
                return await self._finish(action, refusal(answer.reason), stored=stored, record=record)
            approved = True
            # The owner may have taken their time: everything is looked at once more before anything runs, and a yes
            # holds only for what was shown.
            shown, lane = inspected.facts.paths, action.decision.lane
            inspected, action = self._look_again(action, turn)
            if action.decision.verdict != "deny" and (inspected.facts.paths != shown or action.decision.lane != lane):
                return await self._finish(action, changed(), stored=stored, record=record)
            self._observe("tool_approved", {"tool": action.call.tool, "action_id": action.action_id})
        if action.decision.verdict == "deny":
            return await self._finish(action, denial(action.decision), stored=stored, record=record)
        if approved and from_stamp(action.expires_at) <= self._clock():
            return await self._finish(action, refusal("expired"), stored=stored, record=record)
        if inspected.facts.tool is None or inspected.facts.tool.effect != "READ":
            begun = await self._db.write(lambda tx: self._begin(tx, action, stored=stored, approved=approved))
            stored = True
            if not begun:
                return await self._finish(action, stopped_before(), stored=True, record=record)
            action = msgspec.structs.replace(action, attempt=action.attempt + 1)
        return await self._run_and_finish(action, inspected, turn, stored=stored, record=record)

    def card(self, action: Action) -> Card:
        """The card of a stored action, as things stand now."""
        inspected, action = self._look_again(action, self._turn_of(action))
        return self._card(action, inspected)

    async def resume(self, action: Action) -> Outcome:
        """Take up a stored action that waits: looked at anew, answered, and carried to its end."""
        if self._estop.engaged():
            return Outcome(action=action, result=held_by_estop(), receipt=None)
        if from_stamp(action.expires_at) <= self._clock():
            return await self._finish(action, refusal("expired"), stored=True, record=None)
        return await self.carry(action, self._turn_of(action), stored=True, record=self._post(action))

    def _turn_of(self, action: Action) -> Turn:
        return Turn(action.turn_id, action.thread_id, action.source, action.taint)

    def _post(self, action: Action) -> Record | None:
        """The outcome of an action that waited is posted to its thread."""
        if not action.thread_id:
            return None

        def record(tx: sqlite3.Connection, result: ToolResult) -> None:
            row = MessageRow(
                message_id=new_id("msg", self._clock()),
                thread_id=action.thread_id,
                turn_id=action.turn_id,
                role="system",
                content=f"{action.call.tool} ({action.action_id}): {result.output}",
                label=result.label,
                action_id=action.action_id,
            )
            add_message(tx, self._clock, row)

        return record

    def _look_again(self, action: Action, turn: Turn) -> tuple[Inspected, Action]:
        inspected, decision = self._look(action.call, turn, action.action_id)
        return inspected, msgspec.structs.replace(action, decision=decision, taint=turn.taint)

    def _card(self, action: Action, inspected: Inspected) -> Card:
        written = next((path for path in inspected.facts.paths if path.write and path.relative), None)
        existing = None
        if written is not None and written.relative and not written.boxed:
            existing = read_existing(self._granter.workspace, written.relative, 1 << 20)
        return render_card(action, inspected, existing)

    def _begin(self, tx: sqlite3.Connection, action: Action, *, stored: bool, approved: bool) -> bool:
        """Claim the row for this attempt, unless ESTOP came first. True when the effect may start."""
        if not stored:
            self.store(tx, action)
        if approved:
            add_event(tx, self._clock, "tool_approved", action.action_id, {"digest": action.digest, "by": "terminal"})
        if self._estop.engaged():
            return False
        if not begin_action(tx, self._clock, action, self._worker()):
            raise StorageError(f"action {action.action_id} was claimed elsewhere.", remedy="Nothing was run twice.")
        return True

    async def _run_and_finish(
        self, action: Action, inspected: Inspected, turn: Turn, *, stored: bool, record: Record | None
    ) -> Outcome:
        await self._granter.keep(inspected, turn, self._estop.engaged)
        if self._estop.engaged():
            return await self._finish(action, stopped_before(), stored=stored, record=record)
        try:
            end = await self._run(action, inspected, turn)
        except asyncio.CancelledError:
            # Ctrl-C: whatever ran has been ended; its receipt is written before the cancellation goes on.
            end = interrupted(inspected.tool, "CANCELLED", "It was cancelled by the owner.")
            await asyncio.shield(self._finish(action, end, stored=stored, record=record))
            raise
        turn.take_in(end.result.label)
        if inspected.touches.url is not None:
            turn.follow(inspected.touches.url)
            if end.status == "allowed":  # only what somebody sent is quoted; an echo of our own words is not
                end = msgspec.structs.replace(end, result=msgspec.structs.replace(end.result, fetched=True))
                turn.hear(end.result.output)
        return await self._finish(action, end, stored=stored, record=record)

    async def _run(self, action: Action, inspected: Inspected, turn: Turn) -> End:
        """Run the tool under its time limit and the emergency stop."""
        tool, args = inspected.tool, inspected.args
        if tool is None or args is None:
            raise StorageError("a call without a tool was let through.", remedy="Please report this.")
        context = self._granter.grant(action, inspected, turn)
        work = asyncio.ensure_future(tool.invoke(args, context))
        stop = asyncio.ensure_future(self._estop.wait())
        timeout = None if tool.name == "ask_user" else context.timeout_seconds
        try:
            await asyncio.wait({work, stop}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return end_of(work, self._redact)
            await _put_down(work)
            if stop.done():
                return interrupted(inspected.tool, "ESTOP", "ESTOP ended it.")
            return interrupted(inspected.tool, "TOOL_TIMEOUT", f"It ran longer than {timeout:g} seconds.")
        finally:
            stop.cancel()
            if not work.done():
                await _put_down(work)

    async def _leave_waiting(self, action: Action, *, stored: bool, record: Record | None) -> Outcome:
        text = (
            f"pending {action.action_id}: approval needed. {' '.join(action.decision.reasons)}"
            " The owner can answer with `coilclaw approvals`."
        )
        result = ToolResult(success=False, output=text, error=text, code="APPROVAL_NEEDED", label=INTERNAL)

        def wait(tx: sqlite3.Connection) -> None:
            if not stored:
                self.store(tx, action)
            let_go(tx, action.action_id)
            add_event(tx, self._clock, "approval_needed", action.action_id, {"expires_at": action.expires_at})
            if record is not None:
                record(tx, result)

        await self._db.write(wait)
        self._observe("approval_needed", {"tool": action.call.tool, "action_id": action.action_id})
        return Outcome(action=action, result=result, receipt=None)

    async def _finish(self, action: Action, end: End, *, stored: bool, record: Record | None) -> Outcome:
        """The last step of every action: receipt, status and memory in one transaction."""
        result_hash = sha256_hex(end.result.output.encode("utf-8", "surrogatepass"))

        def write(tx: sqlite3.Connection) -> tuple[Receipt, ToolResult]:
            if not stored:
                self.store(tx, action)
            code = end.result.code or _code_of(action.decision)
            receipt = self._ledger.add(tx, action, end.status, code=code, result_hash=result_hash)
            result = msgspec.structs.replace(end.result, receipt_id=receipt.id)
            if not finish_action(tx, self._clock, action, STATUS_OF[end.status], result, reason=end.reason):
                raise StorageError(f"action {action.action_id} already has an end on record.")
            add_event(tx, self._clock, EVENT_OF[end.status], action.action_id, {"code": code, "receipt_id": receipt.id})
            if record is not None:
                record(tx, result)
            return receipt, result

        receipt, result = await self._db.write(write)
        self._observe(EVENT_OF[end.status], {"tool": action.call.tool, "code": receipt.code, "status": end.status})
        self._observe("receipt_written", {"id": receipt.id, "status": receipt.status})
        await self._ledger.seal_if_due()
        return Outcome(action=action, result=result, receipt=receipt)


def _digest(call: ToolCall, inspected: Inspected) -> str:
    """What an approval binds: the tool as declared, in whose name, and the exact arguments."""
    declaration = inspected.tool.declaration_hash if inspected.tool is not None else ""
    return digest_of(call.tool.encode(), declaration.encode(), (call.identity or "").encode(), call.args_bytes)


def _code_of(decision: Decision) -> str:
    if decision.code == "UNSAFE":
        return "UNSAFE"
    return "APPROVED" if decision.verdict == "ask" else decision.code


async def _put_down(work: "asyncio.Future[ToolOutput]") -> None:
    """Cancel and wait until it is really over; what it still says is of no interest."""
    work.cancel()
    await asyncio.wait({work})
    if not work.cancelled():
        work.exception()
