"""Records: the transactions an action is written in. Each leaves rows, receipts and audit that agree, or nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from coilclaw.gate.outcomes import End, NextStatus, answer_gone
from coilclaw.gate.proof import UNATTENDED, OwnerProof, Shown, door_of, resolve_digest
from coilclaw.ledger.audit import add_event
from coilclaw.ledger.ledger import Ledger
from coilclaw.ledger.standing import keep_answer, use_answer
from coilclaw.packets.action import INTERNAL, Action, ToolResult
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.decision import Decision
from coilclaw.packets.errors import ProofNeeded, StorageError
from coilclaw.packets.ids import Clock, new_id
from coilclaw.packets.pictures import pictures_of_result
from coilclaw.packets.proof import Assertion
from coilclaw.packets.receipt import Receipt, ReceiptStatus
from coilclaw.store.actions import (
    action_state,
    add_action,
    approve_action,
    begin_action,
    finish_action,
    held_actions,
    keep_key,
    keep_result_hash,
    keep_running,
    keep_seen,
    let_go,
    load_action,
    put_off_action,
    reopen_action,
)
from coilclaw.store.database import Database
from coilclaw.store.lock import HeldLock, holder_is_gone, notes_of, sweep_locks
from coilclaw.store.standing_answers import StandingAnswer
from coilclaw.store.threads import NEWS, MessageRow, add_message, ensure_owner, thread_exists
from coilclaw.store.tx import Tx

Record: TypeAlias = Callable[[Tx, ToolResult], None]
"""Writes what the caller wants to remember of a result, in the transaction that ends the action."""
Write: TypeAlias = Callable[[Tx], None]
"""Something to write in somebody else's transaction."""
Verdict: TypeAlias = Literal["executed", "not-executed", "retry"]
"""The owner's statement about an unknown outcome."""
Reached: TypeAlias = Callable[[str], None]
"""Called at every boundary. It does nothing; crash tests replace it."""

EVENT_OF: dict[ReceiptStatus, str] = {
    "allowed": "tool_completed",
    "denied": "tool_denied",
    "failed": "tool_failed",
    "unknown": "tool_unknown",
}


class Records:
    """Writes actions down."""

    def __init__(
        self, *, db: Database, ledger: Ledger, clock: Clock, locks: Path, reached: Reached, owner: OwnerProof
    ) -> None:
        self.db = db
        self.owner = owner
        self._ledger = ledger
        self._clock = clock
        self._locks = locks
        self._reached = reached
        self._held: HeldLock | None = None
        self._swept = False

    def worker(self) -> str:
        """The name this process goes by while actions are in its hands; its lock is held until it ends."""
        if self._held is None:
            self._held = HeldLock(self._locks / f"{new_id('worker', self._clock())}.lock")
        return self._held.path.stem

    def is_gone(self, worker: str) -> bool:
        """Whether no process holds that name any more: its claimed actions are then free."""
        return holder_is_gone(self._locks / f"{worker}.lock")

    def releasing(self, action: Action) -> None:
        """Note that the effect of an attempt may begin from now on: one without this note never began."""
        self.worker()
        if self._held is not None:
            self._held.note(_attempt(action))

    def never_released(self, action: Action, worker: str) -> bool:
        """Whether the attempt of a worker that is gone certainly never came to its effect."""
        notes = notes_of(self._locks / f"{worker}.lock")
        return notes is not None and _attempt(action) not in notes

    def sweep(self, *, again: bool) -> None:
        """Remove the lock files of dead processes that left nothing to recover: once, and after each recovery."""
        if self._swept and not again:
            return
        self._swept = True
        sweep_locks(self._locks, {left.worker for left in held_actions(self.db.reader)})

    def close(self) -> None:
        """Let go of this process's name."""
        if self._held is not None:
            self._held.close()

    def store(self, tx: Tx, action: Action) -> None:
        """Write a proposed action and say so in the audit."""
        ensure_owner(tx, self._clock)
        add_action(tx, self._clock, action, self.worker())
        self.note(tx, "tool_requested", action, _proposed(action))

    def note(self, tx: Tx, event_type: str, action: Action, payload: dict[str, Json]) -> None:
        """Write an audit event of an action, and with it how its row stands: what changes the row comes before."""
        state = action_state(tx, action.action_id)
        add_event(tx, self._clock, event_type, action.action_id, payload, state=state)

    def approve(
        self,
        tx: Tx,
        action: Action,
        by: str,
        seen: str | None,
        assertion: Assertion | None,
        answer: StandingAnswer | None = None,
    ) -> bool:
        """Write down the owner's yes to this digest and to what was shown; False when others answered first.

        With `answer` the yes holds from now on. A yes that this door could not give for its lane is an error, and
        nothing is written.
        """
        stands = self._as_it_stands(tx, action)
        if not approve_action(tx, self._clock, action, by):
            return False
        shown = self._prove(tx, stands, "approve", stands.digest, by, assertion)
        if seen is not None:
            keep_seen(tx, action.action_id, seen)
        self._note_yes(tx, stands, by, shown)
        self._keep_answer(tx, answer, by, shown)
        return True

    def reopen(self, tx: Tx, action: Action, by: str, expires_at: str, assertion: Assertion | None) -> bool:
        """The owner has an action of unknown end done again; False when it is unknown no more."""
        stands = self._as_it_stands(tx, action)
        if not reopen_action(tx, self._clock, action, by, expires_at):
            return False
        self.resolved(tx, stands, "retry", by, assertion, expires_at=expires_at)
        return True

    def resolved(
        self,
        tx: Tx,
        action: Action,
        verdict: Verdict,
        by: str,
        assertion: Assertion | None,
        *,
        expires_at: str = "",
    ) -> None:
        """Write down what the owner says of an unknown end, with what stood behind it."""
        shown = self._prove(tx, action, "resolve", resolve_digest(action.digest, verdict), by, assertion)
        told: dict[str, Json] = {"verdict": verdict, "by": by, "digest": action.digest, **shown.told()}
        if expires_at:
            told["expires_at"] = expires_at
        self.note(tx, "tool_resolved", action, told)

    def _as_it_stands(self, tx: Tx, action: Action) -> Action:
        return load_action(tx, action.action_id) or action

    def _prove(
        self,
        tx: Tx,
        action: Action,
        purpose: Literal["approve", "resolve"],
        digest: str,
        by: str,
        assertion: Assertion | None,
    ) -> Shown:
        if by == UNATTENDED and action.taint:
            raise ProofNeeded(
                "untrusted content may have influenced this, so it cannot be approved unseen.",
                remedy="Answer in the panel, or at an interactive terminal.",
            )
        return self.owner.require(
            tx,
            lane=action.decision.lane,
            purpose=purpose,
            subject=action.action_id,
            digest=digest,
            valid_until=action.expires_at,
            by=by,
            assertion=assertion,
        )

    def _note_yes(self, tx: Tx, action: Action, by: str, shown: Shown) -> None:
        told: dict[str, Json] = {"digest": action.digest, "by": by, "expires_at": action.expires_at, **shown.told()}
        self.note(tx, "tool_approved", action, told)

    def _keep_answer(self, tx: Tx, answer: StandingAnswer | None, by: str, shown: Shown) -> None:
        if answer is None:
            return
        if door_of(by) not in ("terminal", "device"):
            raise ProofNeeded("a standing answer needs the owner.", remedy="Answer in the panel or at a terminal.")
        proof = msgspec.json.encode(shown).decode()
        keep_answer(tx, self._clock, msgspec.structs.replace(answer, created_by=by, proof=proof))

    async def begin(
        self,
        action: Action,
        *,
        stored: bool,
        approved_now: bool,
        stopped: Callable[[], bool],
        refused: Callable[[], End | None],
        in_transaction: Write | None,
        answer: StandingAnswer | None = None,
        running: ToolResult | None = None,
    ) -> bool:
        """Claim the action for one attempt, unless ESTOP came first. False when ESTOP did; an error when others did.

        Getting here may have taken long: what can refuse it by now is asked once more, inside the transaction. An
        `answer` is kept with the yes that is given now, `running` is what is known of a background command meanwhile.
        """

        def write(tx: Tx) -> bool:
            if not stored:
                self.store(tx, action)
            if approved_now or (action.status != "APPROVED" and action.decision.verdict != "allow"):
                # No assertion can come along here: a yes in the middle of a turn is given at the terminal.
                shown = self._prove(tx, action, "approve", action.digest, action.approved_by or "", None)
                self._note_yes(tx, action, action.approved_by or "", shown)
                self._keep_answer(tx, answer, action.approved_by or "", shown)
            if stopped():
                return False
            late = refused()
            if late is not None:
                raise Refused(late)
            if action.decision.verdict != "allow" and action.approved_by is None:
                raise StorageError(f"{action.action_id} was let through without the owner's approval.")
            used = action.decision.answer if action.approved_by is None else ""
            if used and not use_answer(tx, self._clock, used, action.thread_id, action.action_id):
                raise Refused(answer_gone())
            if not begin_action(tx, self._clock, action, self.worker()):
                raise Taken(action.action_id)
            if action.decision.lane == "B" and not keep_key(tx, self._clock, action):
                raise KeyBound(action.action_id)
            if running is not None:
                keep_running(tx, action, running)
            begun = {"attempt": action.attempt + 1, "worker": self.worker(), "lookup": action.uncertain}
            self.note(tx, "tool_begun", action, {**begun, "digest": action.digest})
            if in_transaction is not None:
                in_transaction(tx)
            return True

        self._ledger.ready()
        self._reached("claiming")
        begun = await self.db.write(write)
        self._reached("begun")
        return begun

    async def finish(
        self, action: Action, end: End, fate: NextStatus, *, stored: bool, record: Record | None, by: str = ""
    ) -> tuple[Receipt, ToolResult]:
        """The last step of every attempt: receipt, status and memory in one transaction."""
        result_hash = sha256_hex(end.result.output.encode("utf-8", "surrogatepass"))

        def write(tx: Tx) -> tuple[Receipt, ToolResult]:
            if not stored:
                self.store(tx, action)
            code = end.result.code or _code_of(action.decision)
            receipt = self._ledger.add(tx, action, end.status, code=code, result_hash=result_hash)
            result = msgspec.structs.replace(end.result, receipt_id=receipt.id)
            self._settle(tx, action, end, fate, result)
            payload: dict[str, Json] = {"code": code, "receipt_id": receipt.id, "attempt": action.attempt}
            if by:
                payload["by"] = by
            self.note(tx, EVENT_OF[end.status], action, payload)
            if fate.status == "EXECUTED" and action.decision.lane == "B":
                keep_result_hash(tx, action, result_hash)
            if record is not None:
                record(tx, result)
            self._reached("finishing")
            return receipt, result

        done = await self.db.write(write)
        if self._held is not None:
            self._held.done(_attempt(action))
        self._reached("finished")
        return done

    def _settle(self, tx: Tx, action: Action, end: End, fate: NextStatus, result: ToolResult) -> None:
        if fate.status == "APPROVED":
            ended = put_off_action(
                tx, self._clock, action, result, seconds=fate.pause, uncertain=fate.uncertain or action.uncertain
            )
            self.note(tx, "tool_retry", action, {"in_seconds": fate.pause, "uncertain": fate.uncertain})
        else:
            ended = finish_action(tx, self._clock, action, fate.status, result, reason=end.reason)
        if not ended:
            raise Taken(action.action_id)

    async def wait(self, action: Action, result: ToolResult, *, stored: bool, record: Record | None) -> None:
        """Leave an action waiting for the owner, unclaimed."""

        await self.db.write(lambda tx: self.leave(tx, action, result, stored=stored, record=record))

    def leave(self, tx: Tx, action: Action, result: ToolResult, *, stored: bool, record: Record | None) -> None:
        """The same within a transaction."""
        if not stored:
            self.store(tx, action)
        if not let_go(tx, action.action_id, action.digest):
            raise Taken(action.action_id)
        if record is not None:
            record(tx, result)
        self.note(tx, "approval_needed", action, {"expires_at": action.expires_at, "digest": action.digest})

    def post(self, action: Action) -> Record | None:
        """The outcome of an action that waited is posted to its thread."""
        return self._posting(action, lambda result: result.output)

    def post_end(self, action: Action) -> Record | None:
        """The end of a background command is posted in our own words; what it wrote is read by a call."""

        def words(result: ToolResult) -> str:
            how = f"exit {result.exit}" if result.exit is not None and not result.code else result.code
            return f"it ended in the background ({how}). command_status shows what it wrote."

        return self._posting(action, words, ended=True)

    def _posting(self, action: Action, words: Callable[[ToolResult], str], *, ended: bool = False) -> Record | None:
        if not action.thread_id:
            return None

        def record(tx: Tx, result: ToolResult) -> None:
            if not thread_exists(tx, action.thread_id):
                return  # the owner deleted it; what was done has its receipt all the same
            row = MessageRow(
                message_id=new_id("msg", self._clock()),
                thread_id=action.thread_id,
                turn_id=action.turn_id,
                role="system",
                content=f"{action.call.tool} ({action.action_id}): {words(result)}",
                label=INTERNAL if ended else result.label,
                action_id=action.action_id,
                metadata={NEWS: True} if ended else pictures_of_result(result.metadata),
            )
            add_message(tx, self._clock, row)

        return record


def if_it_can(keep: Record | None, trouble: Callable[[str], None]) -> Record | None:
    """A record that must not keep an end from being written; what it would have released stays held."""
    if keep is None:
        return None

    def record(tx: Tx, result: ToolResult) -> None:
        try:
            keep(tx, result)
        except (ValueError, TypeError) as error:
            trouble(f"the changes of a call cannot be recorded ({type(error).__name__}).")

    return record


def both(first: Record | None, second: Record | None) -> Record | None:
    """One record after the other."""
    if first is None or second is None:
        return first or second

    def record(tx: Tx, result: ToolResult) -> None:
        first(tx, result)
        second(tx, result)

    return record


class Taken(StorageError):
    """Somebody else has the action, or it is over."""

    def __init__(self, action_id: str) -> None:
        super().__init__(f"action {action_id} was claimed by another process.", remedy="Nothing was run twice.")


class Refused(StorageError):
    """It may not begin any more; `end` says why."""

    def __init__(self, end: End) -> None:
        super().__init__(end.result.output)
        self.end = end


class Stopped(StorageError):
    """ESTOP holds the action; it continues when the owner clears ESTOP."""

    def __init__(self) -> None:
        super().__init__("ESTOP holds the action.", remedy="It continues when ESTOP is cleared.")


class KeyBound(StorageError):
    """The idempotency key of the action belongs to other arguments."""

    def __init__(self, action_id: str) -> None:
        super().__init__(f"the idempotency key of {action_id} was already used with other arguments.")


def _attempt(action: Action) -> str:
    return f"{action.action_id} {action.attempt}"


def _proposed(action: Action) -> dict[str, Json]:
    return {
        "tool": action.call.tool,
        "args_hash": action.call.args_hash,
        "digest": action.digest,
        "verdict": action.decision.verdict,
        "rule": action.decision.rule,
        "code": action.decision.code,
        "source": action.source,
        "thread_id": action.thread_id,
        "job_id": action.job_id,
    }


def _code_of(decision: Decision) -> str:
    if decision.code == "UNSAFE":
        return "UNSAFE"
    return "APPROVED" if decision.verdict == "ask" else decision.code
