"""Durations as people write them: `45s`, `90m`, `24h`, `7d`, `1h30m`, within bounds. Pure."""

from coilclaw.features.schedules.triggers import read_period
from coilclaw.packets.errors import UsageError

_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def read_duration(text: str, *, least: int, most: int) -> int:
    """The seconds a duration names, within its bounds."""
    seconds = read_period(text)
    if not least <= seconds <= most:
        raise UsageError(
            f"{text.strip()} is out of bounds.",
            remedy=f"Write at least {write_duration(least)} and at most {write_duration(most)}.",
        )
    return seconds


def write_duration(seconds: int) -> str:
    """The shortest spelling of so many seconds."""
    if seconds == 0:
        return "0s"
    parts: list[str] = []
    for name, unit in _UNITS.items():
        count, seconds = divmod(seconds, unit)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts)


def in_words(seconds: int) -> str:
    """Roughly how long, for a sentence."""
    if seconds < 60:
        return f"{seconds} s"
    for unit, word in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit:
            count = seconds // unit
            return f"{count} {word}{'' if count == 1 else 's'}"
    raise AssertionError("every number of seconds is covered")
