"""Skills as the gate sees them: which a turn works under is an audit event, so any process finds it again."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeAlias

import msgspec

from coilclaw.gate.callers import is_runtime_only
from coilclaw.gate.decision_input import SKILL_LAYER, Policy
from coilclaw.gate.turn import Turn
from coilclaw.ledger.audit import Wanted, add_event, events_after
from coilclaw.packets.canonical import Json, canonical_bytes, sha256_hex
from coilclaw.packets.ids import Clock
from coilclaw.packets.ports import Tool
from coilclaw.packets.skill import NONE, USED, SkillUse
from coilclaw.store.tx import Tx

MOST_USED = 8
"""Skills that one turn may work under."""
TAKE = "skill_use"
"""The tool that takes a skill up. It only narrows, so no skill leaves it out."""


def uses_of(db: Tx, turn_id: str) -> tuple[SkillUse, ...]:
    """The skills a turn works under, in the order they were taken up. A record that cannot be read leaves nothing."""
    if not turn_id:
        return ()
    events = events_after(db, Wanted(event_type=USED, entity_id=turn_id), 0, 10 * MOST_USED)
    return tuple(_use(event.payload) for event in events)


def _use(payload: Json) -> SkillUse:
    try:
        return msgspec.convert(payload, SkillUse)
    except msgspec.ValidationError:
        return SkillUse(skill="unreadable", sha256="", why="unreadable", tools=(), domains=())


def was_consulted(db: Tx, turn_id: str) -> bool:
    """Whether it is on record that skills were looked at for a turn, with whatever result."""
    return any(events_after(db, Wanted(event_type=kind, entity_id=turn_id), 0, 1) for kind in (USED, NONE))


def record_use(tx: Tx, clock: Clock, turn_id: str, use: SkillUse) -> None:
    """Have a turn work under a skill from now on; the same one again changes nothing."""
    if all(known.skill != use.skill or known.sha256 != use.sha256 for known in uses_of(tx, turn_id)):
        fields: dict[str, Json] = msgspec.to_builtins(use)
        add_event(tx, clock, "skill_used", turn_id, fields)


def record_none(tx: Tx, clock: Clock, turn_id: str, looked_at: int, passed_over: Mapping[str, str]) -> None:
    """Record that no skill matched, of how many, and which could not be used."""
    add_event(tx, clock, "skill_none", turn_id, {"looked_at": looked_at, "passed_over": dict(passed_over)})


def narrowed(policy: Policy, uses: Collection[SkillUse], tools: Mapping[str, Tool]) -> Policy:
    """The rules in force with one more layer for each skill; what only the runtime calls is not a skill's to deny."""
    if not uses:
        return policy
    always = frozenset({TAKE, *(name for name, tool in tools.items() if is_runtime_only(tool))})
    layers = tuple(
        (f"{SKILL_LAYER}{use.skill}", frozenset(use.tools) | always) for use in uses if use.tools is not None
    )
    told: list[Json] = [policy.hash, *(msgspec.to_builtins(use) for use in uses)]
    return msgspec.structs.replace(
        policy, allowlists=(*policy.allowlists, *layers), hash=sha256_hex(canonical_bytes(told))
    )


def tools_left(uses: Iterable[SkillUse]) -> frozenset[str] | None:
    """The tools that all of them leave; None when none of them names any."""
    left: frozenset[str] | None = None
    for use in uses:
        if use.tools is not None:
            left = frozenset(use.tools) if left is None else left & frozenset(use.tools)
    return left


class Guidance(msgspec.Struct, frozen=True, kw_only=True):
    """What skills add to a turn: words for the model, and the tools that are left."""

    text: str = ""
    tools: frozenset[str] | None = None
    """None leaves them all."""
    takes: bool = False
    """There are skills to take up."""
    lacks: str = ""
    """Which of their preconditions do not hold, in words: then the turn does not begin."""

    def leaves(self, tool: str) -> bool:
        """Whether the model is offered a tool."""
        if tool == TAKE:
            return self.takes
        return self.tools is None or tool in self.tools


NO_GUIDANCE = Guidance()
OnTurn: TypeAlias = Callable[[Tx, str], None]
"""Records what was found, given the id of the turn."""


class TurnSkills(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn consults skills."""

    match: Callable[[str], OnTurn | None]
    """Looks for a skill that a message of the owner's matches; None when there are no skills."""
    guide: Callable[[Turn], Awaitable[Guidance]]
    """What to tell the model now; looks for a skill first if nobody did."""


async def _no_guidance(_: Turn) -> Guidance:
    return NO_GUIDANCE


NO_SKILLS = TurnSkills(match=lambda _: None, guide=_no_guidance)
