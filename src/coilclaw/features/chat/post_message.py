"""Posting a message as a turn, and text that appears while it is written."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from coilclaw.packets.errors import CoilclawError, ModelOutputError

if TYPE_CHECKING:
    from coilclaw.agent.loop import Agent, Reply
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.gate.running import CommandOutput
    from coilclaw.runtime import Runtime
    from coilclaw.secrets.redactor import Redactor


E = TypeVar("E", bound=CoilclawError)


class TextOut:
    """Streams an answer to the terminal through the redactor; control characters never reach it."""

    def __init__(self, redactor: "Redactor", write: Callable[[str], object] = sys.stdout.write) -> None:
        self._redactor = redactor
        self._stream = redactor.stream()
        self._out = write
        self._shown = ""

    def __call__(self, piece: str) -> None:
        """Show the next piece, as far as it is safe to."""
        self._write(self._stream.feed(piece))

    def event(self, name: str) -> None:
        """What the model said before a call stands by itself, all of it; what it says next is another text."""
        if name == "tool_requested":
            self._write(self._stream.close())
            self._stream = self._redactor.stream()
            if self._shown and not self._shown.endswith("\n"):
                self._write("\n")

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


class CommandOut:
    """Shows what the commands of one conversation write, dim, as it comes; it is redacted and visible already."""

    def __init__(self, thread_id: str, write: Callable[[str], object]) -> None:
        self._thread = thread_id
        self._write = write

    def __call__(self, output: "CommandOutput") -> None:
        """Show the next piece."""
        if output.thread_id == self._thread:
            from coilclaw.cli.output import colours

            self._write(f"\x1b[2m{output.piece}\x1b[0m" if colours(sys.stdout) else output.piece)
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


async def resume_here(app: "Runtime", turn_id: str) -> None:
    """Go on with a turn whose last call was just answered at this terminal; calls that follow are asked about here."""
    from coilclaw.cli.output import tell
    from coilclaw.cli.terminal import Terminal
    from coilclaw.features.chat.agent import agent_of
    from coilclaw.features.chat.held_back import how_to_show
    from coilclaw.features.chat.store.turns import asked_together, load_turn
    from coilclaw.features.chat.terminal_turns import TerminalTurns
    from coilclaw.features.chat.turn_ends import waiting_words
    from coilclaw.features.chat.turn_view import shown

    turn = load_turn(app.db.reader, turn_id)
    if turn is None:
        return
    terminal = Terminal(edits=True, place=partial(asked_together, app.db.reader))
    conveyor = app.conveyor(terminal.approve, terminal.ask if terminal.interactive else None)
    turns = TerminalTurns(app, agent_of(app, conveyor))
    try:
        with shown(app, turn.thread_id) as out:
            replies = await turns.resume({turn_id}, out)
            for reply in replies[:1]:
                out.finish(waiting_words(app, turn_id) if reply.ending == "pending" else reply.text)
        if replies:
            if held := how_to_show(app, turn_id):
                tell(held, err=True)
            return
        turn = load_turn(app.db.reader, turn_id)
        if turn is not None and turn.state == "WAITING":  # others were asked for together with this one
            tell(waiting_words(app, turn_id), err=True)
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
