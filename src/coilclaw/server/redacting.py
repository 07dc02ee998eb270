"""Redacting beside the event loop: what takes as long as a text is long runs in a few threads, and nobody waits for it.

Texts are redacted whole, never in pieces: what stands before and after decides what is a secret.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from coilclaw.packets.canonical import sha256_hex
from coilclaw.server.core import Core

T = TypeVar("T")

AT_ONCE = 2
KEPT = 64
KEPT_CHARACTERS = 4 << 20
LONG = 4096
"""Shorter texts are not worth keeping."""
WITHHELD = "[withheld: redaction failed]"


class Redacting:
    """A few threads for long texts, and what they made of the last ones: a queue is looked at again and again."""

    def __init__(self, core: Core, *, at_once: int = AT_ONCE) -> None:
        self._core = core
        self._turns = asyncio.Semaphore(at_once)
        self._lock = threading.Lock()
        self._kept: dict[str, str] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    async def aside(self, work: Callable[[], T]) -> T:
        """Have it done in a thread. It must not touch the database: that belongs to the loop."""
        async with self._turns:
            return await asyncio.to_thread(work)

    def said(self, text: str) -> str:
        """A text without secrets, as `Core.said` gives it."""
        if len(text) < LONG:
            return self._core.said(text)
        try:
            # The first layer alone changes while we run. What the others make of its outcome is always the same.
            key = sha256_hex(self._core.redactor.registered(text).encode("utf-8", "surrogatepass"))
            known = self._find(key)
            if known is None:
                known = self._core.redactor.text(text)
                self._keep(key, known)
        except Exception:  # fail closed
            return WITHHELD  # and nothing is kept
        return known

    def head(self, text: str, most: int) -> str:
        """The beginning of what `said` would give: only what is the same whatever follows."""
        if len(text) <= most:
            return self._core.said(text)
        try:
            return self._core.redactor.stream().feed(text[:most])
        except Exception:  # fail closed
            return WITHHELD

    def _find(self, key: str) -> str | None:
        with self._lock:
            known = self._kept.pop(key, None)
            if known is not None:
                self._kept[key] = known  # the one looked at last is the last to go
            return known

    def _keep(self, key: str, shown: str) -> None:
        with self._lock:
            self._size += len(shown) - len(self._kept.pop(key, ""))
            self._kept[key] = shown
            while len(self._kept) > KEPT or self._size > KEPT_CHARACTERS:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
