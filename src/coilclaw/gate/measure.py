"""Measuring: reports how long something took. Only a server listens."""

from collections.abc import Callable
from typing import TypeAlias

Measure: TypeAlias = Callable[[str, str, float], None]
"""Receives what was done, by or to whom (if anybody), and how many seconds it took."""


def unmeasured(what: str, of: str, seconds: float) -> None:
    """Discards the measurement."""
