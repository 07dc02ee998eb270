"""Talks to a program until it says how it ended: questions go to the desk, words to a terminal.

A talk can be heard again from its beginning: what was answered already is not answered twice, so a server that comes
later goes on where the one before was killed.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

import msgspec

from coilclaw.features.runner.adapters.contract import CliPlace, HookAsk, HookDecision
from coilclaw.features.runner.structured.contract import (
    Heard,
    Message,
    StructuredDriver,
    StructuredOutcome,
    Talk,
    TalkDesk,
)
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.text import visible

if TYPE_CHECKING:
    from coilclaw.features.runner.structured.serving import RelayWire

_QUESTIONS = 16
"""Open ones at a time; further ones are denied."""
_UNREADABLE = 1000
"""Lines that are no messages: more are no program of ours."""
_MESSAGES = 1_000_000
_SHOWN = 4000
"""Characters of one text at the terminal."""
_NOTES = 100
_LOOK_SECONDS = 0.5
BEGINNING = -1
"""What the first messages are about; everything else is about a line of the program, by its number."""
LINE_BYTES = 16 << 20
"""The longest message. A longer one ends it."""


class SoFar(msgspec.Struct, frozen=True, kw_only=True):
    """How far a server before came."""

    answered: Mapping[int, bool] = {}
    """By line: whether the answer was a yes."""
    shown: int = 0
    """How many lines were dealt with."""


def driver_of(provider: str) -> StructuredDriver:
    """How a program is talked to; raises ToolError for one that has no such way."""
    if provider not in ("codex", "claude", "gemini", "fake"):
        raise ToolError(
            f"{provider} needs a terminal.", remedy="Use codex, claude or gemini.", code="NO_STRUCTURED", begun=False
        )
    return cast("StructuredDriver", import_module(f"coilclaw.features.runner.structured.{provider}").DRIVER)


class StructuredTalk:
    """One program from its start to its end."""

    def __init__(
        self,
        wire: "RelayWire",
        driver: StructuredDriver,
        place: CliPlace,
        desk: TalkDesk,
        so_far: SoFar | None = None,
    ) -> None:
        self._wire = wire
        self._driver = driver
        self._talk = Talk(place=place)
        self._desk = desk
        self._so_far = so_far or SoFar()
        self._open: set[asyncio.Task[None]] = set()
        self._notes: deque[str] = deque()
        self._finished: tuple[int, StructuredOutcome] | None = None
        """It did what it was told, by which line; somebody may still have a word for it."""
        self._outcome: StructuredOutcome | None = None

    def note(self, text: str) -> None:
        """A line for the program, when it has done what it was told before."""
        if len(self._notes) < _NOTES:
            self._notes.append(text)

    async def run(self) -> StructuredOutcome:
        """Talk until it ends; the wire is closed afterwards, whatever happened."""
        ended = ""
        try:
            if BEGINNING not in self._so_far.answered:
                await self._send(self._driver.begin(self._talk), BEGINNING)
            listening = asyncio.ensure_future(self._listen())
            try:
                while self._outcome is None and not listening.done():
                    await asyncio.wait({listening}, timeout=_LOOK_SECONDS)
                    await self._go_on()
            finally:
                listening.cancel()
                await asyncio.wait({listening})
            if not listening.cancelled():
                listening.result()
        except CoilclawError as error:
            self._outcome = self._outcome or self._talk.outcome("LOST", str(error))
        finally:
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            ended = await self._wire.close()
        return self._outcome or self._talk.outcome("LOST", f"It ended without a word{ended}")

    async def _go_on(self) -> None:
        """After its work: the next note, or the end once nothing more can come."""
        if self._finished is None or self._outcome is not None:
            return
        number, outcome = self._finished
        if self._notes:
            self._finished = None
            text = self._notes.popleft()
            await self.say(f"> {text}")
            await self._send((self._driver.say(self._talk, text),), number, note=True)
        elif not self._desk.is_awaited():
            self._outcome = outcome

    async def _listen(self) -> None:
        unreadable = number = 0
        async for line in self._wire.lines():
            message = _message(line)
            if message is None:
                unreadable += 1
            else:
                await self._hear(number, message)
            if number >= self._so_far.shown:
                await self._wire.heard(number)
            number += 1
            if self._outcome is None and (unreadable > _UNREADABLE or number > _MESSAGES):
                self._outcome = self._talk.outcome("LOST", "It says what cannot be read, without an end.")
            if self._outcome is not None:
                return
            if self._finished is not None:
                await self._go_on()

    async def _hear(self, number: int, message: Message) -> None:
        try:
            heard = self._driver.hear(self._talk, message)
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
            await self._refuse(number, message)
            return
        self._talk = heard.talk
        again, answered = number < self._so_far.shown, number in self._so_far.answered
        for text in () if again else heard.shown:
            await self.say(text)
        if heard.send and not answered:
            await self._send(heard.send, number)
        if heard.ask is not None and heard.reply is not None:
            if not answered:
                await self._question(number, message, heard)
            elif self._so_far.answered[number] and self._desk.was_allowed(heard.ask):
                self._talk = self._talk.allows(heard.ask.call_id)
        for did in () if again else heard.unasked:
            await self._unguarded(did)
        if heard.outcome is not None and not answered:
            self._ended(number, heard.outcome)

    def _ended(self, number: int, outcome: StructuredOutcome) -> None:
        if outcome.code == "FINISHED":
            self._finished = number, outcome
        else:
            self._outcome = self._outcome or outcome

    async def _refuse(self, number: int, message: Message) -> None:
        denial = self._driver.refuse(message)
        if denial is not None and number not in self._so_far.answered:
            await self._send((denial,), number)

    async def _question(self, number: int, message: Message, heard: Heard) -> None:
        if len(self._open) >= _QUESTIONS:
            await self._refuse(number, message)
            return
        task = asyncio.ensure_future(self._decide(number, heard))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _decide(self, number: int, heard: Heard) -> None:
        assert heard.ask is not None  # noqa: S101 - the caller looked
        assert heard.reply is not None  # noqa: S101
        decision = await self._asked(heard.ask)
        if decision.allow:
            self._talk = self._talk.allows(heard.ask.call_id)
        try:
            await self.say(f"{'allowed' if decision.allow else 'denied'}: {heard.ask.command or heard.ask.tool}")
            await self._send((heard.reply(decision),), number, yes=decision.allow)
        except (CoilclawError, OSError):
            return  # it is over: the listener says how

    async def _asked(self, ask: HookAsk) -> HookDecision:
        try:
            return await self._desk.answer(ask)
        except Exception as error:  # whatever went wrong at the desk, nothing is allowed by it
            return HookDecision(allow=False, reason=f"It could not be decided ({type(error).__name__}).")

    async def _unguarded(self, did: HookAsk) -> None:
        """It acted without asking, as it may where it knows that a command only reads: the desk has the last word."""
        decision = await self._asked(did)
        if not decision.allow:
            what = did.command or did.tool
            await self.say(f"It did not ask for this: {what}")
            self._outcome = self._talk.outcome("UNGUARDED", f"It did what it had not asked for: {what[:500]}")

    async def _send(self, messages: tuple[Message, ...], about: int, *, yes: bool = False, note: bool = False) -> None:
        """In one piece, so that either all of it was sent or nothing."""
        lines = b"\n".join(msgspec.json.encode(each) for each in messages)
        await self._wire.send(lines, about=about, yes=yes, note=note)

    async def say(self, text: str) -> None:
        """Show a text: nothing in it moves the cursor or hides."""
        cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
        for line in visible(cut).splitlines():
            await self._wire.show(line)


def _message(line: bytes) -> Message | None:
    try:
        return msgspec.json.decode(line, type=dict[str, Json])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
