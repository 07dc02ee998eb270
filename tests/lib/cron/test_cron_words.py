"""Cron in words: the canonical sentences, their neighbours, the list of fields for the rest."""

import pytest
from hypothesis import given

from coilclaw.lib.cron.parse import parse_cron
from coilclaw.lib.cron.words import cron_summary
from tests.lib.cron.cron_expressions import expressions

ZONE = "America/Los_Angeles"
CANONICAL = {
    "0 17 * * *": "Every day at 5:00 PM America/Los_Angeles.",
    "0 * * * *": "Every hour at 12:00 AM, 1:00 AM, 2:00 AM, … America/Los_Angeles.",
    "5 * * * *": "Every hour at 12:05 AM, 1:05 AM, 2:05 AM, … America/Los_Angeles.",
    "*/15 * * * *": "Every 15 minutes America/Los_Angeles.",
    "0 */2 * * *": "Every 2 hours at 12:00 AM, 2:00 AM, 4:00 AM, … America/Los_Angeles.",
    "0 9 * * 1-5": "Every weekday (Monday–Friday) at 9:00 AM America/Los_Angeles.",
    "0 9 * * 0,6": "Every weekend (Saturday and Sunday) at 9:00 AM America/Los_Angeles.",
    "0 1 */2 * *": "Every 2 days at 1:00 AM America/Los_Angeles.",
    "0 1 1 * *": "Every month on the 1st at 1:00 AM America/Los_Angeles.",
    "0 1 1 1 *": "Every year on January 1st at 1:00 AM America/Los_Angeles.",
}
NEIGHBOURS = {
    "* * * * *": "Every minute",
    "*/1 * * * *": "Every minute",
    "0 9 29-31 2 *": "Every year on February 29th at 9:00 AM",
    "0 9 30,31 2,4 *": "Every year on April 30th at 9:00 AM",
    "*/7 * * * *": "Every 7 minutes",
    "0,30 * * * *": "Every 30 minutes",
    "5-59/15 * * * *": "Every 15 minutes at 12:05 AM, 12:20 AM, 12:35 AM, …",
    "*/40 * * * *": "Every hour at 12:00 AM, 12:40 AM, 1:00 AM, …",
    "0,10,25 * * * *": "Every hour at 12:00 AM, 12:10 AM, 12:25 AM, 1:00 AM, …",
    "30 */2 * * *": "Every 2 hours at 12:30 AM, 2:30 AM, 4:30 AM, …",
    "0 1-23/2 * * *": "Every 2 hours at 1:00 AM, 3:00 AM, 5:00 AM, …",
    "0 */5 * * *": "Every 5 hours at 12:00 AM, 5:00 AM, 10:00 AM, …",
    "0 */12 * * *": "Every 12 hours at 12:00 AM and 12:00 PM",
    "0 */13 * * *": "Every day at 12:00 AM and 1:00 PM",
    "0 0 * * *": "Every day at 12:00 AM",
    "30 12 * * *": "Every day at 12:30 PM",
    "59 23 * * *": "Every day at 11:59 PM",
    "0 9,17 * * *": "Every day at 9:00 AM and 5:00 PM",
    "0,30 9,17 * * *": "Every day at 9:00 AM, 9:30 AM, 5:00 PM and 5:30 PM",
    "0 9-17 * * 1-5": "Every weekday (Monday–Friday) every hour from 9:00 AM to 5:00 PM",
    "*/15 9-17 * * MON-FRI": "Every weekday (Monday–Friday) every 15 minutes from 9:00 AM to 5:45 PM",
    "15,45 8-18 * * 1-5": "Every weekday (Monday–Friday) every 30 minutes from 8:15 AM to 6:45 PM",
    "* 9-17 * * *": "Every day every minute from 9:00 AM to 5:59 PM",
    "0-30 9 * * *": "Every day every minute from 9:00 AM to 9:30 AM",
    "0 8-18/2 * * *": "Every day every 2 hours from 8:00 AM to 6:00 PM",
    "0 * * * 1-5": "Every weekday (Monday–Friday) every hour at 12:00 AM, 1:00 AM, 2:00 AM, …",
    "*/15 * * * 6": "Every Saturday every 15 minutes",
    "0 9 * * 1,2,3,4,5": "Every weekday (Monday–Friday) at 9:00 AM",
    "0 9 * * SAT,SUN": "Every weekend (Saturday and Sunday) at 9:00 AM",
    "0 9 * * 6-7": "Every weekend (Saturday and Sunday) at 9:00 AM",
    "0 9 * * 1": "Every Monday at 9:00 AM",
    "0 9 * * 7": "Every Sunday at 9:00 AM",
    "0 9 * * mon,wed,fri": "Every Monday, Wednesday and Friday at 9:00 AM",
    "0 9 * * 0-6": "Every day at 9:00 AM",
    "0 9 * 7,8 *": "Every day in July and August at 9:00 AM",
    "0 9 * 12 1-5": "Every weekday (Monday–Friday) in December at 9:00 AM",
    "0 9 * 4-10 1": "Every Monday in the months April–October at 9:00 AM",
    "0 9 */3 * *": "Every 3 days at 9:00 AM",
    "0 9 1,15 * *": "Every month on the 1st and 15th at 9:00 AM",
    "0 9 2,3,11,12,13,21,22,23 * *": "Every month on the 2nd, 3rd, 11th, 12th, 13th, 21st, 22nd and 23rd at 9:00 AM",
    "0 9 1-7 * *": "Every month from the 1st to the 7th at 9:00 AM",
    "0 1 1 */3 *": "Every year on January 1st, April 1st, July 1st and October 1st at 1:00 AM",
    "0 1 1,15 4-10 *": "Every year in the months April–October on the 1st and 15th at 1:00 AM",
    "0 0 25 DEC *": "Every year on December 25th at 12:00 AM",
    "0 1 1-31 * *": "Every day at 1:00 AM",
}
LISTED = ["0 9 13 * 5", "0 9 */2 * 1", "*/15 */2 * * *", "0,20 9-17 * * *", "0-30 * * * *", "2-59/7 * * * *"]


@pytest.mark.parametrize("text", CANONICAL)
def test_the_canonical_sentences_are_said_word_for_word(text):
    assert cron_summary(parse_cron(text), ZONE) == CANONICAL[text]


@pytest.mark.parametrize("text", NEIGHBOURS)
def test_their_neighbours_are_reported_in_the_same_words(text):
    assert cron_summary(parse_cron(text), "Europe/Berlin") == f"{NEIGHBOURS[text]} Europe/Berlin."


@pytest.mark.parametrize("text", LISTED)
def test_what_has_no_common_shape_is_said_field_by_field(text):
    minute, hour, day, month, weekday = text.split()
    assert cron_summary(parse_cron(text), ZONE) == (
        f"At minute {minute} past hour {hour} on day-of-month {day} in months {month}"
        f" and days-of-week {weekday}, {ZONE}."
    )


@given(expressions())
def test_every_expression_has_one_sentence_that_ends_with_the_zone(text):
    said = cron_summary(parse_cron(text), ZONE)
    assert said.endswith(f"{ZONE}.")
    assert said[0].isupper()
    assert said == cron_summary(parse_cron(text), ZONE)
    assert "  " not in said
