"""Retries: which failures deserve one, how long to wait, and when to stop."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import msgspec

from coilclaw.packets.errors import ProviderUnavailable
from coilclaw.packets.ids import Clock

Answer = TypeVar("Answer")
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits that many seconds; passed in so that tests control time."""
Random: TypeAlias = Callable[[], float]
"""A number from 0 up to 1, for jitter."""
BUSY_SECONDS = 15.0
"""When to ask a busy server again that does not say when."""


class Transient(ProviderUnavailable):
    """A failure that a retry of the same request may cure."""


class Overloaded(Transient):
    """The server has too much to do: the same request will be answered in a while."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How often a request is retried, and how long it waits."""

    retries: int = 3
    """Attempts after the first one."""
    first_seconds: float = 0.5
    cap_seconds: float = 20.0
    """The longest single wait. If a server asks for more, fail, so that another provider can be tried."""

    def wait(self, tried: int, asked: float | None, random: Random) -> float | None:
        """Seconds to wait after the `tried`-th attempt, or None to give up."""
        if tried > self.retries:
            return None
        if asked is not None:
            return asked if asked <= self.cap_seconds else None
        whole = min(self.cap_seconds, self.first_seconds * 2.0 ** (tried - 1))
        return whole * (0.5 + random() / 2)


async def with_retries(
    attempt: Callable[[], Awaitable[Answer]],
    *,
    backoff: Backoff,
    sleep: Sleep,
    random: Random,
    may_repeat: Callable[[], bool],
) -> Answer:
    """Run until it answers; retry only after Transient, and only while no text was shown."""
    tried = 0
    while True:
        try:
            return await attempt()
        except Transient as error:
            tried += 1
            wait = backoff.wait(tried, error.retry_after, random) if may_repeat() else None
            if wait is None:
                later = BUSY_SECONDS if isinstance(error, Overloaded) else None
                raise ProviderUnavailable(
                    error.message if tried == 1 else f"{error.message} Attempted {tried} times.",
                    remedy=error.remedy,
                    retry_after=later if error.retry_after is None else error.retry_after,
                ) from error
        await sleep(wait)


def retry_after_seconds(header: str, clock: Clock) -> float | None:
    """Seconds requested by a Retry-After header, a number or an HTTP date; None if it is unusable."""
    text = header.strip()
    if not text:
        return None
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text[:12])
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
        return max(0.0, (moment - clock()).total_seconds())
    except (ValueError, TypeError, OverflowError):  # unreadable, or a date without a zone
        return None
