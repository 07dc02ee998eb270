"""Posting a message as a turn, and text that appears while it is written."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coilclaw.agent.loop import Agent, Reply
    from coilclaw.app import App
    from coilclaw.secrets.redactor import Redactor


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

    def _write(self, text: str) -> None:
        from coilclaw.packets.text import visible

        self._shown += text
        self._out(visible(text))
        sys.stdout.flush()


async def post(agent: "Agent", app: "App", thread: str, text: str, on_text: Callable[[str], None] | None) -> "Reply":
    """Hand the owner's words to the agent."""
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
    return await agent.turn(message, on_text)
