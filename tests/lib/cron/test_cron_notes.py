"""Notes on cron: what may surprise, and nothing else."""

from datetime import UTC, datetime

import pytest
from hypothesis import given

from coilclaw.lib.cron.notes import cron_notes
from coilclaw.lib.cron.parse import parse_cron
from coilclaw.lib.cron.zones import zones
from tests.lib.cron.cron_expressions import expressions

AFTER = datetime(2026, 2, 23, 20, 10, tzinfo=UTC)
OR = "Day-of-month and day-of-week are combined using OR semantics."
RESET = "Day-of-month ‘*/2’ resets each month; this is not anchored to a specific start date."


def notes(text: str, zone: str = "UTC", after: datetime = AFTER) -> str | None:
    return cron_notes(parse_cron(text), zones().get(zone), after)


@pytest.mark.parametrize("text", [
    "0 17 * * *", "*/15 * * * *", "0 */2 * * *", "0 9 * * 1-5", "0 1 1 * *", "0 1 1 1 *", "*/30 */6 * */3 *",
    "0 1 1-31 * *", "0 1 */1 * *", "0,10,20,30,40,50 * * * *",
])  # fmt: skip
def test_what_surprises_nobody_has_no_note(text):
    assert notes(text) is None


@pytest.mark.parametrize(("text", "expected"), [
    ("0 1 */2 * *", RESET),
    ("0 9 13 * 5", OR),
    ("0 9 */2 * 1", f"{OR} Some other cron programs read ‘*/2’ here as AND; this one does not. {RESET}"),
    ("0 9 1-31 * 1", f"{OR} ‘1-31’ names every day, so the other field changes nothing."),
    ("*/25 * * * *", "Minute ‘*/25’ restarts each hour: the last gap is 10 minutes, not 25."),
    ("0 */5 * * *", "Hour ‘*/5’ restarts each day: the last gap is 4 hours, not 5."),
    ("0 */23 * * *", "Hour ‘*/23’ restarts each day: the last gap is 1 hour, not 23."),
    ("0 0 1 */5 *", "Month ‘*/5’ restarts each year: the last gap is 2 months, not 5."),
    ("0 0 * * */2", "Day-of-week ‘*/2’ restarts each week: the last gap is 1 day, not 2."),
    ("0 0 31 * *",
     "February, April, June, September and November have no 31st; nothing runs there on that day."),
    ("0 0 31 1,3,4 *", "April has no 31st; nothing runs there on that day."),
    ("0 0 30 * *", "February has no 30th; nothing runs there on that day."),
    ("0 0 29 2 *", "February 29th exists only in leap years, so this runs about once in four years."),
    ("0 0 29 * *", "February 29th exists only in leap years, so that day is left out in other years."),
])  # fmt: skip
def test_an_unexpected_error_is_reported(text, expected):
    assert notes(text) == expected


@pytest.mark.parametrize("text", [
    "*/25 9-17/2 * * *", "*/25 9 * * *", "0 */5 * * 1", "0 */5 1 * *", "5,*/25 * * * *",
])  # fmt: skip
def test_the_gap_after_a_round_is_told_only_where_the_next_round_follows_at_once(text):
    assert "the last gap" not in (notes(text) or "")


@pytest.mark.parametrize(("text", "least"), [
    ("* * * * *", "1 minute"), ("*/5 * * * *", "5 minutes"), ("0,9 4 * * *", "9 minutes"),
    ("58,2 * * * *", "4 minutes"), ("58,2 22,23 * * *", "4 minutes"), ("58,2 0,23 * * *", "4 minutes"),
])  # fmt: skip
def test_runs_finer_than_the_tick_are_reported(text, least):
    told = notes(text)
    assert told
    assert told.startswith(f"Runs are as little as {least} apart, finer than a 10-minute dispatcher tick")


@pytest.mark.parametrize("text", ["*/10 * * * *", "58,2 2,4 * * *", "0 * * * *"])
def test_runs_no_finer_than_the_tick_are_not(text):
    assert notes(text) is None


@pytest.mark.parametrize(("text", "zone", "expected"), [
    ("30 2 * * *", "America/Los_Angeles",
     ["2026-03-08: 2:00 AM–3:00 AM is skipped; the 2:30 AM run starts at 3:00 AM.",
      "2027-03-14: 2:00 AM–3:00 AM is skipped; the 2:30 AM run starts at 3:00 AM."]),
    ("0 1 * * *", "America/Los_Angeles",
     ["2026-11-01: 1:00 AM–2:00 AM comes twice; the 1:00 AM run starts only the first time.",
      "2027-11-07: 1:00 AM–2:00 AM comes twice; the 1:00 AM run starts only the first time."]),
    ("*/30 * * * *", "Australia/Lord_Howe",
     ["2026-04-05: 1:30 AM–2:00 AM comes twice; the 1:30 AM run starts only the first time.",
      "2026-10-04: 2:00 AM–2:30 AM is skipped; the 2:00 AM run starts at 2:30 AM.",
      "2027-04-04: 1:30 AM–2:00 AM comes twice; the 1:30 AM run starts only the first time.",
      "2027-10-03: 2:00 AM–2:30 AM is skipped; the 2:00 AM run starts at 2:30 AM."]),
    ("*/30 * * 3-10 *", "Antarctica/Troll",
     ["2026-03-29: 1:00 AM–3:00 AM is skipped; runs due then start once, at 3:00 AM.",
      "2026-10-25: 1:00 AM–3:00 AM comes twice; runs due then start only the first time.",
      "2027-03-28: 1:00 AM–3:00 AM is skipped; runs due then start once, at 3:00 AM.",
      "2027-10-31: 1:00 AM–3:00 AM comes twice; runs due then start only the first time."]),
    ("0 0 * * *", "America/Santiago",
     ["2026-09-06: 12:00 AM–1:00 AM is skipped; the 12:00 AM run starts at 1:00 AM.",
      "2027-09-05: 12:00 AM–1:00 AM is skipped; the 12:00 AM run starts at 1:00 AM."]),
    ("0 2 * * 1", "America/Los_Angeles", []),
    ("0 17 * * *", "America/Los_Angeles", []),
    ("30 2 * * *", "Asia/Kathmandu", []),
])  # fmt: skip
def test_clock_changes_that_touch_a_schedule_are_reported_for_this_year_and_the_next(text, zone, expected):
    assert notes(text, zone) == (" ".join(f"Clock change (DST) on {each}" for each in expected) or None)


def test_a_day_that_was_left_out_is_reported_with_both_dates():
    told = notes("0 9 * * 5", "Pacific/Apia", datetime(2011, 12, 1, tzinfo=UTC))
    assert told == (
        "Clock change (DST) on 2011-12-30: 12:00 AM–12:00 AM on 2011-12-31 is skipped;"
        " the 9:00 AM run starts at 12:00 AM on 2011-12-31."
    )


def test_the_offset_in_which_now_is_written_changes_nothing():
    east = datetime.fromisoformat("2026-02-24T05:10:00+09:00")
    assert notes("* * * * *", "Europe/Berlin", east) == notes("* * * * *", "Europe/Berlin")


@given(expressions())
def test_notes_are_the_same_every_time_and_whole_sentences(text):
    told = notes(text, "Europe/Dublin")
    assert told == notes(text, "Europe/Dublin")
    assert told is None or told.endswith(".")
