"""Write tests until a counter says that every function is reached."""

from tests.acceptance.daily.task import WRITES, Task, call, edit, shell

COUNTER = '''"""Run the tests and say which lines of the package no test reached. Fails below 100 %."""
import ast
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "roman"
sys.path.insert(0, str(ROOT))
sys.dont_write_bytecode = True
reached = set()


def trace(frame, event, argument):
    if not frame.f_code.co_filename.startswith(str(PACKAGE)):
        return None
    reached.add((frame.f_code.co_filename, frame.f_lineno))
    return trace


def statements(file):
    for function in ast.walk(ast.parse(file.read_text())):
        if isinstance(function, ast.FunctionDef):
            for each in ast.walk(function):
                if isinstance(each, ast.stmt) and each is not function and not isinstance(each, ast.Expr):
                    yield str(file), each.lineno


sys.settrace(trace)
tests = unittest.defaultTestLoader.discover(str(ROOT / "tests"), top_level_dir=str(ROOT))
result = unittest.TextTestRunner(verbosity=0).run(tests)
sys.settrace(None)
wanted = {line for file in PACKAGE.glob("*.py") for line in statements(file)}
missed = sorted(wanted - reached)
print(f"{100 * (len(wanted) - len(missed)) // len(wanted)} % of {len(wanted)} lines")
for file, number in missed:
    print(f"  {Path(file).name}:{number}")
sys.exit(bool(missed) or not result.wasSuccessful())
'''
COUNT = "python3 roman/tools/covered.py"
FIRST = """    def test_what_is_not_a_number_is_refused(self):
        for text in ("", "IIX", "ABC"):
            with self.assertRaises(ValueError):
                to_int(text)
"""
SECOND = """
    def test_there_and_back(self):
        for number in (1, 4, 9, 14, 1999, 3999):
            self.assertEqual(to_int(to_roman(number)), number)

    def test_only_so_much_can_be_written(self):
        for number in (0, 4000):
            with self.assertRaises(ValueError):
                to_roman(number)
"""

TASK = Task(
    name="write missing tests until the counter is full",
    says="roman has hardly any tests. Write them until roman/tools/covered.py is content.",
    files={
        "roman/roman/__init__.py": "",
        "roman/roman/numbers.py": '''"""Roman numbers."""

VALUES = {"M": 1000, "CM": 900, "D": 500, "CD": 400, "C": 100, "XC": 90, "L": 50, "XL": 40, "X": 10, "IX": 9,
          "V": 5, "IV": 4, "I": 1}


def to_roman(number: int) -> str:
    """A number as the Romans wrote it."""
    if not 0 < number < 4000:
        raise ValueError(f"{number} cannot be written.")
    text = ""
    for letters, value in VALUES.items():
        while number >= value:
            text += letters
            number -= value
    return text


def to_int(text: str) -> int:
    """What a Roman number is worth."""
    number, rest = 0, text
    for letters, value in VALUES.items():
        while rest.startswith(letters):
            number += value
            rest = rest[len(letters) :]
    if rest or not text or to_roman(number) != text:
        raise ValueError(f"{text!r} is no number.")
    return number
''',
        "roman/tools/covered.py": COUNTER,
        "roman/tests/__init__.py": "",
        "roman/tests/test_numbers.py": """import unittest

from roman.numbers import to_int, to_roman


class Numbers(unittest.TestCase):
    pass
""",
    },
    rounds=[
        [shell(COUNT), call("file_read", path="roman/roman/numbers.py", numbers=True)],
        [edit("roman/tests/test_numbers.py", ("    pass\n", FIRST))],
        [shell(COUNT)],
        [
            call(
                "file_edit",
                path="roman/tests/test_numbers.py",
                edits=[{"old": "                to_int(text)\n", "new": f"                to_int(text)\n{SECOND}"}],
            )
        ],
        [shell(COUNT)],
    ],
    answers=["this command: python3 roman/tools/covered.py (while", WRITES],
    fails=2,
    there=["def test_there_and_back"],
)
