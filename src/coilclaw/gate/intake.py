"""The intake: where calls come in. It seals, inspects, decides and proposes them, and inspects them again later."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.gate.binding import call_digest
from coilclaw.gate.cards import render_card
from coilclaw.gate.decision_input import Policy, Setting
from coilclaw.gate.facts import Inspected, Inspector
from coilclaw.gate.identities import lifted
from coilclaw.gate.labelling import Labelling
from coilclaw.gate.policy import decide
from coilclaw.gate.skills import narrowed, uses_of
from coilclaw.gate.standing import answer_for
from coilclaw.gate.turn import Turn
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import Action, ToolCall
from coilclaw.packets.canonical import Json
from coilclaw.packets.card import Card, FromNowOn
from coilclaw.packets.decision import Decision
from coilclaw.packets.errors import Conflict
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.packets.job import JobLimits
from coilclaw.store.actions import action_with_key, key_hash
from coilclaw.store.database import Database
from coilclaw.store.standing_answers import StandingAnswer

if TYPE_CHECKING:
    from coilclaw.gate.committing import LookedAt

Observer: TypeAlias = Callable[[str, dict[str, Json]], None]


class Intake:
    """Takes calls in. It decides and shows, and causes no effect."""

    def __init__(
        self,
        *,
        db: Database,
        inspector: Inspector,
        upkeep: Labelling,
        clock: Clock,
        policy: Callable[[], Policy],
        job_limits: Callable[[str], JobLimits | None],
        observe: Observer,
        seal: Callable[[str], str],
        ttl: Callable[[], timedelta],
    ) -> None:
        self._db = db
        self._inspector = inspector
        self._upkeep = upkeep
        self._clock = clock
        self.policy = policy
        self._job_limits = job_limits
        self._observe = observe
        self._seal = seal
        self._ttl = ttl

    @property
    def ttl(self) -> timedelta:
        """How long a proposal waits."""
        return self._ttl()

    def decide(self, call: ToolCall, turn: Turn) -> Decision:
        """What the gate would decide now, without doing anything."""
        return self._look(self._sealed(call), turn, "~")[1]

    async def proposed(self, call: ToolCall, turn: Turn, key: str) -> Action:
        """The same as `propose`, but git runs outside the event loop."""
        return self.propose(call, turn, key, await self._ahead(call, turn))

    def propose(self, call: ToolCall, turn: Turn, key: str, ahead: "LookedAt | None" = None) -> Action:
        """A new action with its first decision; it becomes real when it is stored."""
        call = self._sealed(call)
        now = self._clock()
        action_id = new_id("act", now)
        inspected, decision = self._look(call, turn, action_id, ahead)
        self._observe(
            "tool_requested",
            {"tool": call.tool, "verdict": decision.verdict, "code": decision.code, "what": self.in_short(call)},
        )
        return Action(
            action_id=action_id,
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            source=turn.source,
            source_id=turn.job.job_id if turn.job is not None else turn.turn_id,
            call=call,
            idempotency_key=key,
            digest=call_digest(call, inspected),
            taint=inspected.taint,
            decision=decision,
            status="PENDING",
            attempt=0,
            expires_at=stamp(now + self.ttl),
            created_at=stamp(now),
            job_id=turn.job.job_id if turn.job is not None else None,
        )

    async def known(self, call: ToolCall, key: str) -> Action | None:
        """The action that already has this key, if its arguments are the same; otherwise a Conflict, with its event."""
        sealed = self._sealed(call)
        action = action_with_key(self._db.reader, sealed.tool, key)
        bound = action.call.args_hash if action is not None else key_hash(self._db.reader, sealed.tool, key)
        same = action is None or action.call.identity == sealed.identity
        if bound is None or (bound == sealed.args_hash and same):
            return action
        entity = action.action_id if action is not None else key
        await self.note(
            "idempotency_conflict", entity, {"tool": sealed.tool, "key": key, "args_hash": sealed.args_hash}
        )
        raise Conflict(
            f"the key {key!r} was already used for {sealed.tool} with other arguments ({entity}).",
            remedy="Use a new key for a new call.",
        )

    async def note(self, event_type: str, entity_id: str, payload: dict[str, Json]) -> None:
        """Write an audit event that belongs to no single action."""
        await self._db.write(lambda tx: add_event(tx, self._clock, event_type, entity_id, payload))

    def _sealed(self, call: ToolCall) -> ToolCall:
        """The call with its identity and without registered secrets; a call that contained any is marked and denied."""
        call = lifted(call, self._inspector.tools.get(call.tool))
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

    async def _ahead(
        self, call: ToolCall, turn: Turn, action_id: str = "~", *, begun: bool = False
    ) -> "LookedAt | None":
        tool = self._inspector.tools.get(call.tool)
        call = lifted(call, tool)
        fetches = tool is not None and bool(tool.identities) and not begun
        if fetches and self._look(self._sealed(call), turn, action_id)[1].verdict == "deny":
            return None  # nothing is fetched in anybody's name for a call that is refused anyway
        asking = self._inspector.ahead(call, turn, begun=begun)
        return None if asking is None else await asking

    def _look(
        self, call: ToolCall, turn: Turn, action_id: str, ahead: "LookedAt | None" = None, *, answered: bool = False
    ) -> tuple[Inspected, Decision]:
        # The rules first: facts are then as new as they are, and what changes meanwhile is found out at the claim.
        turn.skills = uses_of(self._db.reader, turn.turn_id)
        policy = narrowed(self.policy(), turn.skills, self._inspector.tools)
        if turn.only is not None:
            step = ("the step", frozenset(turn.only))
            policy = msgspec.structs.replace(policy, allowlists=(*policy.allowlists, step))
        inspected = self._inspector.inspect(call, turn, action_id, ahead)
        if answered:  # the owner said yes to this very action: it runs by that, and uses up nothing else
            unsettled = msgspec.structs.replace(inspected.facts, standing=None)
            inspected = msgspec.structs.replace(inspected, facts=unsettled)
        job_id = turn.job.job_id if turn.job is not None else None
        setting = Setting(source=turn.source, job_id=job_id, skills=tuple(use.told for use in turn.skills))
        return inspected, decide(inspected.facts, policy, setting)

    def policy_hash(self, turn_id: str) -> str:
        """The hash of the rules in force for a turn: its skills are part of them."""
        return narrowed(self.policy(), uses_of(self._db.reader, turn_id), self._inspector.tools).hash

    # What came in earlier

    async def look(self, action: Action, turn: Turn) -> tuple[Inspected, Action]:
        """The same as `look_again`, but git runs outside the event loop."""
        begun = action.begun or action.uncertain
        return self.look_again(action, turn, await self._ahead(action.call, turn, action.action_id, begun=begun))

    def look_again(self, action: Action, turn: Turn, ahead: "LookedAt | None" = None) -> tuple[Inspected, Action]:
        """The action re-evaluated: decided again, with the digest it would have now."""
        call = action.call
        if action.decision.code == "SECRET_NOT_GRANTED":  # the row keeps what was left of its arguments
            call = msgspec.structs.replace(call, withheld=True)
        answered = action.approved_by is not None
        inspected, decision = self._look(call, turn, action.action_id, ahead, answered=answered)
        digest = call_digest(action.call, inspected)
        return inspected, msgspec.structs.replace(action, decision=decision, taint=inspected.taint, digest=digest)

    def turn_of(self, action: Action) -> Turn:
        """The turn a stored action came from, as far as the gate needs it."""
        job = self._job_limits(action.job_id) if action.job_id else None
        return Turn(action.turn_id, action.thread_id, action.source, action.taint, job=job)

    # Showing

    def card(self, action: Action) -> Card:
        """The card of a stored action, by the current facts."""
        inspected, looked = self.look_again(action, self.turn_of(action))
        return self.render(looked, inspected)

    async def shown(self, action: Action) -> Card:
        """The same as `card`, but git runs outside the event loop."""
        inspected, looked = await self.look(action, self.turn_of(action))
        return self.render(looked, inspected)

    def render(self, action: Action, inspected: Inspected) -> Card:
        """The card of an action that was just inspected."""
        restored = self._upkeep.restored(inspected)
        existing, held = self._upkeep.existing(inspected), self._upkeep.held(inspected)
        marked = self._upkeep.marked(action, inspected.touches)
        card = render_card(action, inspected, existing, marked, restored, held)
        return msgspec.structs.replace(card, seen=self._upkeep.seen(inspected, restored))

    def answer_for(self, action: Action, inspected: Inspected, wanted: FromNowOn) -> StandingAnswer | None:
        """The standing answer that a yes to this action makes; None when it is not offered."""
        return answer_for(action, inspected.facts, wanted, now=self._clock())

    def in_short(self, call: ToolCall) -> str:
        """What a call would do, in a sentence."""
        return self._inspector.in_short(call)

    def reaches_out(self, call: ToolCall) -> bool:
        """Whether its tool asks a server outside."""
        tool = self._inspector.tools.get(call.tool)
        return tool is not None and tool.destination == "external"
