"""Give a command a new flag, with its test and its documentation."""

from tests.acceptance.daily.task import TESTS, WRITES, Task, call, edit, tests

FLAG = "| `--ignore-case` | A and a are one word |\n"
ARGUMENT = '    made.add_argument("--unique", action="store_true", help="count each word once")\n'
TEST = """    def test_a_word_counts_once_when_asked(self):
        self.assertEqual(main(["--unique", "a b", "a A"]), 3)
        self.assertEqual(main(["--unique", "--ignore-case", "a b", "a A"]), 2)

"""

TASK = Task(
    name="add a flag with its test and document",
    says="counting needs a --unique flag: count each word once. With a test, and in the documentation.",
    files={
        "counting/counting/__init__.py": "",
        "counting/counting/main.py": '''"""Count words."""

import argparse


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    made = argparse.ArgumentParser(prog="counting", description="Count words.")
    made.add_argument("text", nargs="*")
    made.add_argument("--ignore-case", action="store_true", help="take upper and lower case alike")
    return made


def main(argv: list[str]) -> int:
    """How many words there are."""
    options = parser().parse_args(argv)
    words = [word for text in options.text for word in text.split()]
    if options.ignore_case:
        words = [word.lower() for word in words]
    return len(words)
''',
        "counting/tests/__init__.py": "",
        "counting/tests/test_main.py": """import unittest
from pathlib import Path

from counting.main import main, parser

DOCUMENT = Path(__file__).parent.parent / "docs" / "usage.md"


class Counting(unittest.TestCase):
    def test_words_are_counted(self):
        self.assertEqual(main(["a b", "a"]), 3)

    def test_every_flag_is_documented(self):
        for action in parser()._actions:
            for flag in action.option_strings:
                if flag.startswith("--") and flag != "--help":
                    self.assertIn(f"`{flag}`", DOCUMENT.read_text())
""",
        "counting/docs/usage.md": f"# Usage\n\n| flag | meaning |\n|---|---|\n{FLAG}",
    },
    rounds=[
        [
            call("file_read", path="counting/counting/main.py"),
            call("file_search", pattern="ignore-case", path="counting"),
        ],
        [
            edit(
                "counting/counting/main.py",
                ("    return made\n", f"{ARGUMENT}    return made\n"),
                ("    return len(words)\n", "    return len(set(words) if options.unique else words)\n"),
            ),
            edit("counting/tests/test_main.py", ("    def test_every_flag", f"{TEST}    def test_every_flag")),
            edit("counting/docs/usage.md", (FLAG, f"{FLAG}| `--unique` | each word counts once |\n")),
        ],
        [tests("counting")],
    ],
    answers=[WRITES, TESTS],
    there=[r'add_argument\("--unique"', r"`--unique` \|", r"test_a_word_counts_once"],
)
