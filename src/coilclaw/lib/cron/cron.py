"""Cron: five fields parsed into sets of numbers, and the wall-clock minutes they match, without a time zone."""

from bisect import bisect_left, bisect_right
from datetime import date, datetime, timedelta

import msgspec

LAST_YEAR = 9998
"""Searches end here, so that no conversion to another zone leaves the calendar."""
_MINUTE = timedelta(minutes=1)
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def month_length(year: int, month: int) -> int:
    """The number of days of a month in a year."""
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if leap else _LENGTHS[month - 1]


def longest(month: int) -> int:
    """The maximum number of days of a month."""
    return 29 if month == 2 else _LENGTHS[month - 1]


class Cron(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed expression; every tuple is sorted and not empty. Sunday is always 0."""

    fields: tuple[str, ...]
    """The five fields as written."""
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    any_day: bool
    """The day of the month is exactly `*`."""
    any_weekday: bool
    """The day of the week is exactly `*`."""

    @property
    def text(self) -> str:
        """The expression with single blanks."""
        return " ".join(self.fields)

    @property
    def either(self) -> bool:
        """Both day fields are restricted, so a day matches by either of them."""
        return not (self.any_day or self.any_weekday)

    def on(self, year: int, month: int, day: int) -> bool:
        """Whether that day matches."""
        return month in self.months and self._day_matches(day, date(year, month, day).toordinal() % 7)

    def next_wall(self, wall: datetime) -> datetime | None:
        """The first matching wall-clock minute after that one; None beyond the calendar."""
        if wall.year > LAST_YEAR:
            return None
        start = wall.replace(second=0, microsecond=0, fold=0) + _MINUTE
        if self.on(start.year, start.month, start.day):
            later = self._time_from(start.hour, start.minute)
            if later is not None:
                return start.replace(hour=later[0], minute=later[1])
        found = self._day_after(start.year, start.month, start.day)
        return None if found is None else datetime(*found, self.hours[0], self.minutes[0])  # noqa: DTZ001 - a wall clock

    def last_wall(self, wall: datetime) -> datetime | None:
        """The last matching wall-clock minute up to and including that one; None before the calendar."""
        if self.on(wall.year, wall.month, wall.day):
            earlier = self._time_until(wall.hour, wall.minute)
            if earlier is not None:
                return wall.replace(hour=earlier[0], minute=earlier[1], second=0, microsecond=0, fold=0)
        found = self._day_before(wall.year, wall.month, wall.day)
        return None if found is None else datetime(*found, self.hours[-1], self.minutes[-1])  # noqa: DTZ001 - a wall clock

    def count_walls(self, start: datetime, end: datetime) -> int:
        """The number of matching wall-clock minutes from `start` until before `end`."""
        total, day = 0, start.date()
        while day <= end.date():
            if self.on(day.year, day.month, day.day):
                before = self._times_before(end.hour, end.minute, end) if day == end.date() else self._a_day
                total += before - (self._times_before(start.hour, start.minute, start) if day == start.date() else 0)
            day += timedelta(days=1)
        return total

    @property
    def _a_day(self) -> int:
        return len(self.hours) * len(self.minutes)

    def _times_before(self, hour: int, minute: int, wall: datetime) -> int:
        """The number of a day's times before that one."""
        if wall.second or wall.microsecond:
            minute += 1
        place = bisect_left(self.hours, hour)
        here = bisect_left(self.minutes, minute) if hour in self.hours else 0
        return place * len(self.minutes) + here

    def _day_matches(self, day: int, weekday: int) -> bool:
        if self.any_weekday:
            return self.any_day or day in self.days
        return weekday in self.weekdays or (not self.any_day and day in self.days)

    def _time_from(self, hour: int, minute: int) -> tuple[int, int] | None:
        place = bisect_left(self.hours, hour)
        if place < len(self.hours) and self.hours[place] == hour:
            here = bisect_left(self.minutes, minute)
            if here < len(self.minutes):
                return hour, self.minutes[here]
            place += 1
        return (self.hours[place], self.minutes[0]) if place < len(self.hours) else None

    def _time_until(self, hour: int, minute: int) -> tuple[int, int] | None:
        place = bisect_left(self.hours, hour)
        if place < len(self.hours) and self.hours[place] == hour:
            here = bisect_right(self.minutes, minute)
            if here:
                return hour, self.minutes[here - 1]
        return (self.hours[place - 1], self.minutes[-1]) if place else None

    def _day_after(self, year: int, month: int, day: int) -> tuple[int, int, int] | None:
        while year <= LAST_YEAR:
            if month in self.months:
                weekday = date(year, month, 1).toordinal() - 1
                for number in range(day + 1, month_length(year, month) + 1):
                    if self._day_matches(number, (weekday + number) % 7):
                        return year, month, number
            day, month = 0, month + 1
            if month > 12:
                year, month = year + 1, 1
        return None

    def _day_before(self, year: int, month: int, day: int) -> tuple[int, int, int] | None:
        while year >= 1:
            if month in self.months:
                weekday = date(year, month, 1).toordinal() - 1
                for number in range(min(day - 1, month_length(year, month)), 0, -1):
                    if self._day_matches(number, (weekday + number) % 7):
                        return year, month, number
            day, month = 32, month - 1
            if month < 1:
                year, month = year - 1, 12
        return None
