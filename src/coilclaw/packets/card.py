"""The approval card: what the owner sees before saying yes, and what they said."""

import msgspec

from coilclaw.packets.action import Label, Source
from coilclaw.packets.decision import Lane, Risk, RiskClass, RiskWord

BESIDE = "\n\nIf you say yes, next:\n"
"""Parts a question to the owner from what is put beside it, which may be somebody else's words."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """Rendered by the gate from stored data, never by the model."""

    action_id: str
    tool_name: str
    human_summary: str
    target_entity: str
    risk_class: RiskClass
    risk: Risk
    risk_word: RiskWord
    lane: Lane
    preview_or_diff: str
    source_type: Source
    expires_at: str
    reasons: tuple[str, ...]
    provenance: tuple[Label, ...]
    digest: str
    args: str
    seen: str = ""
    """Stands for where its paths led and what the files it would replace held when this card was made."""
    marked: tuple[str, ...] = ()
    """Argument values that stand in untrusted content and not in the owner's own words."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner said. `approved` is None when there was nobody to ask."""

    approved: bool | None
    reason: str = ""
    by: str = "terminal"
    """By which door the answer came."""


async def nobody(_: Card) -> Answer:
    """An approver that is not there: whatever asks, waits."""
    return Answer(approved=None)
