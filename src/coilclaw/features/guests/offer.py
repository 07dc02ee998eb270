"""What a guest offers, and the pin: the offer as the owner approved it, with a class for each of its tools."""

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.packets.canonical import Json, canonical_bytes, sha256_hex

if TYPE_CHECKING:
    from coilclaw.config.mcp import McpServer

GuestKind: TypeAlias = Literal["plugin", "stdio", "http"]
ToolClass: TypeAlias = Literal["reads", "writes", "sends"]
"""What a tool does, as the owner sees it: it only looks, it changes something, or it tells somebody something."""

MOST_TOOLS = 200
DESCRIPTION = 1024
"""Characters of a description that anybody is shown, the model included; the rest is dropped."""
CLAIMS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""What a guest may say of a tool's harmlessness."""


class GuestGrant(msgspec.Struct, frozen=True, kw_only=True):
    """How a guest is reached, and everything it is given."""

    kind: GuestKind
    command: tuple[str, ...] = ()
    url: str = ""
    program: str = ""
    """The hash of every file of the program; empty for one that is reached by its address."""
    env: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    oauth_hosts: tuple[str, ...] = ()
    oauth_scopes: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    call_seconds: float = 60.0
    memory_mb: int = 1024

    @property
    def reaches_out(self) -> bool:
        """Whether arguments of its calls can leave this machine."""
        return self.kind == "http" or bool(self.domains)


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its guest describes it. Every word of it is the guest's."""

    original: str
    """Its name in the guest's own spelling."""
    description: str
    parameters: dict[str, Json]
    output: dict[str, Json] | None = None
    """The schema of its structured results."""
    claims: dict[str, Json] = {}
    """What the guest says of the tool's harmlessness; shown, and otherwise ignored."""
    command: tuple[str, ...] = ()
    """A plugin's program, relative to its folder."""


class GuestOffer(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a guest that an approval covers, apart from the classes."""

    name: str
    version: str
    grant: GuestGrant
    tools: tuple[OfferedTool, ...]
    faults: tuple[str, ...] = ()
    """Tools that cannot be let in, each with the reason."""

    @property
    def digest(self) -> str:
        """The hash of all of it."""
        return sha256_hex(canonical_bytes(msgspec.to_builtins(self)))

    def tool(self, original: str) -> OfferedTool | None:
        """The tool of that name."""
        return next((each for each in self.tools if each.original == original), None)


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """An offer that the owner approved, with the class of each tool that may be used."""

    offer: GuestOffer
    classes: dict[str, ToolClass]
    """By the tool's original name. A tool without a class is not let in."""

    @property
    def digest(self) -> str:
        """The hash that declarations of its tools carry, so that approvals bind it."""
        return sha256_hex(canonical_bytes(msgspec.to_builtins(self)))


def grant_of(server: "McpServer", program: str) -> GuestGrant:
    """What a configured server is given."""
    return GuestGrant(
        kind=server.kind,
        command=server.command,
        url=server.url,
        program=program,
        env=server.env,
        headers=tuple(sorted(server.headers.items())),
        oauth_hosts=server.oauth_hosts,
        oauth_scopes=server.oauth_scopes,
        domains=server.domains,
        read=server.read,
        write=server.write,
        call_seconds=server.call_seconds,
        memory_mb=server.memory_mb,
    )


def withheld(pin: Pin, seen: GuestOffer) -> dict[str, str]:
    """The pinned tools that may not be called while the guest offers this, each with the reason."""
    offer = pin.offer
    if seen.grant != offer.grant:
        return dict.fromkeys(pin.classes, "the program or what it is given differs from what was approved")
    reasons: dict[str, str] = {}
    for original in pin.classes:
        now = seen.tool(original)
        if now is None:
            reasons[original] = "the guest no longer offers it"
        elif now != offer.tool(original):
            reasons[original] = "the guest describes it differently from what was approved"
    return reasons
