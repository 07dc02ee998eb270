"""What a driver is: the pure functions by which one program is talked to. They read a message and say what follows.

A program is believed in nothing but its questions, and a question that cannot be read is denied. What it begins without
having asked is put to the same desk; if that denies it, the program is ended.
"""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

from coilclaw.features.runner.adapters.contract import CliLaunch, CliPlace, HookAsk, HookDecision, Provider
from coilclaw.packets.canonical import Json

Message: TypeAlias = Mapping[str, Json]
_KNOWN = 256
_KNOWN_CHARACTERS = 32 << 20
"""Announced calls that are remembered, and their text: a program announces as many as it likes, each as long."""
OutcomeCode: TypeAlias = Literal["FINISHED", "FAILED", "UNGUARDED", "LOST"]


class StructuredOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended its work."""

    code: OutcomeCode
    """`UNGUARDED`: it did what it had not asked for. `LOST`: it ended without saying how."""
    text: str = ""
    """Its last words, or why it failed. Untrusted."""
    input_tokens: int = 0
    output_tokens: int = 0
    """As the program says; what counts is what the model proxy measured."""


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """Where a conversation with a program stands."""

    place: CliPlace
    thread: str = ""
    """The program's own name of the conversation."""
    known: Mapping[str, HookAsk] = {}
    """Calls it announced, by their id."""
    allowed: frozenset[str] = frozenset()
    """Ids of calls that it asked for and that were allowed."""
    said: str = ""
    """The last text of its model."""
    input_tokens: int = 0
    output_tokens: int = 0

    def knows(self, ask: HookAsk) -> "Talk":
        """The same with a call that was announced; the oldest are forgotten, and then count as never announced."""
        known = {**self.known, ask.call_id: ask}
        size = sum(map(_size, known.values()))
        while known and (len(known) > _KNOWN or size > _KNOWN_CHARACTERS):
            size -= _size(known.pop(next(iter(known))))
        return msgspec.structs.replace(self, known=known)

    def allows(self, call_id: str) -> "Talk":
        """The same with a call that was allowed."""
        return msgspec.structs.replace(self, allowed=self.allowed | {call_id})

    def done(self, call_id: str) -> "Talk":
        """The same after a call: a model names its calls, and may give a second one the name of an allowed one."""
        return msgspec.structs.replace(self, allowed=self.allowed - {call_id})

    def outcome(self, code: OutcomeCode, text: str) -> StructuredOutcome:
        """How it ended, with what it used."""
        return StructuredOutcome(
            code=code, text=text[:10_000], input_tokens=self.input_tokens, output_tokens=self.output_tokens
        )


class TalkDesk(Protocol):
    """Who decides what a program asks: the desk of a session, or the proof of a version."""

    async def answer(self, ask: HookAsk) -> HookDecision:
        """Yes or no."""
        ...

    def was_allowed(self, ask: HookAsk) -> bool:
        """Whether a call was allowed, by whichever server."""
        ...

    def is_awaited(self) -> bool:
        """Whether the program, which is done, may still hear of an answer."""
        ...


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from one message."""

    talk: Talk
    shown: tuple[str, ...] = ()
    """For the terminal."""
    send: tuple[Message, ...] = ()
    ask: HookAsk | None = None
    """A question; the program waits for `reply`."""
    reply: Callable[[HookDecision], Message] | None = None
    unasked: tuple[HookAsk, ...] = ()
    """What it did without a yes."""
    outcome: StructuredOutcome | None = None


class StructuredDriver(msgspec.Struct, frozen=True, kw_only=True):
    """One program."""

    name: Provider
    launch: Callable[[CliPlace], CliLaunch]
    begin: Callable[[Talk], tuple[Message, ...]]
    """The first messages."""
    hear: Callable[[Talk, Message], Heard]
    """Raises KeyError, TypeError or ValueError on what it cannot read."""
    say: Callable[[Talk, str], Message]
    """A further prompt, once the one before was worked on."""
    refuse: Callable[[Message], Message | None]
    """The denial of a message that cannot be read or answered; None if it asks nothing."""


def _size(ask: HookAsk) -> int:
    return sum(map(len, (ask.call_id, ask.tool, ask.command, ask.address, ask.text, *ask.paths)))


def words(message: Message, *names: str) -> str:
    """A text below these names; raises where there is none."""
    value: Json = message
    for name in names:
        value = part(value)[name]
    if not isinstance(value, str):
        raise TypeError(f"{'.'.join(names)} is not a text")
    return value


def part(value: Json, *names: str) -> Message:
    """An object below these names; raises where there is none."""
    for name in names:
        value = part(value)[name]
    if not isinstance(value, Mapping):
        raise TypeError(f"{'.'.join(names)} is not an object")
    return value


def parts(value: Json) -> list[Message]:
    """The objects of a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def number(message: Message, name: str) -> int:
    """A whole number, or 0."""
    value = message.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else 0
