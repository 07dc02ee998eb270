"""The terminal: approval prompts and questions. The default answer is no, and a yes covers only what was shown."""

import asyncio
import os
import select
import sys
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from coilclaw.cli.card_text import RULE, closing, coloured, describe, editable, is_own, sources_of, with_edited
from coilclaw.cli.output import broken_between_words, colours, lettered
from coilclaw.cli.screen_pages import LEAST, START, Place, Screen, cells, page, rows
from coilclaw.packets.card import Answer, Card, FromNowOn, Offer, Until
from coilclaw.packets.text import one_line, visible

LEFT_OUT = "  … more: type s to show"
UNTIL: dict[Until, str] = {
    "conversation": "in this conversation",
    "today": "until midnight",
    "revoked": "until you revoke it",
}
EDITED = "Edited by the owner, who proposes their own version instead."
PLAIN = str.maketrans({"─": "-", "│": "|", "…": "~"})
"""The frame of a card on a terminal that knows few letters."""
QUIET_SECONDS = 0.3
"""As long as nothing comes, a paste is over."""
NEEDS_PASSKEY = "A passkey is registered:"
"""How the gate's reason begins where a yes at the terminal does not count."""


async def read_line(fd: int) -> str | None:
    """One line typed at a terminal, or None at its end. Waiting can be cancelled."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[bytes] = loop.create_future()

    def on_ready() -> None:
        if not ready.done():
            try:
                ready.set_result(os.read(fd, 65536))
            except OSError:  # the terminal is gone
                ready.set_result(b"")

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


async def forget_rest(fd: int, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Drop what still comes after a slip until nothing does: a later line of a paste must not be the answer."""
    await pause(QUIET_SECONDS)
    while select.select([fd], [], [], 0)[0]:
        try:
            termios.tcflush(fd, termios.TCIFLUSH)
        except termios.error:  # the terminal is gone
            return
        await pause(QUIET_SECONDS)


class Terminal:
    """Asks the owner, if the owner is there."""

    def __init__(
        self,
        *,
        assume_yes: bool = False,
        edits: bool = False,
        place: Callable[[str], tuple[int, int]] = lambda _action_id: (1, 1),
    ) -> None:
        self._assume_yes = assume_yes
        self._edits = edits
        """Whether whoever asks carries out what the owner writes instead."""
        self._place = place
        """Which of how many cards this one is that are answered together, by its action."""
        self.interactive = sys.stdin.isatty() and sys.stderr.isatty()
        self.history: list[tuple[Card, Answer]] = []
        self._own: tuple[Card, bytes] | None = None
        """A card that the owner rewrote, and what they made of its arguments."""

    async def approve(self, card: Card) -> Answer:
        """Show the card and take an answer: y approves, any other line rejects; nobody there means it waits."""
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
            _note(
                "A passkey is registered, so this cannot be approved here: it is waiting for your passkey in the panel."
            )
            _say(f"To reject it: coilclaw approvals reject {card.action_id}")
            return Answer(approved=None)
        return await self._decided(card)

    async def _decided(self, card: Card) -> Answer:
        """Ask until there is an answer: Enter alone is a no, a slip of the keys and the end of input are none."""
        lines = _lines(describe(card))
        reached = _at_a_glance(lines, closing(card)) if card.lane == "A" else await _paged(lines, START)
        own, self._own = self._own, None
        if own is not None and is_own(card, *own) and reached.line == len(lines):
            _say("You wrote this yourself, so you are not asked again.")
            return Answer(approved=True)
        text = editable(card) if self._edits else None
        prompt = self._prompt(card, editable=text is not None)
        while True:
            typed = await _prompted(prompt)
            word = (typed or "").strip().lower()
            always = bool(card.offers) and word in ("a", "always")
            if word in ("s", "show"):
                reached = max(reached, await _paged(lines, START))
            elif told := _told(word, card, editable=text is not None):
                _note(told)
                await forget_rest(sys.stdin.fileno())
            elif (always or word in ("y", "yes")) and _is_too_small():
                _note(
                    f"In a terminal of less than {LEAST[0]} columns and {LEAST[1]} rows parts of it went by unseen, so "
                    "that did not count as a yes. Make it larger."
                )
                reached = START
            elif (always or word in ("y", "yes")) and reached.line < len(lines):
                _note("Not all of it has been shown yet, so that did not count as a yes. It continues here:")
                reached = await _paged(lines, reached)
            elif always:
                from_now_on = await _chosen(card.offers)
                if from_now_on is not None:
                    return Answer(approved=True, from_now_on=from_now_on)
            elif word in ("r", "reason"):
                return Answer(
                    approved=False, reason=(await _prompted("Reason, which the agent is told: ") or "").strip()
                )
            elif text is not None and word in ("e", "edit"):
                args = await _edited(card, *text)
                if args is not None:
                    self._own = card, args
                    return Answer(approved=False, reason=EDITED, edited=args)
            else:
                return _plain_answer(typed)

    def _prompt(self, card: Card, *, editable: bool) -> str:
        """What can be answered, as long as the screen is wide."""
        at, of = self._place(card.action_id)
        which = f"{at} of {of}. " if of > 1 else ""
        words = ["yes", "no", *(["always"] if card.offers else []), *(["edit"] if editable else []), "reason", "show"]
        prompt = f"{which}Approve? {' '.join(f'[{word[0]}]{word[1:]}' for word in words)} [?] "
        if len(prompt) < _screen().columns:
            return prompt
        return f"{which}Approve? [{'/'.join(word[0] for word in words)}/?] "

    async def show(self, card: Card) -> None:
        """Show all of a card, page by page."""
        await _paged(_lines(describe(card)), START)

    async def show_difference(self, text: str) -> None:
        """Show a difference page by page, in the colours it has on a card."""
        await _paged(_lines("\n".join(f"  │ {line}" for line in text.split("\n"))), START)

    async def wants(self, question: str, *, word: str) -> bool:
        """Offer to show something, which does nothing by itself: that word, its first letter, or a yes."""
        typed = (await _prompted(f"{question} ") or "").strip().lower()
        return typed in (word, word[0], "y", "yes")

    async def ask(self, question: str) -> str:
        """Put a question to the owner."""
        await _paged(_lines(f"{RULE}\nThe agent asks: {question}"), START)
        return await _prompted("> ") or ""


def _plain_answer(typed: str | None) -> Answer:
    """Yes, or no for a plain Enter; where input ends nobody answered."""
    if typed is None:
        _say("\nThat was no answer, so it keeps waiting.")
        return Answer(approved=None)
    return Answer(approved=typed.strip().lower() in ("y", "yes"))


def _told(word: str, card: Card, *, editable: bool) -> str:
    """What a word asks about, or why it is no answer to this card; empty where it is one."""
    if word in ("?", "help"):
        return _explained(card, editable=editable)
    if word in ("e", "edit") and not editable:
        return "This cannot be edited here: type r to say no and what you want instead."
    if word in ("a", "always") and not card.offers:
        return _once_only(card)
    if word in _WORDS:
        return ""
    slip = f"“{one_line(word)[:20]}” is no answer, so nothing was decided. Type one of these:"
    return f"{slip}\n{_explained(card, editable=editable)}"


_WORDS = frozenset({"", "y", "yes", "n", "no", "a", "always", "e", "edit", "r", "reason", "s", "show"})


def _once_only(card: Card) -> str:
    """Why a yes to this card is good for this once."""
    if card.provenance:
        return f"Always is not offered: this conversation took in untrusted content ({sources_of(card)})."
    if card.lane != "A":
        return "Always is not offered for what leaves this machine or governs the agent."
    return "Always is not offered for this."


def _explained(card: Card, *, editable: bool) -> str:
    """Every answer in a line."""
    return "\n".join([
        "  y  yes: do exactly this, once",
        "  n  no, as is Enter alone; Ctrl-D leaves it waiting",
        *(["  a  always: yes, and choose what it covers from now on"] if card.offers else []),
        *(["  e  edit: write it yourself; yours is done instead of this"] if editable else []),
        "  r  no, with a reason that the agent is told",
        "  s  show all of it, page by page",
    ])  # fmt: skip


async def _edited(card: Card, name: str, text: str) -> bytes | None:
    """The arguments with what the owner made of one of them; None when that is the same or nothing."""
    import click

    from coilclaw.cli.live import asking

    _say("Enter runs what you write, Ctrl-C goes back." if name == "command" else "Save and quit to have it done.")
    try:
        with asking():  # the screen is the editor's now
            new = await (_typed_over(text) if name == "command" else asyncio.to_thread(click.edit, text))
    except (click.ClickException, EOFError, KeyboardInterrupt) as error:
        _say("\n".join(_lines(f"Nothing was edited. {error}".strip())))
        return None
    if new is None or new == text or (name == "command" and not new.strip()):
        _say("Nothing was changed.")
        return None
    return with_edited(card, name, new)


async def _typed_over(text: str) -> str:
    """A line that stands there already, as the owner leaves it."""
    from prompt_toolkit import PromptSession

    session: PromptSession[str] = PromptSession()
    return await session.prompt_async("$ ", default=text)


async def _chosen(offers: tuple[Offer, ...]) -> FromNowOn | None:
    """What a yes shall cover from now on, and how long; None when the owner chose none of it."""
    choices: list[tuple[Offer, Until]] = [(offer, until) for offer in offers for until in offer.until]
    _say("Yes, and from now on:")
    for number, (offer, until) in enumerate(choices, 1):
        _note(f"  {number}  {offer.text}, {UNTIL[until]}")
    word = (await _prompted("Number (Enter: back) ") or "").strip()
    if not (word.isascii() and word.isdigit() and 1 <= int(word) <= len(choices)):
        return None
    offer, until = choices[int(word) - 1]
    return FromNowOn(what=offer.what, until=until)


def _is_too_small() -> bool:
    """Whether the terminal has less room than anything is laid out for."""
    columns, lines = os.get_terminal_size(sys.stderr.fileno())
    return 0 < columns < LEAST[0] or 0 < lines < LEAST[1]


def _screen() -> Screen:
    """The terminal's size now. One that does not tell counts as an ordinary one."""
    columns, lines = os.get_terminal_size(sys.stderr.fileno())
    return Screen(max(columns or 80, LEAST[0]), max(lines or 24, LEAST[1]))


def _lines(text: str) -> list[str]:
    """The lines of a text as this terminal can show them."""
    rule = RULE[: _screen().columns // cells(RULE[0])]
    shown = visible(text)
    if not sys.stderr.encoding.lower().startswith("utf"):
        shown, rule = shown.translate(PLAIN), rule.translate(PLAIN)
        return [rule if set(line) == {"-"} and len(line) == len(RULE) else line for line in _spelled(shown)]
    return [rule if line == RULE else line for line in _spelled(shown)]


def _spelled(text: str) -> list[str]:
    """Lines in which letters that the terminal does not have are spelled by their numbers."""
    shown = text.encode(sys.stderr.encoding, "backslashreplace").decode(sys.stderr.encoding)
    return shown.split("\n")


def _at_a_glance(lines: list[str], closing: list[str]) -> Place:
    """Print what fits on the screen; the place from which on the text was not shown."""
    screen = _screen()
    whole, end = page(lines, START, screen)
    if end.line == len(lines):
        _show_rows(whole)
        return end
    most = len(whole) - 1
    last, _ = rows(_lines("\n".join(closing)), START, screen.columns, sys.maxsize)
    last = last[-(most // 2) :]
    _show_rows([*whole[: most - len(last)], *_lines(LEFT_OUT[: screen.columns]), *last])
    return START


async def _paged(lines: list[str], place: Place) -> Place:
    """Print a text from there on, page by page, as long as the owner wants more; how far it was shown."""
    total = sum(map(len, lines))
    while True:
        screen = _screen()
        shown, after = page(lines, place, screen)
        _show_rows(shown)
        if after.line == len(lines):
            return after
        done = sum(map(len, lines[: after.line])) + after.character
        typed = await _prompted(f"Enter: more, q: quit ({100 * done // total} %) ")
        place = after if _screen() == screen else place  # a page that was drawn for another size is shown once more
        if typed is None or typed.strip():
            return place


def _note(text: str) -> None:
    """Say something about the card, broken between words; what goes on stands under its beginning."""
    for line in text.split("\n"):
        _say(lettered(broken_between_words(line, sys.stderr, "     " if line.startswith("  ") else ""), sys.stderr))


def _show_rows(shown: list[str]) -> None:
    _say("\n".join(coloured(shown) if colours(sys.stderr) else shown))


async def _prompted(prompt: str) -> str | None:
    """What is typed after a prompt, and not before it."""
    from coilclaw.cli.live import asking

    forget_typed()
    _say(prompt, end="")
    with asking():
        return await read_line(sys.stdin.fileno())


def _say(text: str, *, end: str = "\n") -> None:
    sys.stderr.write(text + end)
    sys.stderr.flush()
