"""Posting a message as a turn, and text that appears while it is written."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from coilclaw.packets.errors import CoilclawError, ModelOutputError

if TYPE_CHECKING:
    from coilclaw.agent.loop import Agent, Reply
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime import Runtime
    from coilclaw.secrets.redactor import Redactor


E = TypeVar("E", bound=CoilclawError)


class TextOut:
    """Streams an answer to the terminal through the redactor; control characters never reach it."""

    def __init__(self, redactor: "Redactor", write: Callable[[str], object] = sys.stdout.write) -> None:
        self._stream = redactor.stream()
        self._out = write
        self._shown = ""

    def __call__(self, piece: str) -> None:
        """Show the next piece, as far as it is safe to."""
        self._write(self._stream.feed(piece))

    def finish(self, text: str) -> None:
        """Show what was held back; an answer that was never streamed is shown whole."""
        self._write(self._stream.close())
        if not self._shown.strip():
            self._write(text)
        if not self._shown.endswith("\n"):
            self._out("\n")
        sys.stdout.flush()

    def end(self) -> None:
        """Show what was held back, if anything was said at all."""
        self._write(self._stream.close())
        if self._shown:
            self._out("\n")
            sys.stdout.flush()

    def _write(self, text: str) -> None:
        from coilclaw.packets.text import visible

        self._shown += text
        self._out(visible(text))
        sys.stdout.flush()


def coded(error: E) -> "E | ModelOutputError":
    """An error as the owner is told it: that a model's output could not be read has its code before the words."""
    if not isinstance(error, ModelOutputError):
        return error
    return ModelOutputError(f"FAILED_MODEL_OUTPUT: {error.message}", remedy=error.remedy)


async def post(
    agent: "Agent", app: "Runtime", thread: str, text: str, on_text: Callable[[str], None] | None
) -> "Reply":
    """Hand the owner's words to the agent, as a turn that is on record."""
    from coilclaw.features.chat.terminal_turns import TerminalTurns
    from coilclaw.packets.action import OWNER
    from coilclaw.packets.ids import new_id, stamp
    from coilclaw.packets.job import UserMessage

    now = app.clock()
    message = UserMessage(
        message_id=new_id("msg", now),
        thread_id=thread,
        channel="cli",
        source="chat",
        text=text,
        label=OWNER,
        received_at=stamp(now),
    )
    turns = TerminalTurns(app, agent)
    try:
        return await turns.post(message, on_text)
    finally:
        turns.close()


async def take_up(
    agent: "Agent",
    app: "Runtime",
    thread: str,
    conveyor: "Conveyor",
    on_text: Callable[[str], None] | None,
    say: Callable[[str], None],
) -> None:
    """Go on with what a process that died left in this conversation."""
    from coilclaw.features.chat.terminal_turns import TerminalTurns

    turns = TerminalTurns(app, agent)
    try:
        await turns.take_up(thread, conveyor, on_text, say)
    finally:
        turns.close()
