"""A turn as the gate sees it: who started it, and which untrusted content it has met so far."""

from coilclaw.packets.action import Label, Source


def is_untrusted(label: Label) -> bool:
    """Whether somebody other than the owner or the runtime wrote it."""
    return label.startswith("untrusted:")


class Turn:
    """One owner's request being worked on. Taint only ever grows."""

    def __init__(self, turn_id: str, thread_id: str, source: Source, inherited: tuple[Label, ...] = ()) -> None:
        self.turn_id = turn_id
        self.thread_id = thread_id
        self.source: Source = source
        self._fresh: dict[Label, None] = {}
        self._inherited = dict.fromkeys(label for label in inherited if is_untrusted(label))

    @property
    def fresh(self) -> tuple[Label, ...]:
        """Untrusted content this turn took in."""
        return tuple(self._fresh)

    @property
    def inherited(self) -> tuple[Label, ...]:
        """Untrusted content earlier turns of this conversation took in."""
        return tuple(self._inherited)

    @property
    def taint(self) -> tuple[Label, ...]:
        """Both."""
        return tuple({**self._inherited, **self._fresh})

    def take_in(self, label: Label) -> None:
        """Note that content with this label entered the turn."""
        if is_untrusted(label):
            self._fresh[label] = None
