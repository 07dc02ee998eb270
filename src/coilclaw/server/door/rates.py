"""Rate limits: token buckets in memory, at most a fixed number of them."""

from collections.abc import Callable, Sequence

import msgspec

MOST_BUCKETS = 4096


class RouteRate(msgspec.Struct, frozen=True, kw_only=True):
    """A stricter limit for some routes."""

    name: str
    methods: frozenset[str]
    paths: tuple[str, ...]
    """Each part is literal or `*`, which matches any one part."""
    per_minute: int
    shared: bool = False
    """Counted across all devices instead of per device."""

    def covers(self, method: str, path: str) -> bool:
        """Whether it applies to a request."""
        return method in self.methods and any(_fits(pattern, path) for pattern in self.paths)


def _fits(pattern: str, path: str) -> bool:
    if "*" not in pattern:
        return pattern == path
    wanted, found = pattern.split("/"), path.split("/")
    return len(wanted) == len(found) and all(want in ("*", part) for want, part in zip(wanted, found, strict=True))


_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_POST = frozenset({"POST"})

ROUTE_RATES = (
    RouteRate(name="pairing.bind", methods=_POST, paths=("/v1/pairing/bind",), per_minute=600, shared=True),
    RouteRate(name="pairing.github", methods=_POST, paths=("/v1/pairing/github",), per_minute=6, shared=True),
    RouteRate(name="webhooks", methods=_POST, paths=("/runner/v1/webhooks/*",), per_minute=60, shared=True),
    RouteRate(name="forge.webhook", methods=_POST, paths=("/v1/forge/webhook",), per_minute=60, shared=True),
    RouteRate(name="pairing.code", methods=_POST, paths=("/v1/pairing/code",), per_minute=10),
    RouteRate(
        name="passkeys",
        methods=_WRITES,
        paths=("/v1/passkeys", "/v1/passkeys/*", "/v1/passkeys/*/*"),
        per_minute=60,
    ),
    RouteRate(name="providers.test", methods=_POST, paths=("/v1/providers/*/test",), per_minute=10),
    RouteRate(name="chat", methods=_POST, paths=("/v1/chat/threads/*/messages", "/chat"), per_minute=60),
    RouteRate(
        name="checks", methods=frozenset({"GET", "POST"}), paths=("/v1/doctor", "/v1/receipts/verify"), per_minute=10
    ),
)


class _Bucket(msgspec.Struct):
    left: float
    seen: float


class Rates:
    """All buckets of one server. `now` is a monotonic clock."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        per_minute: int,
        routes: Sequence[RouteRate] = ROUTE_RATES,
        most: int = MOST_BUCKETS,
    ) -> None:
        self._now = now
        self._per_minute = per_minute
        self._routes = tuple(routes)
        self._most = most
        self._buckets: dict[tuple[str, str], _Bucket] = {}

    def wait(self, who: str, method: str, path: str) -> float:
        """Count a request; 0 if it may proceed, else the seconds until the next one may."""
        limits = [(("", who), self._per_minute)] if who else []
        limits += [
            ((route.name, "" if route.shared else who), route.per_minute)
            for route in self._routes
            if route.covers(method, path)
        ]
        return max((self._take(key, per_minute) for key, per_minute in limits), default=0.0)

    def _take(self, key: tuple[str, str], per_minute: int) -> float:
        now, pace = self._now(), per_minute / 60
        bucket = self._buckets.pop(key, None)
        if bucket is None:
            self._make_room()
            bucket = _Bucket(left=float(per_minute), seen=now)
        bucket.left = min(float(per_minute), bucket.left + (now - bucket.seen) * pace)
        bucket.seen = now
        self._buckets[key] = bucket  # least recently used first
        if bucket.left < 1:
            return (1 - bucket.left) / pace
        bucket.left -= 1
        return 0.0

    def _make_room(self) -> None:
        """Evict the least recently used, so that a flood of names costs no more memory."""
        while len(self._buckets) >= self._most:
            del self._buckets[next(iter(self._buckets))]

    @property
    def size(self) -> int:
        """The number of buckets."""
        return len(self._buckets)
