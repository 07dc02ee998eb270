"""Guests as they are shown at the terminal and over HTTP."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.features.guests.guests import Guests
from coilclaw.features.guests.names import tool_name
from coilclaw.features.guests.offer import GuestKind, GuestOffer, ToolClass, grant_of, withheld
from coilclaw.features.guests.store import GuestRow
from coilclaw.features.guests.words import card_text, claim_words, grant_words

if TYPE_CHECKING:
    from coilclaw.config.mcp import McpServer

GuestState = Literal["new", "approved", "changed", "off"]
"""`new` was never approved; `changed` has tools that differ from what was approved, which are withheld."""


class GuestToolView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a guest offers or offered."""

    name: str
    original: str
    description: str
    claims: str
    """What the guest says of it, in words."""
    kind: ToolClass | None
    """What it does, as the owner said; null if it is not let in."""
    withheld: str
    """Why it cannot be called now; empty when it can, or was never let in."""


class GuestView(msgspec.Struct, frozen=True, kw_only=True):
    """A guest: what it is, what it may do, and which of its tools are let in."""

    name: str
    kind: GuestKind
    state: GuestState
    version: str
    may: list[str]
    """What it is and may do, a sentence each."""
    tools: list[GuestToolView]
    refused: list[str]
    """Tools that cannot be let in, each with the reason."""
    fault: str
    """Why it last could not be used."""
    approved_at: str | None
    counts_as: ToolClass
    """What a tool that nobody spoke of counts as: the most that it could do."""
    offer: str
    """The hash of what it offers now; an approval names it. Empty if it was never looked at."""
    difference: str
    """What an approval would cover, beginning with what changed; empty if there is nothing to approve."""


def view_of(
    name: str, row: GuestRow | None, server: "McpServer | None", guests: Guests, said: Callable[[str], str]
) -> GuestView:
    """A guest as it is shown, without secrets."""
    pin = None if row is None else row.pin
    seen = None if row is None else row.seen
    offer = seen or (None if pin is None else pin.offer)
    held = {} if row is None else row.withheld
    if pin is not None and pin.offer.grant.kind != "plugin" and not guests.is_configured(pin):
        held = dict.fromkeys(pin.classes, "what it is given was changed in config.toml")
    changed = bool(held) or (pin is not None and seen is not None and bool(withheld(pin, seen)))
    state: GuestState = "new" if pin is None else "changed" if changed else "approved"
    if row is not None and not row.enabled:
        state = "off"
    classes = {} if pin is None else pin.classes
    difference = ""
    if seen is not None and (pin is None or seen.digest != pin.offer.digest):
        difference = card_text(seen, {key: kind for key, kind in classes.items() if seen.tool(key)}, pin)
    return GuestView(
        name=name,
        kind=offer.grant.kind if offer is not None else "stdio" if server is None else server.kind,
        state=state,
        version=said(offer.version) if offer is not None else "",
        may=[said(line) for line in _may(offer, server)],
        tools=[] if offer is None else _tools(offer, classes, held, said),
        refused=[] if offer is None else [said(fault) for fault in offer.faults],
        fault="" if row is None else said(row.fault),
        approved_at=None if row is None else row.approved_at,
        counts_as="writes" if offer is None else default_class(offer),
        offer="" if seen is None else seen.digest,
        difference=said(difference),
    )


def default_class(offer: GuestOffer) -> ToolClass:
    """What a tool counts as until the owner says otherwise: the most that it could do."""
    return "sends" if offer.grant.reaches_out else "writes"


def _may(offer: GuestOffer | None, server: "McpServer | None") -> list[str]:
    if offer is not None:
        return list(grant_words(offer.grant))
    if server is None:
        return []
    return list(grant_words(grant_of(server, "")))


def _tools(
    offer: GuestOffer, classes: dict[str, ToolClass], held: dict[str, str], said: Callable[[str], str]
) -> list[GuestToolView]:
    return [
        GuestToolView(
            name=tool_name(offer.name, tool.original),
            original=tool.original,
            description=said(tool.description),
            claims=claim_words(tool.claims),
            kind=classes.get(tool.original),
            withheld=held.get(tool.original, ""),
        )
        for tool in offer.tools
    ]
