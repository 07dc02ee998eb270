"""The approval card: what the owner sees before saying yes, and what they said."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.action import Identity, Label, Source
from coilclaw.packets.decision import Lane, Risk, RiskClass, RiskWord

BESIDE = "\n\nIf you say yes, next:\n"
"""Separates a question to the owner from the text after it, which may be somebody else's words."""


What: TypeAlias = Literal["command", "program", "folder", "anywhere"]
"""What a standing answer covers: exactly this command, its program with other arguments, writes below a folder, or
in any folder."""
Until: TypeAlias = Literal["conversation", "today", "revoked"]
"""How long it is valid."""


class FromNowOn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An approval that is valid from now on."""

    what: What
    until: Until


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that approving a card may cover from now on."""

    what: What
    text: str
    """A description for the owner."""
    until: tuple[Until, ...]


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
    """Fingerprint of where its paths led, and of the content it would replace, when this card was made."""
    marked: tuple[str, ...] = ()
    """Argument values found in untrusted content and not in the owner's own words."""
    identity: Identity | None = None
    """In whose name it would be done."""
    reaches_out: bool = False
    """A server outside is asked, also where nothing leaves for it and nothing changes there."""
    offers: tuple[Offer, ...] = ()
    """What an approval may cover from now on; empty if every call of its kind must ask."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's answer. `approved` is None if there was nobody to ask."""

    approved: bool | None
    reason: str = ""
    by: str = "terminal"
    """Through which surface the answer came."""
    from_now_on: FromNowOn | None = None
    """Turns an approval into a standing answer."""
    edited: bytes | None = None
    """With a rejection: the owner's own arguments, to be proposed as a new action."""


async def nobody(_: Card) -> Answer:
    """An absent approver: whatever asks, waits."""
    return Answer(approved=None)
