"""Ids: a word for the kind, the time to the millisecond, randomness. They sort by birth and never carry content."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]
"""Gives the current time in UTC; handed in so that tests own time."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def utc_now() -> datetime:
    """The real clock."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC to the millisecond, the one spelling of time in rows, receipts and events."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_stamp(text: str) -> datetime:
    """The moment a stamp names."""
    return datetime.fromisoformat(text)


def _base32(number: int, length: int) -> str:
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in reversed(range(length)))


def new_id(kind: str, moment: datetime) -> str:
    """A fresh id such as `act_01kx3v9t2c8m4q7r5n`: sortable by time, 50 random bits."""
    random = int.from_bytes(os.urandom(7), "big")
    return f"{kind}_{_base32(int(moment.timestamp() * 1000), 9)}{_base32(random, 10)}"
