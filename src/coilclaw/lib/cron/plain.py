"""Cron in natural language: 24-hour times, combined days, no field names.

`words` has the fixed sentences of `cron/jobs.json`; this is what the owner sees while typing.
"""

from coilclaw.lib.cron.cron import Cron
from coilclaw.lib.cron.field import HOUR, MINUTE
from coilclaw.lib.cron.words import (
    contiguous,
    days_of,
    even,
    in_months,
    listing,
    ordinal,
    runs_on,
    times_of,
    weekdays_of,
)

_NAMED = 8
"""Up to this many days, hours or minutes are listed individually."""


def plain_summary(cron: Cron, timezone: str) -> str:
    """What an expression means, in a sentence."""
    when = days_of(cron) or _either(cron) or _dates(cron) + in_months(cron)
    time = _past(cron) or times_of(cron, clock24) or f"{_minutes(cron)} {_hours(cron)}"
    if when == "Every day" and time.startswith("every "):
        return f"E{time[1:]} ({timezone})."
    return f"{when}{',' if ',' in when else ''} {time} ({timezone})."


def clock24(hour: int, minute: int) -> str:
    """`09:05`."""
    return f"{hour:02d}:{minute:02d}"


def _past(cron: Cron) -> str:
    """Once every hour; empty if it is not that."""
    minute = cron.minutes[0]
    if len(cron.hours) < HOUR.size or len(cron.minutes) > 1:
        return ""
    return "every hour on the hour" if minute == 0 else f"every hour at {minute} minute{'s' if minute > 1 else ''} past"


def _either(cron: Cron) -> str:
    """Days by date and days by name: both count."""
    if not cron.either:
        return ""
    if len(cron.days) == 31 or len(cron.weekdays) == 7:
        return "Every day" + in_months(cron)
    weekdays = weekdays_of(cron)
    return f"{_dates(cron)}, and {weekdays[0].lower()}{weekdays[1:]}" + (in_months(cron) and f",{in_months(cron)}")


def _dates(cron: Cron) -> str:
    """Days by date, in every month."""
    days, step, goes_on = cron.days, even(cron.days), cron.days[-1] + even(cron.days) > 31
    of = " of each month" if len(cron.months) == 12 else ""
    if len(days) > 2 and contiguous(days):
        return f"From the {ordinal(days[0])} to the {ordinal(days[-1])}{of}"
    if len(days) <= _NAMED:
        return f"On the {listing([ordinal(day) for day in days])}{of}"
    first = ", ".join(ordinal(day) for day in days[:3])
    if step and goes_on:
        return f"On every {ordinal(step)} day{of} (the {first}, …)"
    return f"On {len(days)} days{of} (the {first}, …)"


def _minutes(cron: Cron) -> str:
    """Minutes of an hour, if there are too many times to list."""
    minutes, step = cron.minutes, even(cron.minutes)
    if len(minutes) == MINUTE.size:
        return "every minute of"
    if step and runs_on(minutes, step, MINUTE.size) and minutes[0] == 0:
        return f"every {step} minutes of"
    if step and len(minutes) > 2:
        pace = "every minute" if step == 1 else f"every {step} minutes"
        return f"{pace} from minute {minutes[0]} to minute {minutes[-1]} of"
    return f"at minute{'s' if len(minutes) > 1 else ''} {_named(minutes)} of"


def _hours(cron: Cron) -> str:
    hours, step = cron.hours, even(cron.hours)
    if len(hours) == HOUR.size:
        return "every hour"
    if len(hours) > 2 and contiguous(hours):
        return f"every hour from {hours[0]} to {hours[-1]}"
    if step and len(hours) > 3:
        return f"every {ordinal(step)} hour from {hours[0]} to {hours[-1]}"
    return f"the hour{'s' if len(hours) > 1 else ''} {_named(hours)}"


def _named(numbers: tuple[int, ...]) -> str:
    words = [str(number) for number in numbers]
    return listing(words) if len(words) <= _NAMED else f"{', '.join(words[:_NAMED])}, …"
