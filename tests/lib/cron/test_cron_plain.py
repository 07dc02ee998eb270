"""Cron as a person would say it: by 24 hours, dates and weekdays that add up, no field read aloud."""

from datetime import UTC, datetime

import pytest
from hypothesis import given

from coilclaw.lib.cron.notes import PLAIN, notes_of
from coilclaw.lib.cron.parse import parse_cron
from coilclaw.lib.cron.plain import plain_summary
from coilclaw.lib.cron.zones import zones
from tests.lib.cron.cron_expressions import expressions

AFTER = datetime(2026, 2, 23, 20, 10, tzinfo=UTC)


@pytest.mark.parametrize(("text", "said"), [
    ("0 9 * * 1-5", "Every weekday (Monday–Friday) at 09:00"),
    ("0 17 * * *", "Every day at 17:00"),
    ("0 * * * *", "Every hour on the hour"),
    ("1 * * * *", "Every hour at 1 minute past"),
    ("5 * * * 6", "Every Saturday every hour at 5 minutes past"),
    ("*/15 9-17 * * 1-5", "Every weekday (Monday–Friday) every 15 minutes from 09:00 to 17:45"),
    ("0 9 1,15 * 5", "On the 1st and 15th of each month, and every Friday, at 09:00"),
    ("0 9 13 * 5", "On the 13th of each month, and every Friday, at 09:00"),
    ("0 9 1-7 7,8 1", "From the 1st to the 7th, and every Monday, in July and August, at 09:00"),
    ("0 9 */2 * 1", "On every 2nd day of each month (the 1st, 3rd, 5th, …), and every Monday, at 09:00"),
    ("0 9 1-31 * 1", "Every day at 09:00"),
    ("0 9 1,3,5,6,7,9,10,12,14 6 *", "On 9 days (the 1st, 3rd, 5th, …) in June, at 09:00"),
    ("*/15 */2 * * *", "Every 15 minutes of every 2nd hour from 0 to 22"),
    ("0,20 9-17 * * *", "Every day at minutes 0 and 20 of every hour from 9 to 17"),
    ("0-30 * * * *", "Every minute from minute 0 to minute 30 of every hour"),
    ("2-59/7 * * * *", "Every 7 minutes from minute 2 to minute 58 of every hour"),
    ("*/5 3,5,8 * * *", "Every 5 minutes of the hours 3, 5 and 8"),
])  # fmt: skip
def test_an_expression_is_described_as_a_person_would(text, said):
    assert plain_summary(parse_cron(text), "Europe/Berlin") == f"{said} (Europe/Berlin)."


@given(expressions())
def test_every_expression_has_one_plain_sentence_without_cron_in_it(text):
    said = plain_summary(parse_cron(text), "UTC")
    assert said.endswith(" (UTC).")
    assert said[0].isupper()
    assert "*" not in said
    assert "  " not in said
    assert " AM" not in said
    assert " PM" not in said


def test_notes_for_people_use_their_words_dates_and_clocks():
    zone = zones().get("America/Los_Angeles")
    assert notes_of(parse_cron("30 2 13 * 5"), zone, AFTER, PLAIN)[0] == (
        "Dates and weekdays both count: it runs on those dates, and on those weekdays besides."
    )
    assert notes_of(parse_cron("30 2 * * *"), zone, AFTER, PLAIN)[0] == (
        "The clocks change on Sun 8 Mar 2026: 02:00–03:00 is skipped; the 02:30 run starts at 03:00."
    )
    told = " ".join(notes_of(parse_cron("*/7 * */2 * 1-5"), zone, AFTER, PLAIN))
    assert "‘*/7’ starts again each hour: the last gap is 4 minutes, not 7." in told
    for jargon in ("OR", "AND", "tick", "emantics", "Minute", "Day-of"):
        assert jargon not in told
    (often,) = notes_of(parse_cron("*/5 5 * * *"), zone, AFTER, PLAIN)
    assert "tick" not in often
    assert "5 minutes apart" in often
