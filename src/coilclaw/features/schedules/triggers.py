"""Triggers: what makes a schedule due. A cron expression in a zone, an interval from an anchor, one instant."""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.lib.cron.parse import parse_cron
from coilclaw.lib.cron.time_format import moment_of, written
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.lib.cron.cron import Cron

SHORTEST = 60
"""Seconds; a schedule wakes an agent, and nothing needs one more often."""
LONGEST = 3660 * 86_400
GRACE = timedelta(seconds=60)
"""So much of the past still counts as now: a minute that has just begun is written without its seconds."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PERIOD = re.compile(r"(?:[0-9]{1,9}[smhdw]){1,5}")
_MICROSECOND = timedelta(microseconds=1)


class CronTrigger(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cron", forbid_unknown_fields=True):
    """Due at the minutes a cron expression names on the clocks of a zone."""

    cron: str
    timezone: str


class IntervalTrigger(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="interval", forbid_unknown_fields=True
):
    """Due at the anchor and every whole period after it, whatever clocks and late runs do."""

    every_seconds: int
    anchor: datetime
    timezone: str
    """For showing times only."""


class AtTrigger(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="at", forbid_unknown_fields=True):
    """Due once."""

    at: datetime
    timezone: str
    """For showing times only."""


Trigger: TypeAlias = CronTrigger | IntervalTrigger | AtTrigger


def next_after(trigger: Trigger, instant: datetime) -> datetime | None:
    """When a trigger is next due, strictly after an instant, in UTC; None if never again."""
    match trigger:
        case CronTrigger(cron=text, timezone=name):
            from coilclaw.lib.cron.occurrences import next_run
            from coilclaw.lib.cron.zones import zones

            return next_run(_parsed(text), zones().get(name), instant)
        case IntervalTrigger():
            return _slot(trigger, 0 if instant < trigger.anchor else _number(trigger, instant) + 1)
        case AtTrigger(at=at):
            return at.astimezone(UTC) if at > instant else None


def latest_until(trigger: Trigger, after: datetime, until: datetime) -> datetime | None:
    """The newest instant at which a trigger was due, after one instant and up to another; None if there is none."""
    found: datetime | None
    match trigger:
        case CronTrigger(cron=text, timezone=name):
            from coilclaw.lib.cron.occurrences import latest_run
            from coilclaw.lib.cron.zones import zones

            found = latest_run(_parsed(text), zones().get(name), until)
        case IntervalTrigger():
            found = None if until < trigger.anchor else _slot(trigger, _number(trigger, until))
        case AtTrigger(at=at):
            found = at.astimezone(UTC) if at <= until else None
    return found if found is not None and found > after else None


def count_due(trigger: Trigger, after: datetime, until: datetime) -> int:
    """How often a trigger was due after one instant and up to another, without walking through them."""
    if until <= after:
        return 0
    match trigger:
        case CronTrigger(cron=text, timezone=name):
            from coilclaw.lib.cron.occurrences import count_runs
            from coilclaw.lib.cron.zones import zones

            return count_runs(_parsed(text), zones().get(name), after, until)
        case IntervalTrigger(anchor=anchor):
            if until < anchor:
                return 0
            return _number(trigger, until) - (-1 if after < anchor else _number(trigger, after))
        case AtTrigger(at=at):
            return int(after < at <= until)


def check_trigger(trigger: Trigger, now: datetime) -> None:
    """UsageError if a trigger cannot be scheduled now: a bad expression, zone or period, an instant that has passed."""
    from coilclaw.lib.cron.zones import zones

    zones().get(trigger.timezone)
    match trigger:
        case CronTrigger(cron=text):
            _parsed(text)
        case IntervalTrigger(every_seconds=every, anchor=anchor):
            _check_aware(anchor, "the anchor")
            if not SHORTEST <= every <= LONGEST:
                raise UsageError(
                    f"an interval of {every} seconds is not allowed.",
                    remedy="Use at least a minute and at most ten years.",
                )
        case AtTrigger(at=at):
            _check_aware(at, "the time")
            if at < now - GRACE:
                raise UsageError(f"{written(at)} has passed.", remedy="Give a time in the future.")


def read_at(text: str, timezone: str) -> AtTrigger:
    """The trigger for one time: RFC 3339, or a wall time of the zone (`2026-11-20 09:00`) read as cron would."""
    from coilclaw.lib.cron.occurrences import instant_of
    from coilclaw.lib.cron.time_format import WALL
    from coilclaw.lib.cron.zones import zones

    zone = zones().get(timezone)
    if WALL.fullmatch(text.strip()):
        wall = moment_of(f"{text.strip()}Z", "the time").replace(tzinfo=None)
        return AtTrigger(at=instant_of(wall, zone), timezone=timezone)
    return AtTrigger(at=moment_of(text, "the time").astimezone(UTC), timezone=timezone)


def read_period(text: str) -> int:
    """The seconds of a period such as `90m`, `1h30m`, `2d`."""
    compact = "".join(text.split()).lower()
    if not _PERIOD.fullmatch(compact):
        raise UsageError(f"{one_line(text[:40])!r} is not a valid duration.", remedy="Write 90m, 1h30m, 2d or 1w.")
    return sum(int(number) * _SECONDS[unit] for number, unit in re.findall("([0-9]+)([smhdw])", compact))


def stagger(schedule_id: str, window_seconds: int) -> timedelta:
    """How much later than due a schedule starts: always the same for it, spread evenly over the window."""
    if window_seconds <= 0:
        return timedelta()
    number = int.from_bytes(hashlib.sha256(schedule_id.encode("utf-8")).digest()[:8], "big")
    return timedelta(seconds=number % window_seconds)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> "Cron":
    return parse_cron(text)


def _number(trigger: IntervalTrigger, instant: datetime) -> int:
    """How many whole periods lie between the anchor and an instant; in integers, so nothing drifts."""
    return (instant - trigger.anchor) // _MICROSECOND // (trigger.every_seconds * 1_000_000)


def _slot(trigger: IntervalTrigger, number: int) -> datetime | None:
    try:
        return trigger.anchor.astimezone(UTC) + timedelta(seconds=trigger.every_seconds) * number
    except OverflowError:
        return None


def _check_aware(moment: datetime, what: str) -> None:
    if moment.utcoffset() is None:
        raise UsageError(f"{what} has no offset from UTC.", remedy="Write it as 2026-11-20T09:00:00Z.")
