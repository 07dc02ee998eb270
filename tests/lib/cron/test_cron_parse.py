"""Reading cron: what every cron reads alike is taken, everything else is refused with the right spelling."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.lib.cron.field import FIELDS
from coilclaw.lib.cron.parse import parse_cron
from coilclaw.packets.errors import UsageError

TAKEN = {
    "0 17 * * *": ("minutes", (0,)),
    "5,10 * * * *": ("minutes", (5, 10)),
    "10,5,5 * * * *": ("minutes", (5, 10)),
    "1-4 * * * *": ("minutes", (1, 2, 3, 4)),
    "*/20 * * * *": ("minutes", (0, 20, 40)),
    "5-59/15 * * * *": ("minutes", (5, 20, 35, 50)),
    "*/1 * * * *": ("minutes", tuple(range(60))),
    "*/30,7 * * * *": ("minutes", (0, 7, 30)),
    "*,5 * * * *": ("minutes", tuple(range(60))),
    "*/59 * * * *": ("minutes", (0, 59)),
    "0-0 5 * * *": ("minutes", (0,)),
    "0-0/3 5 * * *": ("minutes", (0,)),
    "1-5/10 * * * *": ("minutes", (1,)),
    "005 * * * *": ("minutes", (5,)),
    "*/015 * * * *": ("minutes", (0, 15, 30, 45)),
    "0 5-5 * * *": ("hours", (5,)),
    "0 09 * * *": ("hours", (9,)),
    "0 0 1-31/10 * *": ("days", (1, 11, 21, 31)),
    "0 0 1 jan *": ("months", (1,)),
    "0 0 1 Jan-mAR *": ("months", (1, 2, 3)),
    "0 0 1 feb,12 *": ("months", (2, 12)),
    "0 0 1 JAN-DEC/3 *": ("months", (1, 4, 7, 10)),
    "0 0 * * MON": ("weekdays", (1,)),
    "0 0 * * mon-FRI": ("weekdays", (1, 2, 3, 4, 5)),
    "0 0 * * MON-5": ("weekdays", (1, 2, 3, 4, 5)),
    "0 0 * * 0": ("weekdays", (0,)),
    "0 0 * * 7": ("weekdays", (0,)),
    "0 0 * * 0,7": ("weekdays", (0,)),
    "0 0 * * 5-7": ("weekdays", (0, 5, 6)),
    "0 0 * * 1-7/2": ("weekdays", (0, 1, 3, 5)),
    "0 0 * * 0-7": ("weekdays", (0, 1, 2, 3, 4, 5, 6)),
    "0 0 * * SUN-SAT": ("weekdays", (0, 1, 2, 3, 4, 5, 6)),
    "0 0 * * */2": ("weekdays", (0, 2, 4, 6)),
    "0 0 30 2 1": ("weekdays", (1,)),
    "0 0 29 2 *": ("days", (29,)),
    "0 0 29-31 2 *": ("days", (29, 30, 31)),
    "0 0 31 1,2 *": ("days", (31,)),
    "  0\t 17  *   * * \n": ("hours", (17,)),
}

REFUSED = {
    "": "five fields, but this one has 0",
    "   ": "five fields",
    "* * * *": "five fields, but this one has 4",
    "0 0 9 * * 1": "write 0 9 * * 1",
    "0 0 9 * * ?": "write 0 9 * * *",
    "0 0 9 * * 1 2026": "write 0 9 * * 1",
    "0 0 9 1 1 1 1 1": "five fields",
    "@daily": "Write 0 0 * * *",
    "@MIDNIGHT": "Write 0 0 * * *",
    "@hourly": "Write 0 * * * *",
    "@weekly": "Write 0 0 * * 0",
    "@monthly": "Write 0 0 1 * *",
    "@yearly": "Write 0 0 1 1 *",
    "@annually": "Write 0 0 1 1 *",
    "@reboot": "Write five fields",
    "@every 5m": "interval",
    "CRON_TZ=UTC 0 9 * * *": "time zone in its own field",
    "TZ=Europe/Berlin 0 9 * * *": "time zone in its own field",
    "5/15 * * * *": "Write 5-59/15.",
    "0 3/4 * * *": "Write 3-23/4.",
    "0 0 1/2 * *": "Write 1-31/2.",
    "0 0 1 2/3 *": "Write 2-12/3.",
    "0 0 * * 1/2": "Write 1-6/2.",
    "0 0 * * MON/2": "Write 1-6/2.",
    "50/15 * * * *": "Write 50.",
    "*/90 * * * *": "an interval of 90 minutes",
    "0-59/90 * * * *": "an interval of 90 minutes",
    "*/60 * * * *": "write 0",
    "0 */36 * * *": "an interval of 36 hours",
    "0 */24 * * *": "write 0",
    "0 0 */45 * *": "an interval of 45 days",
    "0 0 */31 * *": "write 1",
    "0 0 1 */12 *": "write 1",
    "0 0 * * */7": "write 0",
    "0 0 * * */8": "write 0",
    "0 22-2 * * *": "Write 22-23,0-2.",
    "0 23-0 * * *": "Write 23,0.",
    "50-10 * * * *": "Write 50-59,0-10.",
    "0 22-2/2 * * *": "Write 0,2,22.",
    "0 0 28-3 * *": "Write 28-31,1-3.",
    "0 0 1 NOV-FEB *": "Write 11-12,1-2.",
    "0 0 * * FRI-MON": "Write 5-6,0-1.",
    "0 0 * * FRI-SUN": "Write 5-7.",
    "0 0 * * 7-2": "Write 0-2.",
    "*/0 * * * *": "step of 0",
    "1-5/0 * * * *": "step of 0",
    "0 0 30 2 *": "February has no 30th",
    "0 0 31 2 *": "February has no 31st",
    "0 0 30,31 2 *": "February has no 30th",
    "0 0 31 4,6,9,11 *": "April, June, September and November have no 31st",
    "0 0 31 4,6 *": "April and June have no 31st",
    "60 * * * *": "minute 0",
    "0 24 * * *": "hour 0",
    "0 0 0 * *": "1 to 31",
    "0 0 32 * *": "1 to 31",
    "0 0 * 0 *": "1 to 12",
    "0 0 * 13 *": "1 to 12",
    "0 0 * * 8": "0 to 7",
    "1-60 * * * *": "minute",
    "999999999999999999999999 * * * *": "0 to 59",
    "0 0 L * *": "28-31",
    "0 0 L-3 * *": "28-31",
    "0 0 LW * *": "28-31",
    "0 0 15W * *": "Write the day itself",
    "0 0 * * 5L": "28-31",
    "0 0 * * FRIL": "28-31",
    "0 0 * * 5#2": "nth weekday",
    "0 0 ? * 1": "Write *",
    "H * * * *": "Write the number",
    "H/15 * * * *": "Write",
    "H(0-29) * * * *": "Write the number",
    "0~30 * * * *": "Write the number",
    "0 0 * * MONDAY": "Write MON",
    "0 0 1 January *": "Write JAN",
    "0 0 * MON *": "is a day-of-week, but it is in the month field",
    "0 0 * * JAN": "is a month, but it is in the day-of-week field",
    "MON * * * *": "is a day-of-week, but it is in the minute field",
    "0 0 1 JUN-MON *": "is a day-of-week",
    "0 0 * * */MON": "not a valid day-of-week",
    "5,,6 * * * *": "empty item",
    ",5 * * * *": "empty item",
    "5, * * * *": "empty item",
    "5- * * * *": "not a valid minute",
    "-5 * * * *": "not a valid minute",
    "+5 * * * *": "not a valid minute",
    "1-2-3 * * * *": "not a valid minute",
    "*-5 * * * *": "not a valid minute",
    "** * * * *": "not a valid minute",
    "*5 * * * *": "not a valid minute",
    "*/ * * * *": "not a valid minute",
    "/5 * * * *": "not a valid minute",
    "*/-5 * * * *": "not a valid minute",
    "*/5/5 * * * *": "not a valid minute",
    "1.5 * * * *": "not a valid minute",
    "0x5 * * * *": "not a valid minute",
    "1_0 * * * *": "not a valid minute",
    "5 * * * *; rm": "five fields",
    "!5 * * * *": "not a valid minute",
    "٣ * * * *": "U+0663",
    "５ * * * *": "U+FF15",
    "² * * * *": "U+00B2",
    "0\u00a09 * * *": "U+00A0",
    "0\n9 * * *": "U+000A",
    "0 9 * * \x00": "U+0000",
    "0 9 * * MОN": "U+041E",
    "0 " * 600: "longer than",
}


@pytest.mark.parametrize("text", TAKEN)
def test_what_every_cron_reads_alike_is_taken(text):
    field, values = TAKEN[text]
    assert getattr(parse_cron(text), field) == values


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_is_reported_with_the_right_spelling(text):
    with pytest.raises(UsageError) as refusal:
        parse_cron(text)
    assert REFUSED[text] in str(refusal.value)


@pytest.mark.parametrize("text", [text for text, words in REFUSED.items() if re.match("Write [-0-9,/]+[.]$", words)])
def test_the_spelling_that_is_offered_for_a_field_is_taken(text):
    with pytest.raises(UsageError) as refusal:
        parse_cron(text)
    right = str(refusal.value).rpartition("Write ")[2].rstrip(".")
    wrong = next(part for part in text.split() if not re.fullmatch(r"[*]|[0-9]+", part))
    parse_cron(text.replace(wrong, right))


@pytest.mark.parametrize(("text", "any_day", "any_weekday"), [
    ("0 0 * * *", True, True),
    ("0 0 */1 * *", False, True),
    ("0 0 1-31 * 1", False, False),
    ("0 0 *,1 * 1", False, False),
    ("0 0 * * 0-6", True, False),
    ("0 0 */2 * 1", False, False),
])  # fmt: skip
def test_a_day_field_is_restricted_unless_it_is_exactly_a_star(text, any_day, any_weekday):
    cron = parse_cron(text)
    assert (cron.any_day, cron.any_weekday) == (any_day, any_weekday)
    assert cron.either == (not any_day and not any_weekday)


def test_blanks_are_made_single_and_the_spelling_is_kept():
    assert parse_cron(" 05   9\t*  * mon-FRI ").text == "05 9 * * mon-FRI"


@given(st.text(alphabet="0123456789*/-,# ?LWHMONJAnfri@\t", max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        cron = parse_cron(text)
    except UsageError:
        return
    values = (cron.minutes, cron.hours, cron.days, cron.months, cron.weekdays)
    for field, numbers in zip(FIELDS, values, strict=True):
        assert numbers
        assert list(numbers) == sorted(set(numbers))
        assert field.low <= numbers[0] <= numbers[-1] <= field.high


@given(st.text(max_size=60))
def test_any_text_at_all_is_refused_in_words_that_can_be_shown(text):
    with pytest.raises(UsageError) as refusal:
        parse_cron(f"{text}!")
    assert str(refusal.value).isprintable()
