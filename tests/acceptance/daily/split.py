"""Split a module that grew too long."""

from tests.acceptance.daily.task import TESTS, WRITES, Task, call, edit, tests

READING = '''def rows(text: str) -> list[list[str]]:
    """The rows of a table, its cells without blanks."""
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]


def columns(table: list[list[str]]) -> dict[str, list[str]]:
    """The same by the names in its first row."""
    head, *rest = table
    return {name: [row[place] for row in rest] for place, name in enumerate(head)}
'''
SUMS = '''def mean(values: list[float]) -> float:
    """The middle of all."""
    return sum(values) / len(values)


def median(values: list[float]) -> float:
    """The one in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
'''
SHOWN = '''def line(name: str, values: list[float]) -> str:
    """A line of the report."""
    return f"{name}: mean {mean(values):.1f}, median {median(values):.1f}"


def report(text: str) -> str:
    """What a table says, column by column."""
    found = columns(rows(text))
    return "\\n".join(line(name, [float(each) for each in values]) for name, values in found.items())
'''
LONG = f'"""Reports about tables."""\n\n\n{READING}\n\n{SUMS}\n\n{SHOWN}'
IMPORTS = """from tables.report.reading import columns, rows
from tables.report.sums import mean, median


"""

TASK = Task(
    name="split a long module",
    says="tables/report.py does three things: reading, sums and the report. Split it; the old imports must still work.",
    files={
        "tables/tables/__init__.py": "",
        "tables/tables/report.py": LONG,
        "tables/tests/__init__.py": "",
        "tables/tests/test_report.py": """import unittest
from pathlib import Path

import tables.report
from tables.report import columns, mean, median, report, rows


class Reports(unittest.TestCase):
    def test_a_table_is_read(self):
        self.assertEqual(columns(rows("a, b\\n1, 2\\n\\n3, 4")), {"a": ["1", "3"], "b": ["2", "4"]})

    def test_sums(self):
        self.assertEqual((mean([1, 2, 6]), median([1, 2, 6]), median([1, 2, 4, 6])), (3, 2, 3))

    def test_a_report(self):
        self.assertEqual(report("a,b\\n1,2\\n3,8"), "a: mean 2.0, median 2.0\\nb: mean 5.0, median 5.0")
""",
    },
    rounds=[
        [
            call("file_search", pattern="^(def|class|import|from) ", path="tables/tables/report.py"),
            call("file_read", path="tables/tables/report.py", offset=1, limit=14),
            call("file_read", path="tables/tables/report.py", offset=15, limit=30),
        ],
        [
            call("file_move", path="tables/tables/report.py", target="tables/tables/report/__init__.py"),
            call("file_write", path="tables/tables/report/reading.py", content=f'"""Reading tables."""\n\n\n{READING}'),
            call("file_write", path="tables/tables/report/sums.py", content=f'"""Sums."""\n\n\n{SUMS}'),
            edit(
                "tables/tables/report/__init__.py",
                (f"\n{READING}\n\n{SUMS}\n\n", IMPORTS),
            ),
        ],
        [tests("tables"), call("file_read", path="tables/tables/report/__init__.py", limit=8)],
    ],
    answers=[WRITES, TESTS],
    there=[r"^from tables\.report\.sums import mean, median$", r'^"""Reading tables\."""'],
)
