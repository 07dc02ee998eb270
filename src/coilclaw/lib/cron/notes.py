"""Surprises in a cron expression: days that combine, steps that restart, clock changes."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo

import msgspec

from coilclaw.lib.cron.cron import Cron, longest
from coilclaw.lib.cron.field import DAY, FIELDS, HOUR, MONTHS, Field, items_of
from coilclaw.lib.cron.shifts import Shift, shifts
from coilclaw.lib.cron.time_format import clock, spoken_day
from coilclaw.lib.cron.words import listing, ordinal

TICK_MINUTES = 10
"""How often an external tick starts the dispatcher; on its own it wakes at every run."""
_MINUTE = timedelta(minutes=1)
_RESTARTS = {"minute": "hour", "hour": "day", "month": "year", "day-of-week": "week"}


class Speech(msgspec.Struct, frozen=True, kw_only=True):
    """The wording of notes."""

    either: str
    other: str
    uneven: str
    reset: str
    often: str
    change: str
    clock: Callable[[datetime], str]
    date: Callable[[date], str]


FIXED = Speech(
    either="Day-of-month and day-of-week are combined using OR semantics.",
    other="Some other cron programs read ‘{field}’ here as AND; this one does not.",
    uneven="{name} ‘{part}’ restarts each {whole}: the last gap is {last}, not {step}.",
    reset="Day-of-month ‘{field}’ resets each month; this is not anchored to a specific start date.",
    often=(
        f"Runs are as little as {{apart}} apart, finer than a {TICK_MINUTES}-minute dispatcher tick:"
        " started by such a tick alone, they begin late."
    ),
    change="Clock change (DST) on",
    clock=clock,
    date=date.isoformat,
)
"""The wording in `cron/jobs.json`."""
PLAIN = Speech(
    either="Dates and weekdays both count: it runs on those dates, and on those weekdays besides.",
    other="With ‘{field}’ some other programs run only where the date and the weekday fit; this one does not.",
    uneven="‘{part}’ starts again each {whole}: the last gap is {last}, not {step}.",
    reset="‘{field}’ starts again on the 1st of each month.",
    often=(
        f"Runs are as little as {{apart}} apart. If CoilClaw does not run all the time but is started every"
        f" {TICK_MINUTES} minutes, some start late."
    ),
    change="The clocks change on",
    clock=lambda wall: wall.strftime("%H:%M:%S" if wall.second else "%H:%M"),
    date=spoken_day,
)
"""The wording for people."""


def cron_notes(cron: Cron, zone: tzinfo, after: datetime) -> str | None:
    """All notes that apply, in the fixed wording."""
    return " ".join(notes_of(cron, zone, after, FIXED)) or None


def notes_of(cron: Cron, zone: tzinfo, after: datetime, say: Speech) -> list[str]:
    """All notes that apply, in a fixed order; clock changes after an instant, to the end of the next year."""
    days, rare = _days(cron, say), (*_steps(cron, say), *_short_months(cron))
    return [*days, *rare, *_tick(cron, say), *_clock_changes(cron, zone, after, say)]


def _days(cron: Cron, say: Speech) -> Iterator[str]:
    day, weekday = cron.fields[2], cron.fields[4]
    if cron.either:
        yield say.either
        for field, whole in ((day, len(cron.days) == 31), (weekday, len(cron.weekdays) == 7)):
            if whole:
                yield f"‘{field}’ names every day, so the other field changes nothing."
            elif field.startswith("*"):
                yield say.other.format(field=field)
    if "/" in day and len(cron.days) < 31:
        yield say.reset.format(field=day)


def _steps(cron: Cron, say: Speech) -> Iterator[str]:
    """Steps that do not divide their field evenly, if the next round follows at once."""
    every_day = cron.any_day and cron.any_weekday
    follows = {"minute": len(cron.hours) == HOUR.size, "hour": every_day, "day-of-week": cron.any_day}
    for field, text in zip(FIELDS, cron.fields, strict=True):
        if field is DAY or "/" not in text or "," in text or not follows.get(field.name, True):
            continue
        (item,) = items_of(field, text)
        numbers = range(field.low, field.high + 1, item.step)
        rest = field.size - numbers[-1] + field.low
        if item.first == field.low and item.last >= field.high and rest != item.step:
            yield _uneven(field, text, item.step, rest, say)


def _uneven(field: Field, part: str, step: int, rest: int, say: Speech) -> str:
    whole, unit = _RESTARTS[field.name], field.unit or ("months" if field.name == "month" else "days")
    last = f"{rest} {unit.removesuffix('s') if rest == 1 else unit}"
    return say.uneven.format(name=field.name.capitalize(), part=part, whole=whole, last=last, step=step)


def _short_months(cron: Cron) -> Iterator[str]:
    if cron.any_day or "/" in cron.fields[2] or len(cron.days) == 31:
        return
    for day in (29, 30, 31):
        without = [MONTHS[month - 1] for month in cron.months if longest(month) < day]
        if day in cron.days and without:
            verb = "has" if len(without) == 1 else "have"
            yield f"{listing(without)} {verb} no {ordinal(day)}; nothing runs there on that day."
    if 29 in cron.days and 2 in cron.months:
        alone = cron.any_weekday and cron.days[0] == 29 and cron.months == (2,)
        so = "so this runs about once in four years" if alone else "so that day is left out in other years"
        yield f"February 29th exists only in leap years, {so}."


def _tick(cron: Cron, say: Speech) -> Iterator[str]:
    """Runs closer together than an external tick."""
    gaps = [later - earlier for earlier, later in zip(cron.minutes, cron.minutes[1:], strict=False)]
    if any((hour + 1) % 24 in cron.hours for hour in cron.hours):
        gaps.append(60 - cron.minutes[-1] + cron.minutes[0])
    least = min(gaps, default=60)
    if least < TICK_MINUTES:
        apart = "1 minute" if least == 1 else f"{least} minutes"
        yield say.often.format(apart=apart)


def _clock_changes(cron: Cron, zone: tzinfo, after: datetime, say: Speech) -> Iterator[str]:
    end = datetime(after.astimezone(zone).year + 2, 1, 1, tzinfo=UTC)
    for shift in shifts(zone, after, end):
        note = _skipped(cron, shift, say) if shift.forward else _doubled(cron, shift, say)
        if note:
            yield note


def _skipped(cron: Cron, shift: Shift, say: Speech) -> str:
    """Runs in a DST gap happen once at its end, together with those due then."""
    start, end = shift.wall_before, shift.wall_after
    first = cron.next_wall(start - _MINUTE)
    if first is None or first >= end:
        return ""
    second = cron.next_wall(first)
    which = f"the {say.clock(first)} run starts" if second is None or second >= end else "runs due then start once,"
    span, place = _span(start, end, say), _place(end, start, say)
    return f"{say.change} {say.date(start.date())}: {span} is skipped; {which} at {place}."


def _doubled(cron: Cron, shift: Shift, say: Speech) -> str:
    """Repeated local times run the first time only."""
    start, end = shift.wall_after, shift.wall_before
    first = cron.next_wall(start - _MINUTE)
    if first is None or first >= end:
        return ""
    second = cron.next_wall(first)
    which = f"the {say.clock(first)} run starts" if second is None or second >= end else "runs due then start"
    day, span = say.date(start.date()), _span(start, end, say)
    return f"{say.change} {day}: {span} comes twice; {which} only the first time."


def _span(start: datetime, end: datetime, say: Speech) -> str:
    return f"{say.clock(start)}–{_place(end, start, say)}"


def _place(wall: datetime, day: datetime, say: Speech) -> str:
    """A time, with its date if it differs."""
    return say.clock(wall) if wall.date() == day.date() else f"{say.clock(wall)} on {say.date(wall.date())}"
