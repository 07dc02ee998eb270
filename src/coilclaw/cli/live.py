"""What moves at a terminal while a turn runs: the answer as it is written, the last output of a command, a status line.

It stands below everything else and is gone without trace before anything is printed. Nothing of it is drawn while the
cursor stands behind a prompt, and what others say while the owner answers one is said afterwards.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from coilclaw.cli.markdown import DIM, END, Markdown, wrapped
from coilclaw.cli.screen_pages import LEAST, cells
from coilclaw.packets.text import one_line, visible

if TYPE_CHECKING:
    from coilclaw.packets.canonical import Json

PERIOD = 0.15
"""Seconds between two drawings: fewer than eight a second."""
TAIL = 5
"""Lines of a command's output in sight, and rows of an unfinished line."""
SPINNER, PLAIN_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
THINKING = "thinking"
ENDS = ("tool_completed", "tool_failed", "tool_unknown", "tool_denied")


class Live:
    """The moving part of one terminal, for one turn."""

    def __init__(self, out: TextIO, spent: Callable[[], str]) -> None:
        self._out = out
        self._spent = spent
        self._unicode = (out.encoding or "").lower().startswith("utf")
        self._markdown = Markdown()
        self._line = ""
        """Of the answer, the line that is not finished yet."""
        self._tail = ""
        self._doing = THINKING
        self._waiting = False
        """For a model that is busy."""
        self._cost = ""
        self._began = time.monotonic()
        self._drawn = 0
        """Rows of the moving part that are on the screen now."""
        self._behind_prompt = False
        self._later: list[tuple[TextIO, str]] | None = None
        """What is said after the owner has answered; None while nobody is asked."""
        self._frame = 0

    # What is told

    def answer(self, text: str) -> None:
        """The next piece of the answer, visible already; whole lines of it are printed for good."""
        if self._waiting:
            self._doing, self._waiting = THINKING, False
        *lines, self._line = (self._line + text).split("\n")
        rows = [row for line in lines for row in self._markdown.line(line, self._columns())]
        if rows:
            self._print("\n".join(rows) + "\n")

    def output(self, piece: str) -> None:
        """The next piece of a command's output."""
        self._behind_prompt = False
        self._tail = "\n".join((self._tail + piece).split("\n")[-TAIL - 1 :])[-4000:]

    def event(self, event: str, fields: "Mapping[str, Json]") -> None:
        """Something is about to be told: the status line says what goes on now, and a command's last lines stay."""
        if event in ("tool_requested", "tool_approved"):
            self._behind_prompt = False
            what = fields.get("what")
            self._doing = one_line(str(what)).rstrip(".") if what else self._doing
        elif event == "model_waiting":
            self._doing, self._waiting = one_line(str(fields.get("message"))), True
        elif event in ENDS:
            rows, self._tail, self._doing = self._tail_rows(), "", THINKING
            self._print("".join(f"{row}\n" for row in rows))
        self._cost = self._spent()

    def other(self, stream: TextIO, text: str) -> None:
        """Print what somebody else has to say; behind a prompt nothing moves."""
        if not text:
            return
        if self._later is not None:
            self._later.append((stream, text))
            return
        self.finish_line()
        self._erase()
        stream.write(text)
        self._behind_prompt = not text.endswith("\n")

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Leave the screen to the owner's answer: a command that ends meanwhile must not write over the question."""
        self.finish_line()
        self._erase()
        self._later = []
        try:
            yield
        finally:
            later, self._later = self._later, None
            self._behind_prompt = False
            for stream, text in later:
                self.other(stream, text)

    # On the screen

    def finish_line(self) -> None:
        """Print what there is of an unfinished line, and a table that has no more rows."""
        line, self._line = self._line, ""
        columns = self._columns()
        rows = [*(self._markdown.line(line, columns) if line else ()), *self._markdown.close(columns)]
        if rows:
            self._print("\n".join(rows) + "\n")

    def draw(self) -> None:
        """Draw the moving part anew."""
        if self._behind_prompt or self._later is not None:
            return
        columns = self._columns()
        rows = [*(wrapped([(self._line, "")], columns, "")[-TAIL:] if self._line else ()), *self._tail_rows()]
        rows.append(f"{DIM}{_cut(self._status(columns), columns)}{END}")
        self._erase()
        self._write("\n".join(rows))
        self._drawn = len(rows)
        self._out.flush()

    def stop(self) -> None:
        """Leave nothing that moves."""
        self.finish_line()
        self._erase()
        self._out.flush()

    def _status(self, columns: int) -> str:
        spinner = SPINNER if self._unicode else PLAIN_SPINNER
        self._frame = (self._frame + 1) % len(spinner)
        seconds = int(time.monotonic() - self._began)
        between = " · " if self._unicode else " - "
        figures = "".join(between + part for part in (f"{seconds} s", self._cost) if part)
        return f"{spinner[self._frame]} {_cut(self._doing, max(columns - len(figures) - 3, 0))}{figures}"

    def _tail_rows(self) -> list[str]:
        lines = self._tail.rstrip("\n").split("\n")[-TAIL:] if self._tail.strip() else []
        return [f"{DIM}{_cut('  ' + visible(line.expandtabs(4)), self._columns())}{END}" for line in lines]

    def _columns(self) -> int:
        """One less than there are: a full row would wrap on some terminals."""
        try:
            columns = os.get_terminal_size(self._out.fileno()).columns
        except OSError:
            columns = 0
        return max(columns or 80, LEAST[0]) - 1

    def _erase(self) -> None:
        if self._drawn:
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            self._out.write(f"\r{up}\x1b[J")
            self._out.flush()
            self._drawn = 0

    def _print(self, text: str) -> None:
        if self._later is not None:
            self._later.append((self._out, text))
            return
        self._erase()
        self._behind_prompt = False
        self._write(text)
        self._out.flush()

    def _write(self, text: str) -> None:
        encoding = self._out.encoding or "ascii"
        self._out.write(text if self._unicode else text.encode(encoding, "backslashreplace").decode(encoding))


class _Beside:
    """A stream of the process while something moves: the moving part makes way for what is written."""

    def __init__(self, live: Live, stream: TextIO) -> None:
        self._live = live
        self._stream = stream

    def write(self, text: str) -> int:
        self._live.other(self._stream, text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def asking(self) -> AbstractContextManager[None]:
        return self._live.asking()


def asking() -> AbstractContextManager[None]:
    """Have nothing move and nobody else write at this terminal while the owner answers."""
    return sys.stderr.asking() if isinstance(sys.stderr, _Beside) else nullcontext()


def _cut(text: str, columns: int) -> str:
    """As much of a text as fits into one row."""
    used = 0
    for place, character in enumerate(text):
        used += cells(character)
        if used > columns:
            return text[:place]
    return text


@contextmanager
def moving(spent: Callable[[], str]) -> Iterator[Live]:
    """Have something that moves at this terminal, for as long as this lasts."""
    out, err = sys.stdout, sys.stderr
    live = Live(out, spent)
    sys.stdout, sys.stderr = _Beside(live, out), _Beside(live, err)
    task = asyncio.ensure_future(_drawing(live))
    try:
        yield live
    finally:
        task.cancel()
        live.stop()
        sys.stdout, sys.stderr = out, err


async def _drawing(live: Live) -> None:
    while True:
        await asyncio.sleep(PERIOD)
        live.draw()
