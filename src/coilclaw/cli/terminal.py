"""The terminal: approval prompts and questions. The default answer is no, and a yes covers only what was shown."""

import asyncio
import os
import sys
import termios
from contextlib import suppress

import msgspec

from coilclaw.cli.screen_pages import LEAST, START, Place, Screen, page, rows
from coilclaw.packets.card import Answer, Card
from coilclaw.packets.text import visible

RULE = "─" * 60
LEFT_OUT = "  … more: type show"
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
            await self.show(msgspec.structs.replace(card, reasons=reasons))
            _say(
                "A passkey is registered, so this cannot be approved here: it is waiting for your passkey in the panel."
            )
            _say(f"To reject it: coilclaw approvals reject {card.action_id}")
            return Answer(approved=None)
        lines = _lines(describe(card))
        reached = _at_a_glance(lines, _closing(card)) if card.lane == "A" else await _paged(lines, START)
        while True:
            line = await _prompted("Approve? [y/N/show] ")
            word = (line or "").strip().lower()
            if word == "show":
                reached = max(reached, await _paged(lines, START))
            elif word in ("y", "yes") and reached.line < len(lines):
                _say("Not all of it has been shown yet, so that did not count as a yes. It continues here:")
                reached = await _paged(lines, reached)
            else:
                return Answer(approved=word in ("y", "yes"))

    async def show(self, card: Card) -> None:
        """Show all of a card, page by page."""
        await _paged(_lines(describe(card)), START)

    async def ask(self, question: str) -> str:
        """Put a question to the owner."""
        await _paged(_lines(f"{RULE}\nThe agent asks: {question}"), START)
        return await _prompted("> ") or ""


def describe(card: Card) -> str:
    """The card as lines, with nothing left out."""
    lines = [
        RULE,
        "Tool request:",
        f"  tool:    {card.tool_name}",
        f"  risk:    {card.risk_word} ({card.risk}, lane {card.lane})",
        f"  what:    {card.human_summary}",
        f"  target:  {card.target_entity}",
        *(f"  reason:  {reason}" for reason in card.reasons),
        f"  digest:  {card.digest[:16]}",
    ]
    if card.preview_or_diff:
        lines += ["", *(f"  │ {line}" for line in card.preview_or_diff.split("\n")), ""]
    return "\n".join([*lines, f"  args:    {card.args}", *_closing(card)])


def _closing(card: Card) -> list[str]:
    """How a card ends. What is asked stands last, whatever the preview shows above."""
    return [
        RULE,
        *([f"  UNTRUSTED CONTENT IN THIS CONVERSATION: {', '.join(card.provenance)}"] if card.provenance else []),
        *(f"  FROM UNTRUSTED CONTENT, NOT FROM YOU: {value}" for value in card.marked),
        f"{card.tool_name}, {card.risk_word} risk: {card.human_summary}",
    ]


def _screen() -> Screen:
    """The terminal's size now. One that does not tell counts as an ordinary one."""
    columns, lines = os.get_terminal_size(sys.stderr.fileno())
    return Screen(max(columns or 80, LEAST[0]), max(lines or 24, LEAST[1]))


def _lines(text: str) -> list[str]:
    """The lines of a text as this terminal can show them."""
    rule = RULE[: _screen().columns]
    shown = visible(text).encode(sys.stderr.encoding, "backslashreplace").decode(sys.stderr.encoding)
    return [rule if line == RULE else line for line in shown.split("\n")]


def _at_a_glance(lines: list[str], closing: list[str]) -> Place:
    """Print what fits on the screen; the place from which on the text was not shown."""
    screen = _screen()
    whole, end = page(lines, START, screen)
    if end.line == len(lines):
        _say("\n".join(whole))
        return end
    most = len(whole) - 1
    last, _ = rows(_lines("\n".join(closing)), START, screen.columns, sys.maxsize)
    last = last[-(most // 2) :]
    _say("\n".join([*whole[: most - len(last)], LEFT_OUT[: screen.columns], *last]))
    return START


async def _paged(lines: list[str], place: Place) -> Place:
    """Print a text from there on, page by page, as long as the owner wants more; how far it was shown."""
    total = sum(map(len, lines))
    while True:
        screen = _screen()
        shown, after = page(lines, place, screen)
        _say("\n".join(shown))
        if after.line == len(lines):
            return after
        done = sum(map(len, lines[: after.line])) + after.character
        typed = await _prompted(f"Enter: more, q: quit ({100 * done // total} %) ")
        place = after if _screen() == screen else place  # a page that was drawn for another size is shown once more
        if typed is None or typed.strip():
            return place


async def _prompted(prompt: str) -> str | None:
    """What is typed after a prompt, and not before it."""
    forget_typed()
    _say(prompt, end="")
    return await read_line(sys.stdin.fileno())


def _say(text: str, *, end: str = "\n") -> None:
    sys.stderr.write(text + end)
    sys.stderr.flush()
