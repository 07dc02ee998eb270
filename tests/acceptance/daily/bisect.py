"""Find the commit that broke something, and mend it."""

from tests.acceptance.daily.task import TESTS, WRITES, Task, call, edit, shell, tests


def version(number: int) -> str:
    """The module as it was in one commit."""
    broken = number >= 4
    words = [
        '"""Names for addresses."""',
        "",
        "import re",
        "",
        f"LONGEST = {20 + number}",
        "",
        "",
        "def slug(title: str) -> str:",
        '    """A title as part of an address."""',
        f"    plain = re.sub(r'[^a-z0-9{' ' if broken else ''}]+', '-', title.lower())",
        "    return plain.strip('-')[:LONGEST]",
        "",
    ]
    return "\n".join(words)


TEST = """import unittest

from slugs.slug import slug


class Slugs(unittest.TestCase):
    def test_a_title(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")

    def test_it_begins_with_no_dash(self):
        self.assertEqual(slug("... so"), "so")
"""
COMMITS = [
    {"slugs/slugs/__init__.py": "", "slugs/slugs/slug.py": version(number), "slugs/README.md": f"# slugs 0.{number}\n"}
    for number in range(7)
]
FIND = '''"""Say which commit is the first that has a bug, by halves."""
import subprocess
import types


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def broken(commit):
    module = types.ModuleType("slug")
    exec(git("show", f"{commit}:slugs/slugs/slug.py"), module.__dict__)
    return module.slug("Hello, World!") != "hello-world"


commits = git("log", "--reverse", "--format=%h", "--", "slugs/slugs/slug.py").split()
good, bad = 0, len(commits) - 1
while bad - good > 1:
    middle = (good + bad) // 2
    good, bad = (good, middle) if broken(commits[middle]) else (middle, bad)
print("first bad:", git("log", "-1", "--format=%s", commits[bad]).strip())
'''

TASK = Task(
    name="bisect a regression",
    says="slug('Hello, World!') used to give hello-world. Which commit broke it? Fix it.",
    files={"slugs/tests/__init__.py": "", "slugs/tests/test_slug.py": TEST},
    history=COMMITS,
    rounds=[
        [shell("git log --oneline -- slugs"), call("file_read", path="slugs/slugs/slug.py")],
        [call("file_write", path="slugs/find_bad.py", content=FIND)],
        [shell("python3 slugs/find_bad.py")],
        [shell("git show HEAD~2 -- slugs/slugs/slug.py"), shell("git diff HEAD~3 HEAD~2 -- slugs/slugs")],
        [edit("slugs/slugs/slug.py", ("[^a-z0-9 ]+", "[^a-z0-9]+"))],
        [tests("slugs")],
    ],
    answers=[WRITES, "this command: python3 slugs/find_bad.py", TESTS],
    gone=[r"\[\^a-z0-9 \]"],
)
