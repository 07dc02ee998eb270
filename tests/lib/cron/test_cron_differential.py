"""Two other cron programs as second opinions, where they should agree: plain wall time, no clock change near.

Where they are known to differ is left out: one reads a range of a single number, or a day field that names every day,
as a star; the other reads a star with a step beside another day field as AND.
"""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from croniter import CroniterBadDateError, croniter
from cronsim import CronSim
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from coilclaw.lib.cron.occurrences import next_runs
from coilclaw.lib.cron.parse import parse_cron
from coilclaw.lib.cron.shifts import shifts
from coilclaw.lib.cron.zones import zones
from tests.lib.cron.cron_expressions import expressions

ZONES = ("UTC", "Asia/Kathmandu", "America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Tokyo")
COUNT = 4
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2045, 1, 1))


def read_as_a_star(text: str) -> bool:
    """A range of a single number, or a day field that names every day beside one that does not."""
    cron = parse_cron(text)
    if cron.either and (len(cron.days) == 31 or len(cron.weekdays) == 7):
        return True
    items = [item.partition("/")[0] for field in text.split() for item in field.split(",")]
    return any("-" in item and len(set(item.split("-"))) == 1 for item in items)


def ours(text: str, zone: str, after: datetime) -> list[datetime]:
    return next_runs(parse_cron(text), zones().get(zone), after, COUNT)


def first_opinion(text: str, after: datetime) -> list[datetime]:
    """What croniter says. Where it gives up searching it says nothing, and the case does not count."""
    other = croniter(text, after, max_years_between_matches=60)
    try:
        return [other.get_next(datetime) for _ in range(COUNT)]
    except CroniterBadDateError:
        reject()


def calm(zone: str, after: datetime, last: datetime) -> bool:
    """No clock is changed from a day before to a day after."""
    day = timedelta(days=1)
    return not any(shifts(zones().get(zone), after - day, last + day))


@settings(max_examples=60)
@given(expressions(), MOMENTS)
def test_the_first_opinion_agrees_in_utc(text, moment):
    assume(not read_as_a_star(text))
    after = moment.replace(tzinfo=UTC)
    assert ours(text, "UTC", after) == first_opinion(text, after)


@settings(max_examples=60)
@given(expressions(), MOMENTS)
def test_the_second_opinion_agrees_in_utc(text, moment):
    cron = parse_cron(text)
    assume(not (cron.either and ("*" in cron.fields[2] or "*" in cron.fields[4])))
    assume(not read_as_a_star(text))
    after = moment.replace(tzinfo=UTC)
    assert ours(text, "UTC", after) == list(islice(CronSim(text, after), COUNT))


@settings(max_examples=60)
@given(expressions(), st.sampled_from(ZONES), MOMENTS)
def test_the_first_opinion_agrees_in_a_zone_while_its_clocks_are_left_alone(text, zone, moment):
    assume(not read_as_a_star(text))
    after = moment.replace(tzinfo=UTC)
    found = ours(text, zone, after)
    assume(found[-1] - after < timedelta(days=400))
    assume(calm(zone, after, found[-1]))
    other = first_opinion(text, after.astimezone(zones().get(zone)))
    assert found == [moment.astimezone(UTC) for moment in other]


@pytest.mark.slow
@settings(max_examples=600)
@given(expressions(), MOMENTS)
def test_wall_minutes_agree_with_the_first_opinion_over_many_expressions(text, moment):
    assume(not read_as_a_star(text))
    wall = moment.replace(tzinfo=UTC)
    assert ours(text, "UTC", wall) == first_opinion(text, wall)
