"""Find out why a test fails, and mend the code."""

from tests.acceptance.daily.task import TESTS, WRITES, Task, call, edit, shell, tests

TASK = Task(
    name="fix a failing test",
    says="a test in dates fails, please fix the code",
    files={
        "dates/dates/__init__.py": "",
        "dates/dates/spans.py": '''"""Spans of days."""

from datetime import date, timedelta


def days(first: date, last: date) -> list[date]:
    """Every day from the first to the last, both included."""
    return [first + timedelta(days=number) for number in range((last - first).days)]


def weekdays(first: date, last: date) -> list[date]:
    """The same without Saturdays and Sundays."""
    return [day for day in days(first, last) if day.weekday() < 5]


def weeks(first: date, last: date) -> int:
    """How many weeks the days touch."""
    return len({day.isocalendar()[:2] for day in days(first, last)})
''',
        "dates/tests/__init__.py": "",
        "dates/tests/test_spans.py": """import unittest
from datetime import date

from dates.spans import days, weekdays, weeks


class Spans(unittest.TestCase):
    def test_both_ends_are_included(self):
        self.assertEqual(days(date(2026, 3, 2), date(2026, 3, 3)), [date(2026, 3, 2), date(2026, 3, 3)])

    def test_a_single_day(self):
        self.assertEqual(days(date(2026, 3, 2), date(2026, 3, 2)), [date(2026, 3, 2)])

    def test_nothing_when_it_ends_before_it_begins(self):
        self.assertEqual(days(date(2026, 3, 3), date(2026, 3, 2)), [])

    def test_weekdays(self):
        self.assertEqual(len(weekdays(date(2026, 3, 2), date(2026, 3, 8))), 5)

    def test_weeks(self):
        self.assertEqual(weeks(date(2026, 3, 1), date(2026, 3, 2)), 2)
""",
    },
    rounds=[
        [tests("dates")],
        [call("file_read", path="dates/dates/spans.py", offset=6, limit=4, numbers=True)],
        [edit("dates/dates/spans.py", ("range((last - first).days)", "range((last - first).days + 1)"))],
        [shell("python3 -m unittest discover -v -s dates/tests -t dates -k single")],
        [tests("dates")],
    ],
    answers=[TESTS, WRITES],
    fails=1,
    there=[r"\.days \+ 1\)"],
)
