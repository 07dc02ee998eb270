"""Occurrences: when a cron expression runs in a zone. A repeated wall time counts the first time; one that
does not exist counts at the next valid local time, the first instant after the gap. Both hold for every expression.

The map from wall minutes to instants is monotonic, so a search walks wall minutes in order and skips what
has passed.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice

from coilclaw.lib.cron.cron import Cron
from coilclaw.lib.cron.shifts import offset_of, shifts

_SECOND = timedelta(seconds=1)


def instant_of(wall: datetime, zone: tzinfo) -> datetime:
    """The instant of a wall time: its first occurrence, or the end of the gap that skipped it."""
    aware = wall.replace(tzinfo=zone, fold=0)
    before, after = offset_of(aware), offset_of(aware.replace(fold=1))
    if after > before:
        return _gap_end(wall, zone, before, after)
    return (wall - before).replace(tzinfo=UTC, fold=0)


def next_run(cron: Cron, zone: tzinfo, after: datetime) -> datetime | None:
    """The first run strictly after an instant, in UTC; None only at the end of the calendar."""
    if not 2 <= after.year <= 9997:
        return None
    wall: datetime | None = after.astimezone(zone).replace(tzinfo=None)
    while (wall := cron.next_wall(wall)) is not None:
        instant = instant_of(wall, zone)
        if instant > after:
            return instant
    return None


def latest_run(cron: Cron, zone: tzinfo, until: datetime) -> datetime | None:
    """The last run up to and including an instant."""
    if not 2 <= until.year <= 9997:
        return None
    local = until.astimezone(zone)
    # In the second pass of a repeated hour, all of the first pass is past.
    repeated = offset_of(local.replace(fold=0)) - offset_of(local) if local.fold else timedelta()
    wall = cron.last_wall(local.replace(tzinfo=None) + max(repeated, timedelta()))
    while wall is not None:
        instant = instant_of(wall, zone)
        if instant <= until:
            return instant
        wall = cron.last_wall(wall - _SECOND)
    return None


def runs(cron: Cron, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """Every run after an instant, strictly increasing."""
    found: datetime | None = after
    while (found := next_run(cron, zone, found)) is not None:
        yield found


def next_runs(cron: Cron, zone: tzinfo, after: datetime, count: int) -> list[datetime]:
    """The next n runs."""
    return list(islice(runs(cron, zone, after), count))


def count_runs(cron: Cron, zone: tzinfo, after: datetime, until: datetime) -> int:
    """The number of runs after one instant and up to another, without enumerating them."""
    first = next_run(cron, zone, after)
    if first is None or first > until:
        return 0
    total = 1
    reached = first.astimezone(zone).replace(tzinfo=None) + timedelta(microseconds=1)
    for shift in shifts(zone, first, until):
        total += cron.count_walls(reached, max(reached, shift.wall_before))
        if shift.forward:  # skipped times run once, together with what is due at the end of the gap
            swallowed = cron.next_wall(shift.wall_before - _SECOND)
            total += swallowed is not None and swallowed <= shift.wall_after
            reached = max(reached, shift.wall_after + timedelta(microseconds=1))
        else:
            reached = max(reached, shift.wall_before)
    end = until.astimezone(zone).replace(tzinfo=None) + timedelta(microseconds=1)
    return total + (cron.count_walls(reached, end) if end > reached else 0)


def _gap_end(wall: datetime, zone: tzinfo, before: timedelta, after: timedelta) -> datetime:
    """The instant of the change that skipped a wall time, between the two readings of that time."""
    low, high = (wall - after).replace(tzinfo=UTC), (wall - before).replace(tzinfo=UTC)
    while high - low > _SECOND:
        middle = low + timedelta(seconds=(high - low) // _SECOND // 2)
        if offset_of(middle.astimezone(zone)) == before:
            low = middle
        else:
            high = middle
    # The earlier reading is before the change, or at it if the wall time is the first missing one.
    return low if offset_of(low.astimezone(zone)) != before else high
