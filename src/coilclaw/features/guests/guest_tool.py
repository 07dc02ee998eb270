"""A guest's tool as the gate sees it: its class and reach are the owner's word, its text and results are untrusted."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.features.guests.names import tool_name
from coilclaw.features.guests.offer import OfferedTool, Pin, ToolClass
from coilclaw.packets.action import Identity, Label, untrusted
from coilclaw.packets.canonical import Json, canonical_bytes, parse_object, sha256_hex
from coilclaw.packets.decision import Destination, RiskClass
from coilclaw.packets.errors import CoilclawError, EffectUncertain, ToolError
from coilclaw.packets.http import FetchRequest
from coilclaw.packets.ports import Context, Notes, Recovery, Tool, ToolOutput
from coilclaw.packets.text import one_line, visible
from coilclaw.packets.touches import Touches
from coilclaw.tools.declare import ANYONE

if TYPE_CHECKING:
    from coilclaw.features.guests.mcp_client import CallResult

EFFECTS: dict[ToolClass, RiskClass] = {"reads": "READ", "writes": "WRITE", "sends": "EXFILTRATION"}
_INSIDE = str.maketrans("«»", "‹›")
"""A description cannot close the quotation it stands in and go on as if it were ours."""
TEXT = 50_000
"""Characters of a result that the model gets; of a longer one the rest is an artifact."""

ARTIFACT = 2 << 20
"""The largest artifact."""
MOST_BLOBS = 32
"""Blobs of one result that are kept; each is a row, and a message in its conversation."""

GuestCall: TypeAlias = "Callable[[Pin, OfferedTool, dict[str, Json], Context], Awaitable[CallResult]]"


class GuestArgs(msgspec.Struct, frozen=True):
    """Arguments that fit the guest's schema."""

    arguments: dict[str, Json]


class GuestTool:
    """One pinned tool."""

    def __init__(self, pin: Pin, tool: OfferedTool, call: GuestCall, *, withheld: str = "") -> None:
        offer, kind = pin.offer, pin.classes[tool.original]
        self._pin = pin
        self._tool = tool
        self._call = call
        self.guest = offer.name
        self.name = tool_name(offer.name, tool.original)
        told = visible(tool.description, lines=False).translate(_INSIDE)
        self.description = f"A tool of the outside program {offer.name}, which describes it so: «{told}»"
        self.effect: RiskClass = EFFECTS[kind]
        self.destination: Destination = "external" if offer.grant.reaches_out else "machine"
        self.idempotent = kind == "reads"
        self.always_ask = bool(offer.grant.write) and kind != "reads"  # what it changes there cannot be undone
        self.callers = ANYONE
        self.governs = False
        self.identities: frozenset[Identity] = frozenset()
        self.withheld = withheld

    @property
    def label(self) -> Label:
        """Where everything it returns came from."""
        return untrusted(f"guest:{self.guest}")

    @property
    def parameters(self) -> dict[str, Json]:
        """The guest's own schema."""
        return self._tool.parameters

    @property
    def declaration_hash(self) -> str:
        """Covers the pin: whatever the owner approves anew needs new approvals."""
        return sha256_hex(canonical_bytes({"name": self.name, "effect": self.effect, "pin": self._pin.digest}))

    def parse(self, args: bytes) -> GuestArgs:
        """The arguments, held against the guest's schema before anything is decided."""
        from coilclaw.features.guests.schemas import check

        given = dict(parse_object(args))
        if fault := check(self._tool.parameters, given):
            raise msgspec.ValidationError(one_line(fault))
        return GuestArgs(given)

    def acting_as(self, identity: Identity) -> Tool:
        """It acts for nobody."""
        raise ValueError(f"{self.name} has no identities")

    async def look_ahead(self, args: msgspec.Struct, *, begun: bool) -> None:
        """There is nothing to fetch."""

    def touches(self, args: msgspec.Struct) -> Touches:
        """Where the arguments go, and all of them for the card."""
        grant = self._pin.offer.grant
        requests = (FetchRequest(purpose="read", principal="mcp", method="POST", url=grant.url),) if grant.url else ()
        return Touches(
            guest=self.guest,
            domains=grant.domains,
            requests=requests,
            seconds=int(grant.call_seconds) + 1,
            subject=f"{self.name} of the guest {self.guest}",
            says=self._says(args),
        )

    def _says(self, args: msgspec.Struct) -> str:
        grant = self._pin.offer.grant
        where = f"to {one_line(grant.url)}" if grant.url else f"to {self.guest}, in a box"
        reach = f" that may reach {', '.join(grant.domains)}" if grant.domains else ""
        folders = "".join(f"\nIt may change {one_line(folder)}; that cannot be undone." for folder in grant.write)
        return f"Goes {where}{reach}:\n{_pretty(args)}{folders}"

    def recovery(self, args: msgspec.Struct) -> Recovery:
        """Nothing is repeated but what only reads."""
        return "repeat" if self.idempotent else "owner"

    async def lookup(self, args: msgspec.Struct, context: Context) -> bool | None:
        """There is nothing to look it up in."""
        return None

    def summary(self, args: msgspec.Struct) -> str:
        """One deterministic sentence for the approval card."""
        return f"Call {self._tool.original} of the guest {self.guest}"

    async def invoke(self, args: msgspec.Struct, context: Context) -> ToolOutput:
        """Call it. Whatever comes back, errors included, is the guest's own words."""
        from coilclaw.features.guests.mcp_client import GuestFault

        assert isinstance(args, GuestArgs)  # noqa: S101 - the gate hands back what `parse` gave
        if context.notes is None:
            raise ToolError("no artifacts were granted to this call.", code="NOT_GRANTED", begun=False)
        try:
            result = await self._call(self._pin, self._tool, args.arguments, context)
        except GuestFault as fault:
            if fault.uncertain and self.effect != "READ":
                raise EffectUncertain(f"{self.guest} broke off during the call.", code=fault.code) from fault
            text = visible(str(fault))
            return ToolOutput(text=text, label=self.label, success=False, code=fault.code)
        if fault := self._misfit(result):
            text = f"Its structured result does not fit its own schema: {one_line(fault)}"
            if self.effect != "READ":  # it answered, so it may well have done it
                raise EffectUncertain(text, code="GUEST_RESULT")
            return ToolOutput(text=text, label=self.label, success=False, code="GUEST_RESULT")
        return await self._output(result, context.notes)

    def _misfit(self, result: "CallResult") -> str:
        """How a result differs from the schema that the tool declares for it."""
        from coilclaw.features.guests.schemas import check

        if self._tool.output is None or (result.is_error and result.structured is None):
            return ""
        return "it has none" if result.structured is None else check(self._tool.output, result.structured)

    async def _output(self, result: "CallResult", notes: Notes) -> ToolOutput:
        lines = [] if not result.text else [result.text]
        if result.structured is not None and not result.text:  # servers repeat it as text for older clients
            lines.append(_json(result.structured))
        for number, blob in enumerate(result.blobs[:MOST_BLOBS], 1):
            kept = await _kept(notes, blob.kind, f"{self.name}-{number}", blob.data)
            lines.append(f"[{blob.kind}, {blob.mime_type}, {len(blob.data)} bytes: {kept}]")
        if len(result.blobs) > MOST_BLOBS:
            lines.append(f"[{len(result.blobs) - MOST_BLOBS} more left out]")
        text = "\n".join(lines)
        if len(text) > TEXT:
            whole = text.encode("utf-8", "surrogatepass")[:ARTIFACT]
            kept = await _kept(notes, "guest_result", self.name, whole)
            text = f"{text[:TEXT]}\n[cut: {len(whole)} bytes of it: {kept}]"
        return ToolOutput(
            text=text or "(no content)",
            label=self.label,
            success=not result.is_error,
            code="GUEST_ERROR" if result.is_error else "",
        )


async def _kept(notes: Notes, kind: str, name: str, content: bytes) -> str:
    """Keep a part of a result; says where, or that it could not be. What the guest did is done either way."""
    if len(content) > ARTIFACT:
        return "too large to keep"
    # Its content is in the number: a read that is repeated after a crash may bring something else.
    part = int(sha256_hex(f"{kind} {name} {sha256_hex(content)}".encode())[:12], 16) + 1
    try:
        return f"artifact {await notes.put_artifact(kind=kind, name=name, content=content, part=part)}"
    except CoilclawError:
        return "it could not be kept"


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _pretty(args: msgspec.Struct) -> str:
    given = args.arguments if isinstance(args, GuestArgs) else {}
    return visible(msgspec.json.format(msgspec.json.encode(given), indent=2).decode())
