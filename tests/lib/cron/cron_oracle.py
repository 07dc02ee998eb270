"""A slow second opinion on cron: walks through real time and asks a clock on the wall, minute by minute.

It shares nothing with the engine: its own reading of the five fields, no search, no wall time ever turned into an
instant. A wall minute is due at the first instant at which the clock shows it or something later.
"""

from datetime import UTC, datetime, timedelta, tzinfo

_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = {
    name: place
    for place, name in enumerate(
        ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"], 1
    )
} | {name: place for place, name in enumerate(["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"])}
BEFORE = timedelta(hours=26)
"""Longer than any clock was ever put back: what the wall has shown by then is known when the answer begins."""


def _number(word: str) -> int:
    return _NAMES[word.upper()] if word.isalpha() else int(word)


def _expand(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin = low if span == "*" else _number(first)
        end = high if span == "*" else _number(last or first)
        found |= {number for number in range(begin, end + 1) if (number - begin) % int(step or 1) == 0}
    return found


class Oracle:
    """One expression in one zone."""

    def __init__(self, text: str, zone: tzinfo) -> None:
        self.fields = text.split()
        self.zone = zone
        self.sets = [_expand(field, *bounds) for field, bounds in zip(self.fields, _RANGES, strict=True)]

    def names(self, wall: datetime) -> bool:
        """Whether the expression names this minute of the calendar."""
        minutes, hours, days, months, weekdays = self.sets
        if wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
            return False
        sunday_first = wall.isoweekday() % 7
        by_day = wall.day in days
        by_weekday = sunday_first in weekdays or (sunday_first == 0 and 7 in weekdays)
        if self.fields[2] != "*" and self.fields[4] != "*":
            return by_day or by_weekday
        return by_day and by_weekday

    def runs(self, after: datetime, until: datetime, *, tick: int = 60) -> list[datetime]:
        """Every run after one instant and up to another; offsets with seconds need a tick of one second."""
        step, minute = timedelta(seconds=tick), timedelta(minutes=1)
        now = (after - BEFORE).replace(second=0, microsecond=0)
        coming = now.astimezone(self.zone).replace(tzinfo=None, second=0) + minute
        found: list[datetime] = []
        while now <= until:
            wall = now.astimezone(self.zone).replace(tzinfo=None)
            if coming <= wall:
                due = False
                while coming <= wall:
                    due = due or self.names(coming)
                    coming += minute
                if due and now > after:
                    found.append(now.astimezone(UTC))
            now += step
        return found


def changes(zone: tzinfo, year: int) -> list[datetime]:
    """The whole hours of a year in which the offset of a zone changes, found by looking at every hour."""
    start = datetime(year, 1, 1, tzinfo=UTC)
    hours = [start + timedelta(hours=number) for number in range(366 * 24)]
    offsets = [hour.astimezone(zone).utcoffset() for hour in hours]
    return [hour for hour, one, other in zip(hours, offsets, offsets[1:], strict=False) if one != other]
