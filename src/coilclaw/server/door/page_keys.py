"""Page keys: what a page of ours holds beside its cookie.

A browser sends a cookie to every port of a name, so whoever listens on another port of this machine may learn it. The
device's own key never leaves the origin it was made for, port included: a page signs a nonce with it and is given a key
for as long as the page is open. It is kept in memory, here and there, and nowhere else.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable

PREFIX = b"coilclaw page 1\n"
NONCE_SECONDS = 120.0
KEY_SECONDS = 24 * 3600.0
MOST_NONCES = 8
MOST_KEYS = 32
"""For each token; the oldest goes first. More than that many pages are open nowhere."""
MOST_TOKENS = 1024


def page_text(nonce: str, origin: str) -> bytes:
    """What a page signs with the device's key."""
    return PREFIX + nonce.encode() + b"\n" + origin.encode()


class PageKeys:
    """The nonces and keys of one server, by token; `now` runs forward whatever the clock does."""

    def __init__(self, *, now: Callable[[], float], random: Callable[[int], bytes]) -> None:
        self._now = now
        self._random = random
        self._nonces: dict[str, dict[str, float]] = {}
        self._keys: dict[str, dict[str, float]] = {}

    def nonce(self, token_id: str) -> str:
        """A fresh question for the page."""
        made = self._word(16)
        _put(self._nonces, token_id, made, self._now() + NONCE_SECONDS, MOST_NONCES)
        return made

    def take(self, token_id: str, nonce: str) -> bool:
        """Use a nonce up; False when it was none of ours, or is used or too old."""
        ends = self._nonces.get(token_id, {}).pop(nonce, 0.0)
        return ends > self._now()

    def grant(self, token_id: str) -> str:
        """A key for a page that has proved its device."""
        made = self._word(32)
        _put(self._keys, token_id, _hash(made), self._now() + KEY_SECONDS, MOST_KEYS)
        return made

    def holds(self, token_id: str, key: str) -> bool:
        """Whether a page shows a key that was given for this token and is not too old."""
        hashed, found = _hash(key), 0.0
        for known, ends in self._keys.get(token_id, {}).items():
            if hmac.compare_digest(known, hashed):
                found = ends
        return found > self._now()

    def _word(self, size: int) -> str:
        return base64.urlsafe_b64encode(self._random(size)).decode().rstrip("=")


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _put(shelf: dict[str, dict[str, float]], token_id: str, word: str, ends: float, most: int) -> None:
    if token_id not in shelf and len(shelf) >= MOST_TOKENS:
        del shelf[next(iter(shelf))]
    words = shelf.setdefault(token_id, {})
    words[word] = ends
    while len(words) > most:
        del words[next(iter(words))]
