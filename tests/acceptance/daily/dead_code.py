"""Find code that nothing uses, and remove it."""

from tests.acceptance.daily.task import ONCE, TESTS, WRITES, Task, call, edit, tests

OLD_WAY = '''

def old_mean(numbers):
    """As it was before."""
    total = 0
    for number in numbers:
        total += number
    return total / len(numbers)
'''

TASK = Task(
    name="find and remove dead code",
    says="remove what nothing uses from stats",
    files={
        "stats/stats/__init__.py": "from stats.numbers import mean, spread\n\n__all__ = ['mean', 'spread']\n",
        "stats/stats/numbers.py": '''"""Numbers about numbers."""

import math
import os

from stats.checks import numbers_only

DEBUG = False


def mean(numbers):
    """The middle of all."""
    numbers_only(numbers)
    return sum(numbers) / len(numbers)
'''
        + OLD_WAY
        + '''

def spread(numbers):
    """How far they lie from it."""
    middle = mean(numbers)
    return math.sqrt(sum((number - middle) ** 2 for number in numbers) / len(numbers))
''',
        "stats/stats/checks.py": '''"""Checks."""


def numbers_only(values):
    """Refuse anything else."""
    if not values or not all(isinstance(value, (int, float)) for value in values):
        raise ValueError("numbers are needed")
''',
        "stats/stats/legacy.py": '"""Nobody knows what this was for."""\n\n\ndef compat(*_):\n    return None\n',
        "stats/stats/old/reader.py": "def read(path):\n    return open(path).read()\n",
        "stats/stats/old/__init__.py": "",
        "stats/tests/__init__.py": "",
        "stats/tests/test_stats.py": """import unittest

import stats


class Stats(unittest.TestCase):
    def test_mean_and_spread(self):
        self.assertEqual((stats.mean([1, 3]), stats.spread([1, 3])), (2, 1))

    def test_only_numbers(self):
        for values in ([], ["a"]):
            with self.assertRaises(ValueError):
                stats.mean(values)
""",
    },
    rounds=[
        [
            call("file_search", pattern=r"^(def |[A-Z_]+ =|import |from )", path="stats", glob="*.py"),
            call("file_search", pattern=r"old_mean|DEBUG|\bos\b|legacy|compat|\bold\b|reader", path="stats"),
        ],
        [
            call("file_move", path="stats/stats/legacy.py", target="stats/stats/old/legacy.py"),
            call("file_delete", path="stats/stats/old"),
            edit("stats/stats/numbers.py", ("import os\n", ""), ("DEBUG = False\n\n\n", "\n"), (OLD_WAY, "")),
        ],
        [tests("stats"), call("file_list", path="stats/stats")],
    ],
    answers=[WRITES, ONCE, TESTS],
    gone=["old_mean", "DEBUG", "import os", "Nobody knows", "def read"],
    there=["def spread"],
)
