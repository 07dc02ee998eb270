"""Tokens: opaque, random, stored as hashes. Each is looked up for every request, so a revocation is immediate.

A token lasts a number of days after its last use, which is recorded at most once an hour. An expired one is
deleted when presented, and by the worker within a minute, so setting the clock back does not revive it. The
hourly settling also shortens tokens that would last longer than that from now, so that those made under a fast clock
expire in time.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timedelta

from coilclaw.packets.canonical import Json
from coilclaw.packets.ids import Clock, stamp
from coilclaw.server.door.caller import Caller, TokenScope
from coilclaw.store.database import Database
from coilclaw.store.devices import TokenRow, Way, find_token, forget_token, renew_token, settle_tokens, token_holds
from coilclaw.store.runner_tokens import find_runner_token, runner_token_holds
from coilclaw.store.tx import Tx

_SHAPE = re.compile(r"cc_[A-Za-z0-9_-]{43}\Z")
_RENEW = timedelta(hours=1)
_SETTLE_SECONDS = 3600.0


def new_token(random: Callable[[int], bytes]) -> str:
    """A new token of 256 random bits."""
    return "cc_" + base64.urlsafe_b64encode(random(32)).decode().rstrip("=")


def is_token(text: str) -> bool:
    """Whether a text has a token's shape."""
    return _SHAPE.match(text) is not None


def token_hash(token: str) -> str:
    """The stored hash of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def caller_holds(db: Tx, caller: Caller, now: str) -> bool:
    """Whether an admitted caller's token is still valid."""
    holds = token_holds if caller.scope is None else runner_token_holds
    return holds(db, caller.token_id, now)


class Tokens:
    """The tokens of one home, as a server checks them."""

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        days: int,
        monotonic: Callable[[], float],
        say: Callable[[str, dict[str, Json]], None],
    ) -> None:
        self._db = db
        self._clock = clock
        self._days = timedelta(days=days)
        self._monotonic = monotonic
        self._say = say
        self._settled = monotonic()
        self._renewing: set[str] = set()

    def caller(self, token: str, way: Way) -> Caller | None:
        """The caller with this token; None if it is not, or no longer, valid."""
        if not is_token(token):
            return None
        hashed = token_hash(token)
        row = find_token(self._db.reader, hashed)
        now = self._clock()
        if row is None and way == "bearer":
            return self._scoped(hashed, now)
        if row is None or not hmac.compare_digest(row.token_hash, hashed) or row.way != way:
            return None
        if row.expires_at <= stamp(now):
            self._db.submit(lambda tx: forget_token(tx, row.token_id, stamp(now)))
            return None
        if row.revoked:
            return None
        self._settle_if_due(now)
        self._renew_if_due(row, now)
        return Caller(
            device_id=row.device_id,
            token_id=row.token_id,
            way=way,
            confirmed=row.confirmed,
            scope=None,
            opens=row.scope,
        )

    def _scoped(self, hashed: str, now: datetime) -> Caller | None:
        """The caller with a runner token."""
        row = find_runner_token(self._db.reader, hashed, stamp(now))
        if row is None or not hmac.compare_digest(row.token_hash, hashed):
            return None
        scope = TokenScope(org_id=row.org_id, repo_id=row.repo_id, session_id=row.session_id, access=row.access)
        return Caller(
            device_id=row.device_id, token_id=row.token_id, way="bearer", confirmed=row.confirmed, scope=scope
        )

    def holds(self, caller: Caller) -> bool:
        """Whether an admitted caller still has access; for long-lived connections."""
        return caller_holds(self._db.reader, caller, stamp(self._clock()))

    def _renew_if_due(self, row: TokenRow, now: datetime) -> None:
        """Record a use in the background, at most once an hour per token."""
        if row.last_used_at is not None and row.last_used_at > stamp(now - _RENEW):
            return
        if row.token_id in self._renewing:
            return
        self._renewing.add(row.token_id)
        expires_at = stamp(now + self._days)
        done = self._db.submit(lambda tx: renew_token(tx, row.token_id, now=stamp(now), expires_at=expires_at))
        done.add_done_callback(lambda future: self._renewed(row.token_id, future))

    def _renewed(self, token_id: str, future: "Future[None]") -> None:
        self._renewing.discard(token_id)
        if future.exception() is not None:  # the request itself continues; the next one tries again
            self._say("token_not_renewed", {"error": type(future.exception()).__name__})

    def _settle_if_due(self, now: datetime) -> None:
        if self._monotonic() - self._settled >= _SETTLE_SECONDS:
            self._settled = self._monotonic()
            self._db.submit(lambda tx: self.settle(tx, now))

    def settle(self, tx: Tx, now: datetime) -> int:
        """Delete expired tokens, and shorten those that would last too long."""
        return settle_tokens(tx, now=stamp(now), latest=stamp(now + self._days))
