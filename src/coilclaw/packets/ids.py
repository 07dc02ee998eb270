"""Ids: a prefix for the kind, the time in milliseconds, randomness. They sort by creation and never carry content."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current time in UTC; passed in so that tests control time."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)


def utc_now() -> datetime:
    """The real clock."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC to the millisecond, the one spelling of time in rows, receipts and events."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"


def from_stamp(text: str) -> datetime:
    """The time of a stamp."""
    return datetime.fromisoformat(text)


def _base32(number: int) -> str:
    """The last 50 bits as ten digits."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in (40, 30, 20, 10, 0)])


def new_id(kind: str, moment: datetime) -> str:
    """A fresh id such as `act_01kx3v9t2c8m4q7r5n`: sortable by time, 50 random bits."""
    random = int.from_bytes(os.urandom(7), "big")
    return f"{kind}_{_base32(int(moment.timestamp() * 1000))[1:]}{_base32(random)}"


def made_at(identifier: str) -> str | None:
    """The time at which `new_id` made an id, as a stamp; None for any other text."""
    digits = identifier.partition("_")[2][:9]
    if len(digits) < 9 or any(digit not in _ALPHABET for digit in digits):
        return None
    number = 0
    for digit in digits:
        number = number * 32 + _ALPHABET.index(digit)
    return stamp(datetime.fromtimestamp(number / 1000, UTC))
