"""Time formats of schedules: RFC 3339 in whole seconds for machines, a zone's local time for people."""

import re
from datetime import UTC, date, datetime, timedelta, tzinfo

from coilclaw.lib.cron.field import DAYS, MONTHS
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

_DAY_AND_TIME = r"([0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)"
WALL = re.compile(_DAY_AND_TIME)
"""A time without an offset."""
_MOMENT = re.compile(_DAY_AND_TIME + r"(?:(?<=:[0-9]{2}:[0-9]{2})\.([0-9]{1,12}))?([Zz]|[+-][0-9]{2}:[0-9]{2})")
EARLIEST, LATEST = datetime(1800, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def moment_of(text: str, what: str) -> datetime:
    """Parse a time, which must have a UTC offset."""
    text = text.strip()
    if WALL.fullmatch(text):
        raise UsageError(f"{what} {text} has no offset from UTC.", remedy=f"Write {text}Z, or {text}+01:00.")
    match = _MOMENT.fullmatch(text)
    try:
        if match is None:
            raise ValueError  # noqa: TRY301 - told with all other unreadable times
        fraction = (match[2] or "0")[:6]  # finer than a microsecond is irrelevant here
        day_and_time = match[1] if match[1].count(":") == 2 else f"{match[1]}:00"
        moment = datetime.fromisoformat(f"{day_and_time}.{fraction:0<6}{match[3]}".upper())
        inside = EARLIEST <= moment <= LATEST
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{what} {one_line(text[:60])!r} is not a valid time.",
            remedy="Write RFC 3339, such as 2026-02-23T20:10:00Z.",
        ) from error
    if not inside:
        raise UsageError(f"{what} {text} is too far away.", remedy="Use a year from 1800 to 8999.")
    return moment


def written(moment: datetime) -> str:
    """RFC 3339 in UTC, whole seconds: `2026-02-24T01:00:00Z`."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def written_local(moment: datetime, zone: tzinfo, name: str) -> str:
    """For people: `2026-02-23 5:00 PM America/Los_Angeles`."""
    local = moment.astimezone(zone)
    return f"{local.date().isoformat()} {clock(local)} {name}"


def spoken(moment: datetime, zone: tzinfo, name: str) -> str:
    """For people, 24-hour: `Mon 23 Feb 2026 17:00 (America/Los_Angeles)`."""
    local = moment.astimezone(zone)
    return f"{spoken_day(local.date())} {local:%H:%M} ({name})"


def spoken_day(day: date) -> str:
    """`Mon 23 Feb 2026`, independent of the locale."""
    return f"{DAYS[day.isoweekday() % 7][:3]} {day.day} {MONTHS[day.month - 1][:3]} {day.year}"


def clock(wall: datetime) -> str:
    """A time of day with AM or PM; seconds only if a historical zone has some."""
    seconds = f":{wall.second:02d}" if wall.second else ""
    return f"{wall.hour % 12 or 12}:{wall.minute:02d}{seconds} {'AM' if wall.hour < 12 else 'PM'}"


def clock_of(hour: int, minute: int) -> str:
    """A time of day with AM or PM."""
    return clock(datetime(2000, 1, 1, tzinfo=UTC) + timedelta(hours=hour, minutes=minute))
