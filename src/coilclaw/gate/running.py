"""The commands that run now in this process, and those who watch what they write."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

from coilclaw.gate.live_output import LiveOutput
from coilclaw.packets.action import Action
from coilclaw.packets.box import OnOutput
from coilclaw.secrets.stream import RedactingStream


class CommandOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of what a running command writes, redacted; it has no number and is not kept."""

    thread_id: str
    turn_id: str
    action_id: str
    offset: int
    """How many characters were said before; where it is more than was heard, this reader was too slow for the rest."""
    piece: str


Watcher: TypeAlias = Callable[[CommandOutput], None]
"""Is told pieces as they come; it neither waits nor raises."""


class RunningCommands:
    """Knows which commands run and what they write. One for a process, whatever conveyor carries them."""

    def __init__(self, redacting: Callable[[], RedactingStream]) -> None:
        self._redacting = redacting
        self._running: dict[str, tuple[Action, LiveOutput, bool]] = {}
        """Each with its output, and whether it runs in the background."""
        self._watchers: list[Watcher] = []

    @contextmanager
    def during(self, action: Action, *, background: bool = False) -> Iterator[OnOutput]:
        """Register the command of an action while it runs; yields the receiver of its output."""
        output = LiveOutput(self._redacting, lambda offset, piece: self._tell(_piece(action, offset, piece)))
        self._running[action.action_id] = (action, output, background)
        try:
            yield output
        finally:
            output.close()
            del self._running[action.action_id]

    def of_job(self, job_id: str) -> bool:
        """Whether a command runs that a step of that job waits for."""
        return any(action.job_id == job_id and not aside for action, _, aside in self._running.values())

    def in_background(self, action_id: str) -> bool:
        """Whether the command of an action runs here and nobody waits for it."""
        running = self._running.get(action_id)
        return running is not None and running[2]

    def text_of(self, action_id: str) -> str:
        """The last of what a command wrote, while it runs here."""
        running = self._running.get(action_id)
        return "" if running is None else running[1].text

    @contextmanager
    def watched(self, watcher: Watcher) -> Iterator[None]:
        """Have every piece told, for as long as this lasts."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def watch(self, watcher: Watcher) -> None:
        """Have every piece told, for as long as the process lives."""
        self._watchers.append(watcher)

    def so_far(self) -> Iterator[CommandOutput]:
        """The last of what every running command wrote, for those who come later."""
        for action, output, _ in self._running.values():
            if output.text:
                yield _piece(action, output.length - len(output.text), output.text)

    def _tell(self, piece: CommandOutput) -> None:
        for watcher in self._watchers:
            watcher(piece)


def _piece(action: Action, offset: int, piece: str) -> CommandOutput:
    return CommandOutput(
        thread_id=action.thread_id, turn_id=action.turn_id, action_id=action.action_id, offset=offset, piece=piece
    )
