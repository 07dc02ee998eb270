"""What a running agent uses, held against what it may: processors, processes, open files, disk, output."""

from __future__ import annotations

import os
from pathlib import Path

from .agent import RunningAgent
from .settings import WatcherSettings
from .volume import measure

MINUTE = 60
ASLEEP = 0.001
"""The share of all processors that a sleeping agent stays below."""
UNNOTICED = 16 << 20
"""So much less free space, and the disk is measured, whoever took it."""
MEASURE_SECONDS = 600


class UsageWatch:
    """Follows one agent from its launch on."""

    def __init__(self, settings: WatcherSettings, now: float) -> None:
        self._settings = settings
        self._next = now + settings.watch_seconds
        self._printed = (now, 0)
        self._used = (now, 0.0)
        self._busy_since: float | None = None
        self._free, self._measured = 0, now - MEASURE_SECONDS  # the first time is measured

    def excess(self, agent: RunningAgent, now: float) -> str:
        """What the agent uses too much of; empty when all is well, or it is not time to measure yet."""
        if why := self._flood(agent, now):
            return why
        if now < self._next:
            return ""
        self._next = now + self._settings.watch_seconds
        return self._greed(agent, now)

    def _flood(self, agent: RunningAgent, now: float) -> str:
        since, printed = self._printed
        if agent.printed - printed > self._settings.log_per_minute:
            return f"it printed more than {self._settings.log_per_minute} bytes in a minute"
        if now - since > MINUTE:
            self._printed = (now, agent.printed)
        return ""

    def _greed(self, agent: RunningAgent, now: float) -> str:
        used = agent.used()
        before, seconds = self._used
        self._used = (now, used.processor_seconds)
        share = max(0.0, used.processor_seconds - seconds) / max(0.001, now - before) / (os.cpu_count() or 1)
        if share <= self._settings.cpu_share:
            self._busy_since = None
        elif self._busy_since is None:
            self._busy_since = before
        if self._busy_since is not None and now - self._busy_since >= self._settings.cpu_seconds:
            return f"it used {share:.0%} of the processors for {now - self._busy_since:.0f} seconds"
        if used.processes > self._settings.processes:
            return f"it has {used.processes} processes"
        if used.open_files > self._settings.open_files:
            return f"it has {used.open_files} open files"
        return self._disk(used.deleted_bytes) if self._may_have_grown(share, now) else ""

    def _may_have_grown(self, share: float, now: float) -> bool:
        """Whether the disk is measured. Who slept made few files; but space can be taken without any work."""
        there = os.statvfs(self._settings.home)
        free = there.f_bfree * there.f_frsize
        if share <= ASLEEP and free > self._free - UNNOTICED and now < self._measured + MEASURE_SECONDS:
            return False
        self._free, self._measured = free, now
        return True

    def _disk(self, deleted: int) -> str:
        most, files = self._settings.disk_bytes, self._settings.disk_files
        size, count = deleted, 0
        # What it pushed is kept, and what was odd is moved aside: neither is a way around the limit.
        for name in ("bot", "remote.git/objects", "bot.git/objects", "state/aside"):
            more, others = measure(Path(self._settings.home) / name, most, files)
            size, count = size + more, count + others
        if size > most:
            return f"it filled the disk with {size} bytes, its record included; evolve.disk_mb is the limit"
        return f"it made {count} files" if count > files else ""
