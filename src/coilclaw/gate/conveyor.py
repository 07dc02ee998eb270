"""The conveyor: propose, decide, approve, run, receipt. Every effect of the product passes through here.

The intake takes calls in and decides; `carry` takes a call of a running turn to its end or leaves it waiting; `execute`
carries out what was approved earlier.
Reads need one commit, effects two: the first claims the row and says it has begun, the second writes the receipt and
the new status together.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import TypeAlias

import msgspec

from coilclaw.gate.attempt import Attempts
from coilclaw.gate.background import BackgroundCommands, beginning, runs_beside, told_running
from coilclaw.gate.binding import is_as_shown
from coilclaw.gate.estop import Estop
from coilclaw.gate.facts import Inspected
from coilclaw.gate.inspection import Inspection
from coilclaw.gate.intake import Intake, Observer
from coilclaw.gate.labelling import Labelling
from coilclaw.gate.outcomes import (
    End,
    NextStatus,
    Outcome,
    Patience,
    changed,
    conflict,
    cut_before,
    denial,
    died,
    ended_read,
    expired,
    fate_of,
    held,
    interrupted,
    never_begun,
    not_kept,
    put_back,
    refusal,
    rules_changed,
    stopped_before,
    to_be_retried,
    told_of,
    too_late,
    waiting,
    withdrawn,
)
from coilclaw.gate.proof import PANEL_ONLY, TERMINAL, UNATTENDED, door_of
from coilclaw.gate.records import EVENT_OF, KeyBound, Reached, Record, Records, Refused, Stopped, Taken, both, if_it_can
from coilclaw.gate.turn import Turn
from coilclaw.gate.uncancellable import CancelRequest, uncancellable
from coilclaw.gate.undoing import Kept
from coilclaw.ledger.ledger import Ledger
from coilclaw.packets.action import Action
from coilclaw.packets.card import Answer, Card
from coilclaw.packets.errors import ProofNeeded, RowDamaged, StorageError
from coilclaw.packets.ids import Clock, from_stamp
from coilclaw.packets.ports import Recovery
from coilclaw.store.actions import Held, held_actions
from coilclaw.store.database import Database
from coilclaw.store.standing_answers import StandingAnswer

Approver: TypeAlias = Callable[[Card], Awaitable[Answer]]

AHEAD = timedelta(minutes=5)
"""How far an action may lie in the future before the clock, not the action, is doubted."""


class Conveyor:
    """Carries calls through the gate."""

    def __init__(
        self,
        *,
        db: Database,
        ledger: Ledger,
        intake: Intake,
        records: Records,
        attempts: Attempts,
        inspection: Inspection,
        labelling: Labelling,
        background: BackgroundCommands,
        estop: Estop,
        clock: Clock,
        is_over: Callable[[Action], bool],
        approve: Approver,
        observe: Observer,
        reached: Reached,
        redact: Callable[[str], str],
        patience: Callable[[], Patience],
    ) -> None:
        self.intake = intake
        self.records = records
        self.reached = reached
        self.redact = redact
        self._db = db
        self._ledger = ledger
        self.attempts = attempts
        self._inspection = inspection
        self._labelling = labelling
        self._background = background
        self._estop = estop
        self._clock = clock
        self._is_over = is_over
        self._approve = approve
        self._observe = observe
        self._patience = patience
        self._owed: dict[str, Callable[[], Awaitable[Outcome]]] = {}
        """Outcomes that could not be stored yet."""
        self._passed: set[str] = set()
        """Unreadable actions already reported, so each is logged once."""

    def close(self) -> None:
        """Let go of this process's name."""
        self.records.close()

    # Carrying a call of a running turn

    async def carry(self, action: Action, turn: Turn, *, stored: bool, record: Record | None = None) -> Outcome:
        """Take an action to its end: denied, run, or left waiting for the owner."""
        self.reached("proposed")
        end_cut = partial(self._finish, end=cut_before(), stored=stored, record=record)
        inspected, action = await self._looked(action, turn, end_cut, prepare=True)
        self.reached("decided")
        approved, kept = False, None
        if action.decision.verdict == "ask":
            named = self._labelling.seen(inspected) if inspected.touches.restores is not None else ""
            answer = await self._ask(action, inspected, stored=stored, record=record)
            if answer.approved is None or (answer.approved and self._must_show_more(action, answer.by)):
                return await self._leave_waiting(action, inspected, stored=stored, record=record)
            if not answer.approved:
                end = refusal(self.redact(answer.reason))
                no = await self._finish(action, end, stored=stored, record=record, by=answer.by)
                return msgspec.structs.replace(no, edited=answer.edited)
            # The owner may have taken a while: everything is checked again before anything runs, and a yes
            # covers only what was shown.
            shown, seen = inspected, action
            inspected, action = await self._looked(action, turn, end_cut)
            same = is_as_shown(action, inspected, seen, shown)
            if named and named != self._labelling.seen(inspected):
                same = False  # an undo of other files than those that were named
            if action.decision.verdict != "deny" and not same:
                return await self._finish(action, changed(), stored=stored, record=record)
            approved = True
            if answer.from_now_on is not None and action.decision.verdict == "ask":
                kept = self.intake.answer_for(action, inspected, answer.from_now_on)
            action = msgspec.structs.replace(action, approved_by=answer.by)
            self._observe("tool_approved", {"tool": action.call.tool, "action_id": action.action_id})
        if action.decision.verdict == "deny":
            return await self._finish(action, denial(action.decision), stored=stored, record=record)
        if approved and from_stamp(action.expires_at) <= self._clock():
            return await self._finish(action, expired(), stored=stored, record=record)
        reads = inspected.facts.tool is not None and inspected.facts.tool.effect == "READ"
        if reads and not approved and not runs_beside(action, inspected):
            return await uncancellable(
                lambda cut: self._run(action, inspected, turn, cut, stored=stored, record=record)
            )
        return await uncancellable(
            lambda cut: self._claim_and_run(
                action, inspected, turn, cut, stored=stored, record=record, approved_now=approved, answer=kept
            )
        )

    async def _looked(
        self, action: Action, turn: Turn, end_cut: Callable[[Action], Awaitable[Outcome]], *, prepare: bool = False
    ) -> tuple[Inspected, Action]:
        """Inspect a call and prepare its undo. If this is cut short, the call still gets its outcome."""
        try:
            inspected, action = await self.intake.look(action, turn)
            may_run = prepare and action.decision.verdict != "deny"
            if may_run and await inspected.root.undoing.prepare(inspected.facts, self._estop.engaged):
                inspected, action = await self.intake.look(action, turn)
        except asyncio.CancelledError:
            await uncancellable(lambda _: end_cut(action))
            raise
        return inspected, action

    async def _ask(self, action: Action, inspected: Inspected, *, stored: bool, record: Record | None) -> Answer:
        """Put the card to the owner. Ctrl-C is an answer too."""
        card = self.intake.render(action, inspected)
        if self._must_show_more(action, TERMINAL):
            card = msgspec.structs.replace(card, reasons=(*card.reasons, PANEL_ONLY))
        try:
            return await self._approve(card)
        except asyncio.CancelledError:
            end = refusal("It was cancelled at the prompt.")
            await asyncio.shield(self._finish(action, end, stored=stored, record=record, by="terminal"))
            raise

    def _must_show_more(self, action: Action, by: str) -> bool:
        """Whether a yes through this channel is not proof enough: the action then waits for a passkey."""
        unseen = by == UNATTENDED and bool(action.taint)
        return unseen or bool(self.records.owner.needed(self._db.reader, action.decision.lane, by))

    async def _claim_and_run(
        self,
        action: Action,
        inspected: Inspected,
        turn: Turn,
        cut: CancelRequest,
        *,
        stored: bool,
        record: Record | None,
        approved_now: bool,
        answer: StandingAnswer | None = None,
    ) -> Outcome:
        running = told_running(action, inspected) if runs_beside(action, inspected) else None
        before = self._labelling.before(action, inspected, turn)
        try:
            begun = await self.records.begin(
                action,
                stored=stored,
                approved_now=approved_now,
                answer=answer,
                stopped=lambda: self._stopped(inspected),
                refused=lambda: self._too_late(action),
                in_transaction=before if running is None else beginning(action, running, before, record),
                running=running,
            )
        except KeyBound:
            return await self._finish(action, conflict(), stored=stored, record=record)
        except ProofNeeded:  # a passkey was registered after the question was put
            waiting = msgspec.structs.replace(action, approved_by=None)
            return await self._leave_waiting(waiting, inspected, stored=stored, record=record)
        except Refused as refused:
            end = too_late(refused.end) if action.uncertain else refused.end
            return await self._finish(action, end, stored=stored, record=record)
        if not begun:
            if action.status == "APPROVED":
                raise Stopped
            return await self._finish(action, stopped_before(), stored=True, record=record)
        back = NextStatus(status="APPROVED", uncertain=action.uncertain) if action.status == "APPROVED" else None
        action = msgspec.structs.replace(action, attempt=action.attempt + 1, status="APPROVED", begun=True)
        if running is None:
            return await self._run(action, inspected, turn, cut, stored=True, record=record, back=back)
        self._observe("tool_in_background", {"action_id": action.action_id, "what": self.intake.in_short(action.call)})
        own = turn.apart()
        turn.take_in(running.label)
        told = self.records.post_end(action)

        async def work(cut: CancelRequest) -> Outcome:
            return await self._run(action, inspected, own, cut, stored=True, record=told, back=back)

        if cut.asked:
            return await work(cut)
        carried = self._labelling.carried(inspected)
        self._background.start(action, lambda: self._labelling.output_label(inspected, carried), work)
        return Outcome(action=action, result=running, receipt=None, running=True)

    async def _run(
        self,
        action: Action,
        inspected: Inspected,
        turn: Turn,
        cut: CancelRequest,
        *,
        stored: bool,
        record: Record | None,
        back: NextStatus | None = None,
    ) -> Outcome:
        """Run it, unless ESTOP or a cancellation came; `back` is where that leaves what was approved before."""
        undoing = inspected.root.undoing
        stopped = lambda: cut.asked or self._stopped(inspected)  # noqa: E731
        kept = await undoing.keep(action, inspected.touches, inspected.facts, stopped)
        if stopped():
            await undoing.settle(kept, inspected.facts)
            release = self._labelling.release(action, inspected)
            if back is not None:
                end = put_back() if cut.asked else held()
                return await self._finish(action, end, stored=stored, record=release, fate=back)
            end = cut_before() if cut.asked else stopped_before()
            return await self._finish(action, end, stored=stored, record=both(release, record))
        if kept.fault and not inspected.facts.irreversible:  # the owner was not asked about doing it without an undo
            await undoing.settle(kept, inspected.facts)
            release = self._labelling.release(action, inspected)
            return await self._finish(action, not_kept(kept.fault), stored=stored, record=both(release, record))
        end, keep = await self._attempted(action, inspected, turn, cut, kept)
        end = end if action.begun else ended_read(end)
        fate = back if back is not None and not end.begun else self._fate(end, action, inspected)
        if fate.status == "FAILED" and action.uncertain and self._recovery(inspected) != "lookup":
            end, fate = too_late(end), NextStatus(status="UNKNOWN")  # the lookup showed it never arrived
        return await self._finish(action, end, stored=stored, record=both(keep, record), fate=fate)

    def _stopped(self, inspected: Inspected) -> bool:
        return self._estop.engaged() and not inspected.despite_estop

    async def _attempted(
        self, action: Action, inspected: Inspected, turn: Turn, cut: CancelRequest, kept: Kept
    ) -> tuple[End, Record | None]:
        """The outcome, and what is recorded with it. Whatever breaks around the call, there is an outcome to write."""
        refused = await self._inspection.before(action, inspected)
        if refused is not None:
            return refused, self._labelling.release(action, inspected)
        keep: Record | None = None
        try:
            carried = self._labelling.carried(inspected)
            self.reached("starting")
            end = await self.attempts.run(action, inspected, turn, cut)
            self.reached("done")
            end, keep = await self._labelling.after(action, end, inspected, turn, carried, kept)
        except Exception as error:  # what it may have written stays held: the whole workspace counts as labelled
            self._trouble(f"{action.action_id} could not be completed: {type(error).__name__}: {error}")
            end = interrupted(inspected.tool, "GATE_BROKE", "The code around the call failed.")
        end, asked = await self._inspection.after(action, end, inspected.root)
        return end, both(if_it_can(keep, self._trouble), asked)

    def _fate(self, end: End, action: Action, inspected: Inspected) -> NextStatus:
        target = inspected.touches.target
        in_flight = target.timeout_seconds if target is not None else self.attempts.tool_seconds
        return fate_of(end, action.attempt, self._patience(), self._recovery(inspected), in_flight)

    def _recovery(self, inspected: Inspected) -> Recovery:
        return inspected.tool.recovery(inspected.args) if inspected.tool and inspected.args else "owner"

    # Carrying out approved actions

    async def execute(self, action: Action, *, asked: bool = False) -> Outcome | None:
        """Carry out a stored, approved action: exactly its digest, once. None when it is held or in other hands.
        A permit is held until its program has `asked` again: its receipt is written when it is used."""
        now = self._clock()
        ahead = from_stamp(action.created_at) > now + AHEAD
        if action.status != "APPROVED" or action.begun or ahead or self._estop.engaged():
            return None
        turn = self.intake.turn_of(action)
        inspected, looked = await self.intake.look(action, turn)
        self.reached("decided")
        if inspected.facts.estop:
            return None
        refused = self._refused(action, looked, inspected)
        if refused is None and inspected.touches.permit is not None and not asked:
            return None
        record = self.records.post(action)
        try:
            if refused is not None:
                end = too_late(refused) if action.uncertain else refused
                return await self._finish(action, end, stored=True, record=record)
            return await uncancellable(
                lambda cut: self._claim_and_run(
                    looked, inspected, turn, cut, stored=True, record=record, approved_now=False
                )
            )
        except (Taken, Stopped):
            return None

    def _refused(self, action: Action, looked: Action, inspected: Inspected) -> End | None:
        """Why an approved action may no longer be carried out."""
        if action.decision.verdict == "deny":
            return denial(action.decision)  # it was never validly approved
        if from_stamp(action.expires_at) <= self._clock():
            return expired()
        if self._is_over(action):
            return withdrawn("the work it belongs to has ended")
        if looked.digest != action.digest or looked.decision.lane != action.decision.lane:
            return changed()
        if looked.decision.verdict == "deny":
            return denial(looked.decision)
        if looked.decision.verdict == "ask" and door_of(action.approved_by or "") == "unknown":
            return rules_changed()  # it needed no approval then, and would need one now
        if not action.uncertain and not self._labelling.is_as_seen(action.action_id, inspected):
            return changed()
        return None

    def _too_late(self, action: Action) -> End | None:
        """Check what may have changed while the claim waited for its transaction."""
        if action.approved_by is not None and from_stamp(action.expires_at) <= self._clock():
            return expired()
        return rules_changed() if self.intake.policy_hash(action.turn_id) != action.decision.policy_hash else None

    # Recovering

    async def recover(self) -> list[Outcome]:
        """Recover actions whose process died: an unknowable outcome is recorded as unknown, the rest is retried."""
        ended = await self._write_owed()
        for left in held_actions(self._db.reader):
            if self.records.is_gone(left.worker):
                outcome = await self.guarded(left.action.action_id, self._take_over(left))
                if outcome is not None:
                    ended.append(outcome)
        self.records.sweep(again=bool(ended))
        return ended

    async def _write_owed(self) -> list[Outcome]:
        """Write the outcomes that could not be stored at the time, most likely because the disk was full."""
        written: list[Outcome] = []
        for action_id, write in list(self._owed.items()):
            outcome = await self.guarded(action_id, write())  # raises while the disk still fails
            self._owed.pop(action_id, None)
            if outcome is not None:
                written.append(outcome)
        return written

    async def _take_over(self, left: Held) -> Outcome | None:
        action = left.action
        inspected, looked = await self.intake.look(action, self.intake.turn_of(action))
        if left.begun_at is None:
            over = self._is_over(action)
            if action.decision.verdict == "ask" and not over:
                await self._leave_waiting(looked, inspected, stored=True, record=None)
                return None
            if action.job_id is not None and not over:
                return None  # its job takes it up again
            return await self._finish(action, never_begun(), stored=True, record=self.records.post(action))
        action = msgspec.structs.replace(action, status="APPROVED")
        if inspected.facts.command is not None and self.records.never_released(action, left.worker):
            return await self._again_or_never(action, inspected)
        end = died()
        fate = self._fate(end, action, inspected)
        if fate.status == "APPROVED" and not inspected.touches.sends:
            fate = NextStatus(status="APPROVED", uncertain=True)  # nothing is under way any more on this machine
        keep = if_it_can(await self._labelling.after_death(action, inspected, left.begun_at), self._trouble)
        end, asked = await self._inspection.after(action, end, inspected.root)
        record = both(both(keep, asked), self.records.post(action) if fate.status != "APPROVED" else None)
        return await self._finish(action, end, stored=True, record=record, fate=fate)

    async def _again_or_never(self, action: Action, inspected: Inspected) -> Outcome:
        """The process died between the claim and the effect: if the owner said yes to it, that still stands."""
        release = self._labelling.release(action, inspected)
        self._inspection.not_needed(action, inspected.root)
        end = never_begun()
        if action.approved_by is not None:
            again = NextStatus(status="APPROVED", uncertain=action.uncertain)
            return await self._finish(action, end, stored=True, record=release, fate=again)
        end = too_late(end) if action.uncertain else end
        return await self._finish(action, end, stored=True, record=both(release, self.records.post(action)))

    async def guarded(self, action_id: str, work: Awaitable[Outcome | None]) -> Outcome | None:
        """Handle one of many actions: if it fails, that is reported and the others go on."""
        try:
            return await work
        except Taken:  # somebody else was faster
            return None
        except RowDamaged as error:  # its own row or its job's; reported once, because it is retried again and again
            if action_id not in self._passed:
                self._passed.add(action_id)
                self._trouble(f"{action_id} is skipped: {error}")
            return None
        except StorageError:
            raise  # the disk, not the action
        except Exception as error:
            self._trouble(f"{action_id} cannot be resumed: {type(error).__name__}.")
            return None

    def _trouble(self, text: str) -> None:
        self._observe("tool_trouble", {"message": text})

    # Ends

    async def _leave_waiting(
        self, action: Action, inspected: Inspected, *, stored: bool, record: Record | None
    ) -> Outcome:
        needed = self.records.owner.needed(self._db.reader, action.decision.lane, TERMINAL)
        result = waiting(action, by_passkey=needed == "panel")
        record = both(self._labelling.see(action.action_id, inspected), record)
        await self.records.wait(action, result, stored=stored, record=record)
        self.reached("waiting")
        what = self.intake.in_short(action.call)
        self._observe("approval_needed", {"tool": action.call.tool, "action_id": action.action_id, "what": what})
        return Outcome(action=action, result=result, receipt=None)

    async def _finish(
        self,
        action: Action,
        end: End,
        *,
        stored: bool,
        record: Record | None,
        fate: NextStatus | None = None,
        by: str = "",
    ) -> Outcome:
        """The last step of every attempt: receipt, status and memory in one transaction."""
        fate = fate or fate_of(msgspec.structs.replace(end, sequel="none"), 0, self._patience(), "owner", 0)
        told = to_be_retried(end) if fate.status == "APPROVED" else end
        try:
            receipt, result = await self.records.finish(action, told, fate, stored=stored, record=record, by=by)
        except StorageError as error:
            if action.begun and not isinstance(error, Taken):
                self._owed[action.action_id] = lambda: self._finish(
                    action, end, stored=stored, record=record, fate=fate, by=by
                )
            raise
        self._observe(EVENT_OF[end.status], told_of(action, end, receipt.code, self.intake.in_short(action.call)))
        self._observe("receipt_written", {"id": receipt.id, "status": receipt.status})
        await self._ledger.seal_if_due()
        action = msgspec.structs.replace(action, status=fate.status)
        return Outcome(action=action, result=result, receipt=receipt, again=fate.status == "APPROVED")

    async def let_go(self, action: Action, record: Record | None) -> Outcome:
        """End a proposed call that we hold and that will not run any more."""
        return await self._finish(action, cut_before(), stored=True, record=record)

    async def end(self, action: Action, end: End, *, by: str = "", record: Record | None = None) -> Outcome:
        """End a stored action that no process has claimed: refused, expired or resolved; records by whom."""
        return await self._finish(action, end, stored=True, record=both(record, self.records.post(action)), by=by)
