"""How long to wait: after crashes, when launches follow each other too quickly, and when to stop trying."""

from __future__ import annotations

import time

from .settings import WatcherSettings

HOUR = 3600
QUICK_LAUNCHES = 8
"""So many launches in ten minutes need no pause."""

TOLD = 60
"""So many lines for the owner in ten minutes; what follows is in the log alone."""


class Pauses:
    """Counts what happened of late; monotonic time only, so that a changed clock changes nothing."""

    def __init__(self, settings: WatcherSettings) -> None:
        self._settings = settings
        self._crashes = 0
        self._launches: list[float] = []
        self._runaways: list[float] = []
        self._told: list[float] = []
        self._due = 0.0

    @property
    def over(self) -> bool:
        """Whether main may be launched again."""
        return time.monotonic() >= self._due

    def crashed(self) -> float:
        """Begin the pause after a crash and give its length; each is twice as long as the one before."""
        self._crashes += 1
        pause = self._doubled(self._crashes - 1)
        self._due = time.monotonic() + pause
        return pause

    def steady(self) -> None:
        """The agent ran long enough: crashes before are forgotten."""
        self._crashes = 0

    def launched(self) -> None:
        """Count a launch."""
        self._launches = [past for past in self._launches if time.monotonic() - past < HOUR / 6] + [time.monotonic()]

    def hurry(self) -> float:
        """The pause before a launch that a signal asks for: none, unless there were many of late."""
        over = len([past for past in self._launches if time.monotonic() - past < HOUR / 6]) - QUICK_LAUNCHES
        return self._doubled(over) if over > 0 else 0

    def ran_away(self) -> int:
        """Count an agent that had to be ended; gives how many in the last hour."""
        self._runaways = [past for past in self._runaways if time.monotonic() - past < HOUR] + [time.monotonic()]
        return len(self._runaways)

    def tells(self, text: str) -> str:
        """What the owner is told of a line: all of it, of the last for now that there are more, of the rest nothing."""
        now = time.monotonic()
        self._told = [past for past in self._told if now - past < HOUR / 6]
        if len(self._told) >= TOLD:
            return ""
        self._told.append(now)
        return text if len(self._told) < TOLD else f"{text}; more follows, which the watcher's log has"

    def forget(self) -> None:
        """Begin anew after a hold."""
        self._crashes, self._due, self._runaways = 0, 0.0, []

    def _doubled(self, times: int) -> float:
        return min(self._settings.longest_pause, self._settings.first_pause * 2.0 ** min(times, 20))
