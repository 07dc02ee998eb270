"""Triggers: what is due when, what has been missed, what cannot be scheduled."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.schedules.triggers import (
    AtTrigger,
    CronTrigger,
    IntervalTrigger,
    Trigger,
    check_trigger,
    count_due,
    latest_until,
    next_after,
    read_at,
    read_period,
    stagger,
)
from coilclaw.packets.errors import UsageError

NOW = datetime(2026, 3, 8, 9, 30, tzinfo=UTC)
NIGHTLY = CronTrigger(cron="30 2 * * *", timezone="America/Los_Angeles")


def interval(seconds: int, anchor: datetime = NOW) -> IntervalTrigger:
    return IntervalTrigger(every_seconds=seconds, anchor=anchor, timezone="America/Los_Angeles")


def test_cron_is_due_by_the_clocks_of_its_zone():
    assert next_after(NIGHTLY, NOW) == datetime(2026, 3, 8, 10, 0, tzinfo=UTC)
    assert latest_until(NIGHTLY, NOW - timedelta(days=9), NOW) == datetime(2026, 3, 7, 10, 30, tzinfo=UTC)
    assert latest_until(NIGHTLY, NOW - timedelta(hours=1), NOW) is None
    assert count_due(NIGHTLY, NOW - timedelta(days=30), NOW) == 30


def test_an_interval_never_drifts_and_no_clock_change_moves_it():
    trigger = interval(5400)
    found, at = [], NOW
    for late in (0, 17, 5399):  # however late a run was, the next is due where it always was
        due = next_after(trigger, at)
        assert due is not None
        found.append(due)
        at = due + timedelta(seconds=late)
    assert found == [NOW + timedelta(seconds=5400 * number) for number in (1, 2, 3)]


def test_an_interval_is_first_due_at_its_anchor():
    assert next_after(interval(60), NOW - timedelta(days=400)) == NOW
    assert next_after(interval(60), NOW) == NOW + timedelta(minutes=1)
    assert latest_until(interval(60), NOW - timedelta(days=1), NOW - timedelta(seconds=1)) is None
    assert count_due(interval(60), NOW - timedelta(days=1), NOW) == 1


@given(
    st.integers(60, 10**7), st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)), st.integers(0, 10**8),
)  # fmt: skip
def test_an_interval_counts_what_it_was_due(seconds, after, length):
    after = after.replace(tzinfo=UTC)
    trigger, until = interval(seconds), after + timedelta(seconds=length)
    found = next_after(trigger, after)
    assert found is not None
    assert found > after
    assert (found - NOW) % timedelta(seconds=seconds) == timedelta()
    newest, count = latest_until(trigger, after, until), count_due(trigger, after, until)
    assert (newest is None) == (count == 0) == (found > until)
    if newest is not None:
        assert after < newest <= until < newest + timedelta(seconds=seconds)
        assert newest - found == timedelta(seconds=seconds) * (count - 1)


def test_an_instant_is_due_once():
    trigger = AtTrigger(at=NOW, timezone="UTC")
    second = timedelta(seconds=1)
    assert next_after(trigger, NOW - second) == NOW
    assert next_after(trigger, NOW) is None
    assert latest_until(trigger, NOW - second, NOW) == NOW
    assert latest_until(trigger, NOW, NOW + second) is None
    assert (count_due(trigger, NOW - second, NOW), count_due(trigger, NOW, NOW + second)) == (1, 0)


@pytest.mark.parametrize("trigger", [
    NIGHTLY, interval(60), AtTrigger(at=NOW, timezone="UTC"), AtTrigger(at=NOW - timedelta(seconds=59), timezone="UTC"),
])  # fmt: skip
def test_what_can_be_scheduled_passes(trigger):
    check_trigger(trigger, NOW)


@pytest.mark.parametrize(("trigger", "words"), [
    (CronTrigger(cron="5/15 * * * *", timezone="UTC"), "5-59/15"),
    (CronTrigger(cron="0 0 * * *", timezone="utc"), "Did you mean UTC"),
    (IntervalTrigger(every_seconds=60, anchor=NOW, timezone=""), "no time zone"),
    (interval(59), "at least a minute"),
    (interval(10**10), "ten years"),
    (interval(60, NOW.replace(tzinfo=None)), "no offset"),
    (AtTrigger(at=NOW - timedelta(seconds=61), timezone="UTC"), "has passed"),
    (AtTrigger(at=NOW.replace(tzinfo=None), timezone="UTC"), "no offset"),
])  # fmt: skip
def test_what_cannot_be_scheduled_is_refused(trigger, words):
    with pytest.raises(UsageError) as refusal:
        check_trigger(trigger, NOW)
    assert words in str(refusal.value)


@pytest.mark.parametrize(("text", "expected"), [
    ("2026-11-20T09:00:00Z", "2026-11-20T09:00:00+00:00"),
    ("2026-11-20T09:00:00+02:00", "2026-11-20T07:00:00+00:00"),
    ("2026-11-20 09:00", "2026-11-20T17:00:00+00:00"),
    ("2026-03-08T02:30:00", "2026-03-08T10:00:00+00:00"),
    ("2026-11-01 01:30", "2026-11-01T08:30:00+00:00"),
])  # fmt: skip
def test_a_time_without_an_offset_is_read_on_the_clocks_of_the_zone(text, expected):
    assert read_at(text, "America/Los_Angeles").at.isoformat() == expected


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2026-02-30 09:00", "2026-W10-1T09:00:00Z", "20261120T090000Z", "9:00"]
)
def test_what_is_not_a_time_is_refused(text):
    with pytest.raises(UsageError):
        read_at(text, "UTC")


@pytest.mark.parametrize(("text", "seconds"), [
    ("90m", 5400), ("1h30m", 5400), (" 2 D ", 172_800), ("1w", 604_800), ("45s", 45),
])  # fmt: skip
def test_periods_are_read(text, seconds):
    assert read_period(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "m", "1.5h", "-5m", "٣m", "1y", "9" * 30 + "s"])
def test_what_is_not_a_period_is_refused(text):
    with pytest.raises(UsageError):
        read_period(text)


def test_a_stagger_is_always_the_same_and_spreads():
    found = {stagger(f"job_{number}", 300) for number in range(500)}
    assert stagger("job_1", 300) == stagger("job_1", 300)
    assert timedelta() <= min(found) < max(found) < timedelta(seconds=300)
    assert len(found) > 200
    assert stagger("job_1", 0) == timedelta()


@pytest.mark.parametrize("trigger", [NIGHTLY, interval(90), AtTrigger(at=NOW, timezone="UTC")])
def test_a_trigger_comes_back_from_json_as_it_was(trigger):
    text = msgspec.json.encode(trigger)
    assert msgspec.json.decode(text, type=Trigger) == trigger
