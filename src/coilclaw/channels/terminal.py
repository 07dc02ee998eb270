"""The terminal: approval prompts and questions. The default answer is always no."""

import asyncio
import os
import sys
import termios
from contextlib import suppress

import msgspec

from coilclaw.packets.card import Answer, Card
from coilclaw.packets.text import visible

RULE = "─" * 60
NEEDS_PASSKEY = "A passkey is registered:"
"""How the gate's reason begins where a yes at the terminal does not count."""


async def read_line(fd: int) -> str | None:
    """One line typed at a terminal, or None at its end. Waiting can be cancelled."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[bytes] = loop.create_future()

    def on_ready() -> None:
        if not ready.done():
            ready.set_result(os.read(fd, 65536))

    loop.add_reader(fd, on_ready)
    try:
        data = await ready
    finally:
        loop.remove_reader(fd)
    return data.decode("utf-8", "replace").rstrip("\r\n") if data else None


def forget_typed() -> None:
    """Drop what was typed before the question was shown: an answer must come after it."""
    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


class Terminal:
    """Asks the owner, if the owner is there."""

    def __init__(self, *, assume_yes: bool = False) -> None:
        self._assume_yes = assume_yes
        self.interactive = sys.stdin.isatty() and sys.stderr.isatty()
        self.history: list[tuple[Card, Answer]] = []

    async def approve(self, card: Card) -> Answer:
        """Show the card and take an answer: y approves, anything else rejects; nobody there means it waits."""
        answer = await self._answer(card)
        self.history.append((card, answer))
        return answer

    async def _answer(self, card: Card) -> Answer:
        if self._assume_yes and card.lane == "A" and not card.provenance:
            return Answer(approved=True, reason="--yes", by="--yes")
        if not self.interactive:
            return Answer(approved=None)
        reasons = tuple(reason for reason in card.reasons if not reason.startswith(NEEDS_PASSKEY))
        if reasons != card.reasons:
            _say(describe(msgspec.structs.replace(card, reasons=reasons)))
            _say("A passkey is registered, so it is not asked here: it waits for your passkey in the panel.")
            _say(f"To reject it: coilclaw approvals reject {card.action_id}")
            return Answer(approved=None)
        _say(describe(card))
        forget_typed()
        _say("Approve? [y/N] ", end="")
        line = await read_line(sys.stdin.fileno())
        return Answer(approved=line is not None and line.strip().lower() in ("y", "yes"))

    async def ask(self, question: str) -> str:
        """Put a question to the owner."""
        _say(f"{RULE}\nThe agent asks: {visible(question)}")
        forget_typed()
        _say("> ", end="")
        return await read_line(sys.stdin.fileno()) or ""


def describe(card: Card) -> str:
    """The card as lines."""
    lines = [
        RULE,
        "Tool request:",
        f"  tool:    {card.tool_name}",
        f"  risk:    {card.risk_word} ({card.risk}, lane {card.lane})",
        f"  what:    {card.human_summary}",
        f"  target:  {card.target_entity}",
        *(f"  reason:  {reason}" for reason in card.reasons),
        f"  args:    {card.args if len(card.args) <= 400 else card.args[:400] + '…'}",
        f"  digest:  {card.digest[:16]}",
    ]
    if card.preview_or_diff:
        lines += ["", *(f"  │ {line}" for line in card.preview_or_diff.splitlines())]
    lines.append(RULE)
    if card.provenance:
        lines.append(f"  UNTRUSTED CONTENT IN THIS CONVERSATION: {', '.join(card.provenance)}")
    lines += [f"  FROM UNTRUSTED CONTENT, NOT FROM YOU: {value}" for value in card.marked]
    # What is asked stands last, whatever the preview shows above.
    return "\n".join([*lines, f"{card.tool_name}, {card.risk_word} risk: {card.human_summary}"])


def _say(text: str, *, end: str = "\n") -> None:
    sys.stderr.write(text + end)
    sys.stderr.flush()
