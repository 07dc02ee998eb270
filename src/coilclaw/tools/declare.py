"""Declaring a tool: nothing the gate needs to know has a default."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar, cast, get_args

import msgspec

from coilclaw.packets.action import Source
from coilclaw.packets.canonical import Json, canonical_bytes, sha256_hex
from coilclaw.packets.decision import Destination, RiskClass
from coilclaw.packets.ports import Context, Recovery, Tool, ToolOutput, Touches

A = TypeVar("A", bound=msgspec.Struct)

ANYONE: frozenset[Source] = frozenset(get_args(Source))
"""A tool that models may propose, wherever they work."""
RUNTIME: frozenset[Source] = frozenset({"sop", "gateway"})
"""Where the runtime makes calls of its own: steps of procedures, uploads."""


class Declared(Generic[A]):
    """A tool made from a function. Its schema and its declaration hash are derived."""

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
        opens_pr: bool = False,
    ) -> None:
        if callers != ANYONE and not (callers and callers <= RUNTIME):
            raise ValueError(f"{run.__name__}: a tool is called by anyone, or by the runtime's own places only")
        self.callers = callers
        self.opens_pr = opens_pr
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
        self._decoder = msgspec.json.Decoder(args)
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
        definitions = cast("dict[str, dict[str, Json]]", schema.get("$defs", {}))
        return {**definitions[self._args.__name__], "title": self.name}

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
        return self._decoder.decode(args)

    def touches(self, args: msgspec.Struct) -> Touches:
        """What the call would touch."""
        return self._touches(cast("A", args))

    def recovery(self, args: msgspec.Struct) -> Recovery:
        """What can be repeated is done again; the rest is the owner's to say."""
        return "repeat" if self.idempotent else "owner"

    async def lookup(self, args: msgspec.Struct, context: Context) -> bool | None:
        """Nothing outside this machine keeps track of it."""
        return None

    def summary(self, args: msgspec.Struct) -> str:
        """One deterministic sentence for the approval card."""
        return self._summary(cast("A", args))

    async def invoke(self, args: msgspec.Struct, context: Context) -> ToolOutput:
        """Run it with what it was granted."""
        return await self._run(cast("A", args), context)


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
        )

    return declare


def nothing(_: msgspec.Struct) -> Touches:
    """For tools that touch no path, no command and no address."""
    return Touches()


def runtime_names(tools: Iterable[Declared[Any]]) -> frozenset[str]:
    """Those that only the runtime calls, by name."""
    return frozenset(each.name for each in tools if each.callers != ANYONE)


def registry(tools: list[Tool]) -> dict[str, Tool]:
    """Tools by name; two of the same name are a mistake in the code, not a choice."""
    named: dict[str, Tool] = {}
    for each in tools:
        if each.name in named:
            raise ValueError(f"two tools are named {each.name}")
        named[each.name] = each
    return named
