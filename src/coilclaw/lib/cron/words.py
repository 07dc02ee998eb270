"""Cron in words: one sentence for the common shapes, a list of the fields for the rest.

Works on parsed values, not on the spelling, so that MON-FRI, 1-5 and 1,2,3,4,5 read alike. For display only.
"""

from calendar import monthrange
from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

from coilclaw.lib.cron.cron import Cron
from coilclaw.lib.cron.field import DAYS, HOUR, MINUTE, MONTHS
from coilclaw.lib.cron.time_format import clock_of

Log: TypeAlias = Callable[[int, int], str]
"""Formats an hour and a minute."""

_LEAP_YEAR = 2024
"""Used when every day matches."""

_LISTED = 12
"""Up to this many times a day are listed individually."""


def cron_summary(cron: Cron, timezone: str) -> str:
    """What an expression means, in a sentence."""
    when, time = days_of(cron), times_of(cron, clock_of)
    if not when or not time:
        return _fields(cron, timezone)
    if when == "Every day" and time.startswith("every ") and " from " not in time:
        return f"E{time[1:]} {timezone}."
    return f"{when} {time} {timezone}."


def listing(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _fields(cron: Cron, timezone: str) -> str:
    minute, hour, day, month, weekday = cron.fields
    return (
        f"At minute {minute} past hour {hour} on day-of-month {day} in months {month}"
        f" and days-of-week {weekday}, {timezone}."
    )


def days_of(cron: Cron) -> str:
    """The days, capitalised; empty if there is no common phrase."""
    if cron.either:
        return ""
    if not cron.any_day:
        return _month_days(cron)
    return weekdays_of(cron) + in_months(cron)


def weekdays_of(cron: Cron) -> str:
    """The days of the week, capitalised."""
    names = cron.weekdays
    if cron.any_weekday or len(names) == 7:
        return "Every day"
    if names == (1, 2, 3, 4, 5):
        return "Every weekday (Monday–Friday)"
    if names == (0, 6):
        return "Every weekend (Saturday and Sunday)"
    monday_first = sorted(names, key=lambda number: (number - 1) % 7)
    return f"Every {listing([DAYS[number] for number in monday_first])}"


def _month_days(cron: Cron) -> str:
    days = cron.days
    if len(days) == 31:
        return "Every day" + in_months(cron)
    step = even(days)
    if days[0] == 1 and len(days) > 2 and days[-1] + step > 31 and ("/" in cron.fields[2] or len(days) > 3):
        return f"Every {step} days" + in_months(cron)
    if len(cron.months) * len(days) <= 6 and len(cron.months) < 12:
        there = [(month, day) for month in cron.months for day in days if day <= monthrange(_LEAP_YEAR, month)[1]]
        dates = [f"{MONTHS[month - 1]} {ordinal(day)}" for month, day in there]
        return f"Every year on {listing(dates)}"
    every = "Every month" if len(cron.months) == 12 else f"Every year{in_months(cron)}"
    if len(days) > 2 and contiguous(days):
        return f"{every} from the {ordinal(days[0])} to the {ordinal(days[-1])}"
    return f"{every} on the {listing([ordinal(day) for day in days])}" if len(days) <= 8 else ""


def in_months(cron: Cron) -> str:
    """The months, with a leading space; empty for all of them."""
    months = [MONTHS[month - 1] for month in cron.months]
    if len(months) == 12:
        return ""
    if len(months) > 3 and contiguous(cron.months):
        return f" in the months {months[0]}–{months[-1]}"
    return f" in {listing(months)}"


def times_of(cron: Cron, say: Log) -> str:
    """The times of the day; empty if there is no common phrase."""
    if len(cron.hours) == 24:
        return _all_day(cron, say)
    paced = _hourly(cron, say) if len(cron.minutes) == 1 else _within_hours(cron, say)
    if paced:
        return paced
    times = _all_times(cron, say)
    return f"at {listing(times)}" if len(times) <= _LISTED else ""


def _all_day(cron: Cron, say: Log) -> str:
    """Every hour."""
    minutes, step = cron.minutes, even(cron.minutes)
    if len(minutes) == 60:
        return "every minute"
    if step and runs_on(minutes, step, MINUTE.size):
        return f"every {step} minutes" + (f" at {_some(_all_times(cron, say), 3)}" if minutes[0] else "")
    return "" if len(minutes) > 4 else f"every hour at {_some(_all_times(cron, say), max(3, len(minutes) + 1))}"


def _hourly(cron: Cron, say: Log) -> str:
    """One minute of several evenly spaced hours."""
    hours, step = cron.hours, even(cron.hours)
    a_step = step > 1 and ("/" in cron.fields[1] or len(hours) > 3)
    if a_step and runs_on(hours, step, HOUR.size):
        return f"every {step} hours at {_some(_all_times(cron, say), 3)}"
    if len(hours) > 2 and (a_step or step == 1):
        pace = "every hour" if step == 1 else f"every {step} hours"
        return f"{pace} from {_clock(cron, 0, say)} to {_clock(cron, -1, say)}"
    return ""


def _within_hours(cron: Cron, say: Log) -> str:
    """Several evenly spaced minutes, in one hour or in consecutive hours."""
    minutes, step = cron.minutes, even(cron.minutes)
    through = len(minutes) == 60 or (step and runs_on(minutes, step, MINUTE.size))
    inside = step and len(cron.hours) == 1 and (len(minutes) > 3 or step == 1)
    if not (inside or (through and len(cron.hours) > 1)) or not contiguous(cron.hours):
        return ""
    pace = "every minute" if step == 1 else f"every {step} minutes"
    return f"{pace} from {_clock(cron, 0, say)} to {_clock(cron, -1, say)}"


def even(numbers: tuple[int, ...]) -> int:
    """The step of evenly spaced numbers; 0 if they are not."""
    gaps = {later - earlier for earlier, later in pairwise(numbers)}
    return gaps.pop() if len(gaps) == 1 else 0


def runs_on(numbers: tuple[int, ...], step: int, size: int) -> bool:
    """Whether evenly spaced numbers continue past their field; a step from 0 may be shorter there."""
    fills = numbers[0] < step and numbers[-1] + step >= size
    return fills and (size % step == 0 or (numbers[0] == 0 and len(numbers) > 2))


def contiguous(numbers: tuple[int, ...]) -> bool:
    """Whether they are consecutive."""
    return numbers[-1] - numbers[0] == len(numbers) - 1


def _clock(cron: Cron, end: int, say: Log) -> str:
    return say(cron.hours[end], cron.minutes[end])


def _all_times(cron: Cron, say: Log) -> list[str]:
    return [say(hour, minute) for hour in cron.hours for minute in cron.minutes]


def _some(times: list[str], count: int) -> str:
    """The first few, with an ellipsis if there are more."""
    return f"{', '.join(times[:count])}, …" if len(times) > count else listing(times)
