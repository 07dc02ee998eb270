"""Which missed slots are run: pure."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.schedules.catchup import MOST_RUNS, ON_TIME, TICK, plan
from coilclaw.features.schedules.store.schedules import Options
from coilclaw.features.schedules.timetable import trigger_of
from coilclaw.features.schedules.triggers import next_after

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOURLY = trigger_of("cron", {"cron": "0 * * * *"}, "UTC")
MINUTELY = trigger_of("cron", {"cron": "* * * * *"}, "UTC")


def at(**amount):
    return START + timedelta(**amount)


def made(trigger=HOURLY, now=START, first=START, shift=None, **options):
    return plan(trigger, first, now, Options(**options), shift or timedelta())


def test_a_slot_that_is_due_is_run_and_nothing_is_skipped():
    found = made(now=at(seconds=5))
    assert (found.runs, found.skipped) == ((START,), ())
    assert (found.counted_from, found.next_run) == (START, at(hours=1))


def test_of_several_missed_slots_the_newest_is_run_and_the_others_are_counted():
    found = made(now=at(hours=5, minutes=20))
    assert found.runs == (at(hours=5),)
    (skipped,) = found.skipped
    assert (skipped.first, skipped.last, skipped.slots) == (START, at(hours=4), 5)
    assert found.next_run == at(hours=6)


def test_run_all_runs_every_missed_slot_oldest_first_up_to_a_cap():
    few = made(now=at(hours=5), misfire="run_all")
    assert few.runs == tuple(at(hours=hour) for hour in range(6))
    assert few.skipped == ()
    many = made(now=at(hours=22), misfire="run_all")
    assert many.runs == tuple(at(hours=hour) for hour in range(3, 23))
    assert len(many.runs) == MOST_RUNS
    assert many.skipped[0].slots == 3


def test_run_all_goes_back_no_farther_than_the_window():
    found = made(now=at(hours=10, minutes=30), misfire="run_all", catch_up_seconds=3 * 3600)
    assert found.runs == (at(hours=8), at(hours=9), at(hours=10))
    assert found.skipped[0].slots == 8


def test_skip_runs_only_what_is_on_time():
    late = made(now=at(minutes=21), misfire="skip")
    assert late.runs == ()
    assert late.skipped[0].slots == 1
    assert made(now=START + ON_TIME, misfire="skip").runs == (START,)
    assert ON_TIME > TICK  # what looks every ten minutes may be late itself
    busy = made(trigger=MINUTELY, now=at(minutes=30), misfire="skip")
    assert busy.runs == (at(minutes=30),)
    assert busy.skipped[0].slots == 30


def test_nothing_is_run_that_is_later_than_the_window():
    assert made(now=at(hours=30), catch_up_seconds=60).runs == (at(hours=30),)
    found = made(now=at(minutes=59), catch_up_seconds=60)
    assert found.runs == ()
    assert found.skipped[0].reason == "missed for longer than the catch-up window"


def test_a_window_without_end_runs_what_was_due_years_ago():
    once = trigger_of("at", {"at": "2026-03-01T12:00:00Z"}, "UTC")
    found = made(trigger=once, now=at(days=2000), catch_up_seconds=None)
    assert found.runs == (START,)
    assert found.next_run is None


def test_the_stagger_shifts_what_counts_as_due():
    shift = timedelta(minutes=20)
    assert made(now=at(hours=1, minutes=19), shift=shift).runs == (START,)
    assert made(now=at(hours=1, minutes=20), shift=shift).runs == (at(hours=1),)


def test_a_month_asleep_is_one_run_and_one_count():
    found = made(trigger=MINUTELY, now=at(days=30))
    assert found.runs == (at(days=30),)
    (skipped,) = found.skipped
    assert skipped.slots == 43_200


@pytest.mark.parametrize("misfire", ["run_once", "run_all", "skip"])
@given(
    cron=st.sampled_from(["* * * * *", "*/7 3,5 * * *", "0 9 * * 1-5", "30 2 * * *", "15 1 29 2 *", "0 0 1 * 5"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "Africa/Casablanca"]),
    start=st.integers(0, 2_000_000),
    asleep=st.integers(0, 40_000),
    window=st.sampled_from([0, 3600, 86_400, None]),
    shift=st.integers(0, 3600),
)
def test_every_slot_up_to_now_is_run_or_skipped_exactly_once(misfire, cron, zone, start, asleep, window, shift):
    trigger = trigger_of("cron", {"cron": cron}, zone)
    first = next_after(trigger, START + timedelta(minutes=start))
    assert first is not None
    now = first + timedelta(minutes=asleep, seconds=shift)
    found = plan(trigger, first, now, Options(misfire=misfire, catch_up_seconds=window), timedelta(seconds=shift))
    slots, slot = [], first
    while slot is not None and slot <= now - timedelta(seconds=shift):
        slots.append(slot)
        slot = next_after(trigger, slot)
    assert found.next_run == slot
    assert found.counted_from == slots[-1]
    assert sum(skipped.slots for skipped in found.skipped) + len(found.runs) == len(slots)
    assert list(found.runs) == slots[len(slots) - len(found.runs) :]
    if found.skipped:
        (skipped,) = found.skipped
        assert (skipped.first, skipped.last) == (slots[0], slots[len(slots) - len(found.runs) - 1])
    assert len(found.runs) <= (MOST_RUNS if misfire == "run_all" else 1)
