"""When cron runs: every zone, every clock change, against a slow oracle that only looks at the clock."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.lib.cron.occurrences import count_runs, latest_run, next_run, next_runs, runs
from coilclaw.lib.cron.parse import parse_cron
from coilclaw.lib.cron.zones import zones
from tests.lib.cron.cron_expressions import FREQUENT, expressions
from tests.lib.cron.cron_oracle import BEFORE, Oracle, changes

NAMES = sorted(zones().names)
ODD = (
    "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "Europe/Dublin", "Asia/Beirut", "America/Santiago",
    "America/Havana", "America/St_Johns", "Pacific/Chatham", "Asia/Gaza", "America/Los_Angeles", "Europe/London",
)  # fmt: skip


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def upcoming(text: str, zone: str, after: str, count: int) -> list[str]:
    found = next_runs(parse_cron(text), zones().get(zone), at(after), count)
    return [run.isoformat().replace("+00:00", "Z") for run in found]


@pytest.mark.parametrize(("text", "zone", "after", "expected"), [
    ("0 17 * * *", "America/Los_Angeles", "2026-02-23T20:10:00Z", ["2026-02-24T01:00:00Z", "2026-02-25T01:00:00Z"]),
    # a gap: the first instant after it, once
    ("30 2 * * *", "America/Los_Angeles", "2026-03-08T00:00:00Z", ["2026-03-08T10:00:00Z", "2026-03-09T09:30:00Z"]),
    ("0,30 2,3 * * *", "America/Los_Angeles", "2026-03-08T00:00:00Z", ["2026-03-08T10:00:00Z", "2026-03-08T10:30:00Z"]),
    ("30 * * * *", "America/Los_Angeles", "2026-03-08T09:00:00Z",
     ["2026-03-08T09:30:00Z", "2026-03-08T10:00:00Z", "2026-03-08T10:30:00Z"]),
    # a repeated hour: the first time only, wildcards too
    ("30 1 * * *", "America/Los_Angeles", "2026-11-01T00:00:00Z", ["2026-11-01T08:30:00Z", "2026-11-02T09:30:00Z"]),
    ("*/15 * * * *", "America/Los_Angeles", "2026-11-01T08:30:00Z", ["2026-11-01T08:45:00Z", "2026-11-01T10:00:00Z"]),
    ("52 1 * * *", "America/Los_Angeles", "2026-11-01T09:17:00Z", ["2026-11-02T09:52:00Z"]),
    # odd ones
    ("*/20 */2 * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z",
     ["2026-04-04T15:30:00Z", "2026-04-04T15:50:00Z", "2026-04-04T16:10:00Z"]),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"]),
    ("0 9 * * 5", "Pacific/Apia", "2011-12-29T10:00:00Z", ["2011-12-30T10:00:00Z", "2012-01-05T19:00:00Z"]),
    ("* * * * *", "Pacific/Apia", "2011-12-30T09:59:00Z", ["2011-12-30T10:00:00Z", "2011-12-30T10:01:00Z"]),
    ("0 0 * * *", "America/Havana", "2026-03-07T12:00:00Z", ["2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"]),
    ("0 */2 * * *", "America/St_Johns", "2008-11-02T02:00:00Z",
     ["2008-11-02T02:30:00Z", "2008-11-02T05:30:00Z", "2008-11-02T07:30:00Z"]),
    ("0 0 * * *", "Africa/Monrovia", "1972-01-05T12:00:00Z",
     ["1972-01-06T00:44:30Z", "1972-01-07T00:44:30Z", "1972-01-08T00:00:00Z"]),
    ("0 12 * * *", "America/New_York", "1883-11-18T00:00:00Z", ["1883-11-18T16:56:02Z", "1883-11-19T17:00:00Z"]),
    # the calendar
    ("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"]),
    ("0 0 31 * *", "UTC", "2026-01-31T00:00:00Z", ["2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"]),
    ("0 0 30 2 1", "UTC", "2026-02-01T00:00:00Z", ["2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"]),
    ("0 9 13 * 5", "UTC", "2026-02-06T09:00:00Z", ["2026-02-13T09:00:00Z", "2026-02-20T09:00:00Z"]),
    ("0 9 */2 * 1", "UTC", "2026-03-01T09:00:00Z", ["2026-03-02T09:00:00Z", "2026-03-03T09:00:00Z"]),
    ("0 17 * * *", "America/Los_Angeles", "8900-07-01T00:00:01Z", ["8900-07-02T00:00:00Z"]),
])  # fmt: skip
def test_the_rules_hold_where_libraries_go_wrong(text, zone, after, expected):
    assert upcoming(text, zone, after, len(expected)) == expected


def test_a_run_is_strictly_after():
    cron, zone = parse_cron("0 9 * * *"), zones().get("UTC")
    nine = at("2026-02-01T09:00:00Z")
    assert next_run(cron, zone, nine - timedelta(microseconds=1)) == nine
    assert next_run(cron, zone, nine) == nine + timedelta(days=1)
    assert next_run(cron, zone, nine + timedelta(microseconds=1)) == nine + timedelta(days=1)


@pytest.mark.parametrize("moment", [datetime.min, datetime.max, datetime(9998, 12, 31, 23, 59)])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_the_ends_of_the_calendar_end_the_search(moment, zone):
    cron, when = parse_cron("* * * * *"), moment.replace(tzinfo=UTC)
    assert next_run(cron, zones().get(zone), when) is None
    assert latest_run(cron, zones().get(zone), when) is None


def agree(text: str, zone_name: str, after: datetime, hours: int, tick: int = 60) -> None:
    """Engine and oracle name the same runs, and so do counting and looking back."""
    zone, cron, until = zones().get(zone_name), parse_cron(text), after + timedelta(hours=hours)
    expected = Oracle(text, zone).runs(after, until, tick=tick)
    found: list[datetime] = []
    for run in runs(cron, zone, after):
        if run > until:
            break
        found.append(run)
    case = f"{text} in {zone_name} after {after.isoformat()}"
    assert found == expected, case
    assert count_runs(cron, zone, after, until) == len(expected), case
    if expected:
        assert latest_run(cron, zone, until) == expected[-1], case


def whole_minutes(zone_name: str, *moments: datetime) -> bool:
    offsets = [moment.astimezone(zones().get(zone_name)).utcoffset() for moment in moments]
    return all(offset is not None and not offset.seconds % 60 for offset in offsets)


def around_a_change(source, zone_name: str, year: int) -> datetime:
    """A moment less than a day before a change of the clocks, if there is one that year."""
    found = changes(zones().get(zone_name), year) or [datetime(year, 5, 5, tzinfo=UTC)]
    return source.choice(found) + timedelta(minutes=source.randrange(-1500, 300), seconds=source.choice((0, 0, 17)))


@settings(max_examples=25)
@given(st.sampled_from(ODD), st.integers(1990, 2050), st.sampled_from(FREQUENT), st.randoms(use_true_random=False))
def test_the_engine_agrees_with_the_clock_on_the_wall_around_clock_changes(zone, year, text, source):
    agree(text, zone, around_a_change(source, zone, year), 30)


@settings(max_examples=25)
@given(
    st.sampled_from(NAMES), expressions(),
    st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)),
)  # fmt: skip
def test_the_engine_agrees_with_the_clock_on_the_wall_anywhere_and_for_any_expression(zone, text, after):
    agree(text, zone, after, 48)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(4))
def test_the_engine_agrees_with_the_clock_on_the_wall_in_every_zone(start):
    source = random.Random(start)
    for zone in NAMES[start::4]:
        after = around_a_change(source, zone, source.randrange(1972, 2045))
        if whole_minutes(zone, after - BEFORE, after, after + timedelta(hours=30)):
            agree(source.choice(FREQUENT), zone, after, 30)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.sampled_from(NAMES), st.integers(1850, 1972), st.sampled_from(FREQUENT), st.randoms(use_true_random=False))
def test_the_engine_agrees_with_the_clock_on_the_wall_where_offsets_had_seconds(zone, year, text, source):
    moment = around_a_change(source, zone, year)
    agree(text, zone, moment - timedelta(minutes=30), 4, tick=1)


@given(st.sampled_from(NAMES), expressions(), st.datetimes(datetime(1900, 1, 1), datetime(8000, 1, 1)))
def test_runs_never_repeat_and_never_go_back(zone, text, after):
    found = next_runs(parse_cron(text), zones().get(zone), after.replace(tzinfo=UTC), 20)
    assert len(found) == 20
    assert all(earlier < later for earlier, later in zip([after.replace(tzinfo=UTC), *found], found, strict=False))


@given(st.sampled_from(NAMES), expressions(), st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1)))
def test_looking_back_finds_what_looking_ahead_found(zone_name, text, after):
    zone, cron = zones().get(zone_name), parse_cron(text)
    for run in next_runs(cron, zone, after.replace(tzinfo=UTC), 5):
        assert latest_run(cron, zone, run) == run
        before = latest_run(cron, zone, run - timedelta(microseconds=1))
        assert before is not None
        assert next_run(cron, zone, before) == run


def test_a_month_of_minutes_is_counted_without_walking_through_it():
    cron, zone = parse_cron("* * * * *"), zones().get("UTC")
    assert count_runs(cron, zone, at("2026-06-01T00:00:00Z"), at("2026-07-01T00:00:00Z")) == 43_200
    los_angeles = zones().get("America/Los_Angeles")
    # an hour is skipped in March; in November another comes twice and counts once
    assert count_runs(cron, los_angeles, at("2026-03-01T00:00:00Z"), at("2026-03-31T00:00:00Z")) == 43_200
    assert count_runs(cron, los_angeles, at("2026-10-15T00:00:00Z"), at("2026-11-14T00:00:00Z")) == 43_140
