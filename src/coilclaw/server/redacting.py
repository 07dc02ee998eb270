"""Redaction outside the event loop: long texts are redacted in a few threads, so that nothing else waits.

Texts are redacted whole, never in pieces: context decides what is a secret.
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
"""Shorter texts are not cached."""
WITHHELD = "[withheld: redaction failed]"


class Redacting:
    """A few threads for long texts, and a cache of the last results, because queues are listed repeatedly."""

    def __init__(self, core: Core, *, at_once: int = AT_ONCE) -> None:
        self._core = core
        self._turns = asyncio.Semaphore(at_once)
        self._lock = threading.Lock()
        self._kept: dict[str, str] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    async def aside(self, work: Callable[[], T]) -> T:
        """Run it in a thread. It must not touch the database, which belongs to the loop."""
        async with self._turns:
            return await asyncio.to_thread(work)

    def said(self, text: str) -> str:
        """A text without secrets, like `Core.said`."""
        if len(text) < LONG:
            return self._core.said(text)
        try:
            # Only the first layer changes at run time. The others always give the same result for its output.
            key = sha256_hex(self._core.redactor.registered(text).encode("utf-8", "surrogatepass"))
            known = self._find(key)
            if known is None:
                known = self._core.redactor.text(text)
                self._keep(key, known)
        except Exception:  # fail closed
            return WITHHELD  # not cached
        return known

    def head(self, text: str, most: int) -> str:
        """The beginning of `said`'s result: only the part that is independent of what follows."""
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
                self._kept[key] = known  # most recently used last
            return known

    def _keep(self, key: str, shown: str) -> None:
        with self._lock:
            self._size += len(shown) - len(self._kept.pop(key, ""))
            self._kept[key] = shown
            while len(self._kept) > KEPT or self._size > KEPT_CHARACTERS:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
