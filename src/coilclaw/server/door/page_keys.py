"""Page keys: a second secret of our pages besides the cookie.

A browser sends a cookie to every port of a host, so a program on another port of this machine may obtain it. The
device's own key is bound to its origin, port included: a page signs a nonce with it and gets a key
for as long as the page is open. Both sides keep it only in memory.

A WebSocket of a page can show no header of its own, and the names of protocols that it offers are logged more readily
than headers. So the key itself is not shown there, but a ticket, which is good once and for half a minute.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable

PREFIX = b"coilclaw page 1\n"
NONCE_SECONDS = 120.0
KEY_SECONDS = 24 * 3600.0
TICKET_SECONDS = 30.0
MOST_NONCES = 8
MOST_TICKETS = 8
MOST_KEYS = 32
"""Per token; the oldest is dropped first. Nobody has more pages open."""
MOST_TOKENS = 1024


def page_text(nonce: str, origin: str) -> bytes:
    """What a page signs with the device's key."""
    return PREFIX + nonce.encode() + b"\n" + origin.encode()


class PageKeys:
    """The nonces and keys of one server, by token; `now` is a monotonic clock."""

    def __init__(self, *, now: Callable[[], float], random: Callable[[int], bytes]) -> None:
        self._now = now
        self._random = random
        self._nonces: dict[str, dict[str, float]] = {}
        self._keys: dict[str, dict[str, float]] = {}
        self._tickets: dict[str, dict[str, float]] = {}

    def nonce(self, token_id: str) -> str:
        """A new nonce for the page."""
        made = self._word(16)
        _put(self._nonces, token_id, made, self._now() + NONCE_SECONDS, MOST_NONCES)
        return made

    def take(self, token_id: str, nonce: str) -> bool:
        """Consume a nonce; False if it is not ours, was used or is too old."""
        ends = self._nonces.get(token_id, {}).pop(nonce, 0.0)
        return ends > self._now()

    def grant(self, token_id: str) -> str:
        """A key for a page that has proved its device."""
        made = self._word(32)
        _put(self._keys, token_id, _hash(made), self._now() + KEY_SECONDS, MOST_KEYS)
        return made

    def holds(self, token_id: str, key: str) -> bool:
        """Whether this key was issued for this token and is not too old."""
        hashed, found = _hash(key), 0.0
        for known, ends in self._keys.get(token_id, {}).items():
            if hmac.compare_digest(known, hashed):
                found = ends
        return found > self._now()

    def ticket(self, token_id: str) -> str:
        """A ticket for one WebSocket of a page that has shown its key."""
        made = self._word(32)
        _put(self._tickets, token_id, _hash(made), self._now() + TICKET_SECONDS, MOST_TICKETS)
        return made

    def spend(self, token_id: str, ticket: str) -> bool:
        """Consume a ticket; False if it is not this token's, was used or is too old."""
        return self._tickets.get(token_id, {}).pop(_hash(ticket), 0.0) > self._now()

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
