"""Declaring a tool: nothing the gate needs to know has a default."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar, cast, get_args

import msgspec

from coilclaw.packets.action import Identity, Source
from coilclaw.packets.canonical import Json, canonical_bytes, sha256_hex
from coilclaw.packets.decision import Destination, RiskClass
from coilclaw.packets.ports import Context, Recovery, Tool, ToolOutput
from coilclaw.packets.touches import Touches

A = TypeVar("A", bound=msgspec.Struct)

ANYONE: frozenset[Source] = frozenset(get_args(Source))
"""A tool that models may propose, whatever the source."""
RUNTIME: frozenset[Source] = frozenset({"sop", "gateway", "session"})
"""Sources of the runtime's own calls: steps of procedures, uploads, questions of coding sessions."""


class Declared(Generic[A]):
    """A tool made from a function. Its schema and declaration hash are derived."""

    withheld = ""

    def __init__(
        self,
        run: Callable[[A, Context], Awaitable[ToolOutput]],
        args: type[A],
        *,
        effect: RiskClass,
        destination: Destination,
        idempotent: bool,
        always_ask: bool,
        touches: Callable[[A], Touches],
        summary: Callable[[A], str],
        callers: frozenset[Source] = ANYONE,
        governs: bool = False,
        identities: frozenset[Identity] = frozenset(),
    ) -> None:
        if callers != ANYONE and not (callers and callers <= RUNTIME):
            raise ValueError(f"{run.__name__}: a tool is open to all sources, or only to the runtime's own")
        if governs and (callers == ANYONE or not always_ask):
            raise ValueError(
                f"{run.__name__}: a tool that governs the agent must not be open to models, and must ask the owner"
            )
        self.identities = identities
        self.governs = governs
        self.callers = callers
        self.name = run.__name__
        self.description = (run.__doc__ or "").strip()
        self.effect: RiskClass = effect
        self.destination: Destination = destination
        self.idempotent = idempotent
        self.always_ask = always_ask
        self._run = run
        self._args = args
        self._touches = touches
        self._summary = summary
        self._decoder: msgspec.json.Decoder[A] | None = None
        self._parameters: dict[str, Json] | None = None
        self._declaration_hash = ""

    @property
    def parameters(self) -> dict[str, Json]:
        """JSON Schema of the arguments, without references."""
        if self._parameters is None:
            self._parameters = self._derive_schema()
        return self._parameters

    def _derive_schema(self) -> dict[str, Json]:
        schema = cast("dict[str, Json]", msgspec.json.schema(self._args))
        definitions = cast("dict[str, Json]", schema.get("$defs", {}))
        own = cast("dict[str, Json]", _without_references(definitions[self._args.__name__], definitions))
        return {**own, "title": self.name}

    @property
    def declaration_hash(self) -> str:
        """Hash of everything declared; a changed tool needs a new approval."""
        if not self._declaration_hash:
            self._declaration_hash = self._derive_hash()
        return self._declaration_hash

    def _derive_hash(self) -> str:
        return sha256_hex(canonical_bytes(self._declared()))

    def _declared(self) -> dict[str, Json]:
        own: dict[str, Json] = {} if self.callers == ANYONE else {"callers": [*sorted(self.callers)]}
        if self.governs:
            own["governs"] = True
        if self.identities:
            own["identities"] = [*sorted(self.identities)]
        return own | {
            "name": self.name,
            "description": self.description,
            "effect": self.effect,
            "destination": self.destination,
            "idempotent": self.idempotent,
            "always_ask": self.always_ask,
            "parameters": self.parameters,
        }

    def parse(self, args: bytes) -> A:
        """The typed arguments."""
        if self._decoder is None:  # most commands parse the arguments of few tools or of none
            self._decoder = msgspec.json.Decoder(self._args)
        return self._decoder.decode(args)

    def acting_as(self, identity: Identity) -> Tool:
        """It acts for nobody."""
        raise ValueError(f"{self.name} has no identities")

    def touches(self, args: msgspec.Struct) -> Touches:
        """What the call would touch."""
        return self._touches(cast("A", args))

    async def look_ahead(self, args: msgspec.Struct, *, begun: bool) -> None:
        """Have it say what a call touches, aside: what it says then is found quickly the next time."""
        import asyncio

        await asyncio.to_thread(self.touches, args)

    def recovery(self, args: msgspec.Struct) -> Recovery:
        """Repeat what is idempotent; leave the rest to the owner."""
        return "repeat" if self.idempotent else "owner"

    async def lookup(self, args: msgspec.Struct, context: Context) -> bool | None:
        """There is nothing to look it up in."""
        return None

    def summary(self, args: msgspec.Struct) -> str:
        """One deterministic sentence for the approval card."""
        return self._summary(cast("A", args))

    async def invoke(self, args: msgspec.Struct, context: Context) -> ToolOutput:
        """Run it with what it was granted."""
        return await self._run(cast("A", args), context)


def _without_references(schema: Json, definitions: dict[str, Json]) -> Json:
    """The schema with references inlined, because not every model server resolves them."""
    if isinstance(schema, list):
        return [_without_references(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref")
    if isinstance(name, str):
        return _without_references(definitions[name.rpartition("/")[2]], definitions)
    return {key: _without_references(each, definitions) for key, each in schema.items()}


def tool(
    args: type[A],
    *,
    effect: RiskClass,
    destination: Destination,
    idempotent: bool,
    always_ask: bool,
    touches: Callable[[A], Touches],
    summary: Callable[[A], str],
    callers: frozenset[Source] = ANYONE,
    governs: bool = False,
) -> Callable[[Callable[[A, Context], Awaitable[ToolOutput]]], Declared[A]]:
    """Declare the decorated function as a tool named after it."""

    def declare(run: Callable[[A, Context], Awaitable[ToolOutput]]) -> Declared[A]:
        return Declared(
            run,
            args,
            effect=effect,
            destination=destination,
            idempotent=idempotent,
            always_ask=always_ask,
            touches=touches,
            summary=summary,
            callers=callers,
            governs=governs,
        )

    return declare


def owner_call(
    args: type[A],
    *,
    destination: Destination,
    idempotent: bool,
    touches: Callable[[A], Touches],
    summary: Callable[[A], str],
) -> Callable[[Callable[[A, Context], Awaitable[ToolOutput]]], Declared[A]]:
    """Declare a call that changes what governs the agent: only the owner makes it, and each needs owner proof."""
    return tool(
        args,
        effect="WRITE",
        destination=destination,
        idempotent=idempotent,
        always_ask=True,
        touches=touches,
        summary=summary,
        callers=frozenset({"gateway"}),
        governs=True,
    )


def nothing(_: msgspec.Struct) -> Touches:
    """For tools that touch no path, no command and no address."""
    return Touches()


def outlasting(_: msgspec.Struct) -> Touches:
    """For those whose effect goes on after the turn."""
    return Touches(outlasts=True)


def runtime_names(tools: Iterable[Declared[Any]]) -> frozenset[str]:
    """The tools that only the runtime may call, by name."""
    return frozenset(each.name for each in tools if each.callers != ANYONE)


def registry(tools: list[Tool]) -> dict[str, Tool]:
    """Tools by name; a name collision is a programming error."""
    named: dict[str, Tool] = {}
    for each in tools:
        if each.name in named:
            raise ValueError(f"two tools are named {each.name}")
        named[each.name] = each
    return named
