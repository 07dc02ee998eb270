"""Answers: the owner's decisions about pending actions, and about those whose outcome is unknown."""

from contextlib import suppress

import msgspec

from coilclaw.gate.conveyor import Conveyor, Outcome
from coilclaw.gate.outcomes import End, changed, denial, expired, refusal, resolved, withdrawn
from coilclaw.gate.proof import OwnerProof, door_of
from coilclaw.gate.records import Record, Taken, Verdict
from coilclaw.gate.turn import Turn
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import Action, Source, Status, ToolResult
from coilclaw.packets.card import FromNowOn
from coilclaw.packets.errors import Conflict, ProofNeeded, UsageError
from coilclaw.packets.ids import Clock, from_stamp, new_id, stamp
from coilclaw.packets.proof import Assertion
from coilclaw.store.actions import load_action, waiting_actions
from coilclaw.store.database import Database
from coilclaw.store.held_back import reproposed_actions
from coilclaw.store.tx import Tx

BATCH = 100
MERGE_TOOL = "pr_merge"


class NotOffered(UsageError):
    """The request asked for a standing answer that the card does not offer."""


class Approvals:
    """The owner's side of the queue. First answer wins; saying the same again changes nothing."""

    def __init__(self, conveyor: Conveyor, db: Database, clock: Clock) -> None:
        self._conveyor = conveyor
        self._db = db
        self._clock = clock

    @property
    def owner(self) -> OwnerProof:
        """Checks the owner's proof."""
        return self._conveyor.records.owner

    async def approve(
        self,
        action: Action,
        *,
        by: str,
        digest: str,
        seen: str | None = None,
        proof: Assertion | None = None,
        from_now_on: FromNowOn | None = None,
    ) -> Action | Outcome:
        """Write down a yes to exactly what was shown: the card's digest, and what it was compared with.

        With `from_now_on` a standing answer is stored too; one that was not offered is an error and approves nothing.

        What cannot be approved any more ends here, with its reason. Where the door is not enough and `proof` does not
        hold, ProofNeeded is raised and it goes on waiting.
        """
        if action.status == "APPROVED":
            return action
        self._must_wait(action)
        if door_of(by) == "forge" and action.call.tool != MERGE_TOOL:
            raise ProofNeeded("a review on GitHub answers merge questions alone.", remedy="Answer it in the panel.")
        inspected, looked = await self._conveyor.intake.look(action, self._conveyor.intake.turn_of(action))
        if from_stamp(action.expires_at) <= self._clock():
            return await self._end(action, expired())
        if digest != action.digest or looked.digest != action.digest or looked.decision.lane != action.decision.lane:
            return await self._end(action, changed())
        if looked.decision.verdict == "deny" and not inspected.facts.estop:
            refused = msgspec.structs.replace(action, decision=looked.decision)
            return await self._end(refused, denial(looked.decision))
        answer = None
        if from_now_on is not None:
            answer = self._conveyor.intake.answer_for(looked, inspected, from_now_on)
            if answer is None:
                raise NotOffered("a standing answer like this is not offered for this action.")
        self._conveyor.reached("approving")
        approved = await self._db.write(lambda tx: self._conveyor.records.approve(tx, action, by, seen, proof, answer))
        self._conveyor.reached("approved")
        if approved:
            return msgspec.structs.replace(action, status="APPROVED", approved_by=by)
        now = self._loaded(action.action_id)
        if now.status == "PENDING" and from_stamp(now.expires_at) <= self._clock():
            return await self._end(now, expired())  # it expired while the answer was on its way
        return self._answered_elsewhere(action.action_id)

    async def reject(self, action: Action, *, reason: str, by: str = "terminal") -> Outcome:
        """Write down a no, with its reason."""
        self._must_wait(action)
        return await self._end(action, refusal(self._conveyor.redact(reason)), by=by)

    async def withdraw(self, action: Action, *, reason: str) -> Outcome:
        """End an action that is no longer needed."""
        self._must_wait(action)
        return await self._end(action, withdrawn(reason))

    async def expire(self) -> list[Outcome]:
        """End the actions that waited too long."""
        late = waiting_actions(self._db.reader, BATCH, expired_at=stamp(self._clock()))
        ended: list[Outcome] = []
        for action in late:
            with suppress(Taken):  # somebody else was faster
                ended.append(await self._conveyor.end(action, expired()))
        return ended

    async def resolve(
        self, action: Action, verdict: Verdict, *, by: str, proof: Assertion | None = None
    ) -> Action | Outcome:
        """The owner says how an action of unknown end really ended, or that it shall be done again.

        A passkey signs the verdict too. ProofNeeded leaves it as it is.
        """
        if action.status != "UNKNOWN":
            raise UsageError(
                f"{action.action_id} is {action.status}; only an UNKNOWN action can be resolved.",
                remedy="See `coilclaw actions list --status UNKNOWN`.",
            )
        if verdict != "retry":

            def record(tx: Tx, _: ToolResult) -> None:
                self._conveyor.records.resolved(tx, action, verdict, by, proof)

            return await self._end(action, resolved(executed=verdict == "executed"), by=by, record=record)
        expires_at = stamp(self._clock() + self._conveyor.intake.ttl)
        reopened = await self._db.write(lambda tx: self._conveyor.records.reopen(tx, action, by, expires_at, proof))
        return self._loaded(action.action_id) if reopened else self._answered_elsewhere(action.action_id)

    async def repropose(self, action: Action, *, key: str | None = None) -> Action:
        """Propose the stored bytes of a refused action again, by the owner's own hand; its card says where it was.

        The same key again is the same proposal, and so is another wish while the card of the first one waits: two
        cards for the same bytes would send them twice.
        """
        refusable: tuple[Status, ...] = ("REJECTED", "FAILED")
        if action.status not in refusable:
            raise UsageError(
                f"{action.action_id} is {action.status}; only a refused or failed action can be proposed again.",
                remedy="See `coilclaw actions show`.",
            )
        if action.decision.code == "SECRET_NOT_GRANTED":
            raise UsageError(
                f"the arguments of {action.action_id} contained a secret, which was redacted before they were stored.",
                remedy="Refer to the secret by the name of its environment variable.",
            )
        # The owner's own hand, so no longer a job's; what it may stem from stays with it.
        source: Source = "session" if action.source == "session" else "cli"
        turn = Turn(action.turn_id, action.thread_id, source, action.taint)
        known = await self._conveyor.intake.known(action.call, key) if key is not None else None
        if known is not None:
            return known
        if (waiting := self._waiting_again(self._db.reader, action)) is not None:
            return self._loaded(waiting)
        new = await self._conveyor.intake.proposed(action.call, turn, key or new_id("key", self._clock()))
        try:
            await self._conveyor.carry(new, turn, stored=False, record=self._reproposed(action, new))
        except Taken:  # another device was faster
            return self._loaded(self._waiting_again(self._db.reader, action) or new.action_id)
        return self._loaded(new.action_id)

    @staticmethod
    def _waiting_again(db: Tx, action: Action) -> str | None:
        """The unfinished proposal of the same bytes."""
        again = reproposed_actions(db, (action.turn_id,)).get(action.action_id)
        return again.action_id if again is not None and again.status in ("PENDING", "APPROVED") else None

    def _reproposed(self, action: Action, new: Action) -> Record:
        """Says whose bytes they are in the transaction that stores the new action, so that it is never pushed."""
        post = self._conveyor.records.post(new)

        def record(tx: Tx, result: ToolResult) -> None:
            waits = result.code == "APPROVAL_NEEDED"
            if waits and self._waiting_again(tx, action) is not None:
                raise Taken(new.action_id)
            add_event(tx, self._clock, "tool_reproposed", new.action_id, {"of": action.action_id})
            if post is not None and not waits:
                post(tx, result)

        return record

    async def _end(self, action: Action, end: End, *, by: str = "", record: Record | None = None) -> Outcome:
        """End it in the state it was read in; if that changed, somebody was faster."""
        try:
            return await self._conveyor.end(action, end, by=by, record=record)
        except Taken:
            now = self._loaded(action.action_id).status
            text = f"{action.action_id} was already answered elsewhere: it is {now}."
            raise Conflict(text, remedy="Nothing was done.") from None

    def _must_wait(self, action: Action) -> None:
        if action.status != "PENDING":
            why = f" ({action.rejection_reason})" if action.rejection_reason else ""
            raise UsageError(f"{action.action_id} is {action.status}{why}; it is no longer waiting.")

    def _answered_elsewhere(self, action_id: str) -> Action:
        """Somebody was faster. If they said the same, all is well."""
        action = self._loaded(action_id)
        if action.status != "APPROVED":
            raise Conflict(
                f"{action_id} was already answered elsewhere: it is {action.status}.", remedy="Nothing was done."
            )
        return action

    def _loaded(self, action_id: str) -> Action:
        action = load_action(self._db.reader, action_id)
        if action is None:
            raise UsageError(f"there is no action {action_id!r}.")
        return action
