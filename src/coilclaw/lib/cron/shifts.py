"""Shifts: when a zone's clocks change."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

_SECOND = timedelta(seconds=1)
_STRIDE = timedelta(days=1)
"""No zone has changed its clocks and changed them back within a day."""


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the clocks."""

    instant: datetime
    """The first instant with the new offset, in UTC."""
    wall_before: datetime
    """The local time without the change."""
    wall_after: datetime
    """The local time with it."""

    @property
    def forward(self) -> bool:
        """Wall times from before to after are skipped; otherwise those from after to before repeat."""
        return self.wall_after > self.wall_before


def offset_of(aware: datetime) -> timedelta:
    """The UTC offset of a local time."""
    return aware.utcoffset() or timedelta()


def shifts(zone: tzinfo, after: datetime, until: datetime) -> Iterator[Shift]:
    """Every change after one instant and up to another."""
    start = after.astimezone(UTC)
    offset = offset_of(start.astimezone(zone))
    while start < until:
        end = min(start + _STRIDE, until)
        changed = offset_of(end.astimezone(zone))
        if changed != offset:
            instant = _change(zone, start, end, offset)
            wall = instant.replace(tzinfo=None)
            yield Shift(instant=instant, wall_before=wall + offset, wall_after=wall + changed)
        start, offset = end, changed


def _change(zone: tzinfo, low: datetime, high: datetime, offset: timedelta) -> datetime:
    """The first whole second with another offset."""
    low = low.replace(microsecond=0)
    high = high.replace(microsecond=0) + (_SECOND if high.microsecond else timedelta())
    while high - low > _SECOND:
        middle = low + timedelta(seconds=(high - low) // _SECOND // 2)
        if offset_of(middle.astimezone(zone)) == offset:
            low = middle
        else:
            high = middle
    return high
