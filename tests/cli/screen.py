"""A terminal as a person sees it: rows that scroll away, and which were in sight when something was asked."""

import json
from pathlib import Path

from wcwidth import wcwidth

from coilclaw.cli.screen_pages import CONTINUED
from tests.acceptance.conftest import Ran, Sitting
from tests.forked import SCRIPT

DRIVER = """
import asyncio, sys, msgspec
from coilclaw.cli.terminal import Terminal
from coilclaw.packets.card import Card
card = msgspec.json.decode(open(sys.argv[1], "rb").read(), type=Card)
answer = asyncio.run(Terminal(edits=True).approve(card))
print("ANSWER", answer.approved, answer.reason, answer.edited)
"""
MORE = "Enter: more"
MORE_ENDS = " %) "
APPROVE = "Approve? [y"

CARD = {
    "action_id": "act_1",
    "tool_name": "shell",
    "human_summary": "Run a command.",
    "target_entity": "make",
    "risk_class": "WRITE",
    "risk": "R2",
    "risk_word": "medium",
    "lane": "A",
    "preview_or_diff": "make",
    "source_type": "cli",
    "expires_at": "2026-03-02T12:00:00Z",
    "reasons": ["It writes."],
    "provenance": [],
    "digest": "d" * 64,
    "args": '{"command":"make"}',
}


class Watched:
    """A card put to somebody at a terminal of a certain size."""

    def __init__(self, folder: Path, size: tuple[int, int], environ: dict[str, str] | None = None, **fields: object):
        path = folder / "card.json"
        path.write_text(json.dumps({**CARD, **fields}))
        environ = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **(environ or {})}
        self.sitting = Sitting([*SCRIPT, DRIVER, str(path)], environ, folder, size=size)
        self.size = size
        self.in_sight: set[int] = set()
        """Rows that were on the screen when something was asked."""
        self._rows = [""]
        self._used = self._read = 0

    def rows(self) -> list[str]:
        """Everything that was ever on the screen, as it was laid out, the oldest first."""
        shown = self.sitting.shown
        for character in shown[self._read :].replace("\r\n", "\n"):
            width = 0 if character == "\n" else wcwidth(character)
            assert width >= 0, f"U+{ord(character):04X} moves the cursor"
            if character == "\n" or self._used + width > self.size[0]:
                self._rows.append("")
                self._used = 0
            self._rows[-1] += character.removeprefix("\n")
            self._used += width
        self._read = len(shown)
        return self._rows

    def waits(self, *prompts: str) -> str:
        """Read until it asks one of these; what is in sight then was shown."""
        asked = self.sitting.wait_for_one(*prompts)
        total = len(self.rows())
        self.in_sight |= set(range(max(0, total - self.size[1]), total))
        return asked

    def types(self, keys: str) -> "Watched":
        self.sitting.type(keys)
        return self

    def resized(self, size: tuple[int, int]) -> "Watched":
        """For the next pages; rows of earlier ones are not laid out anew."""
        self.sitting.resize(*size)
        self.size = size
        return self

    def paged(self) -> "Watched":
        """Press Enter until it asks for an answer."""
        while self.waits(MORE_ENDS, APPROVE) == MORE_ENDS:
            self.types("\r")
        return self

    def answer(self) -> Ran:
        return self.sitting.end()


def unwrapped(rows: list[str]) -> list[str]:
    """The lines that rows were made of, without prompts."""
    lines: list[str] = []
    for row in rows:
        if row.startswith(CONTINUED):
            lines[-1] += row.removeprefix(CONTINUED)
        elif not row.startswith(MORE):
            lines.append(row)
    return lines
