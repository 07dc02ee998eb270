"""Mend what breaks a lint rule, everywhere."""

from tests.acceptance.daily.task import TESTS, WRITES, Task, call, edit, plan, shell, tests

RULE = '''"""Rules of this house: compare with None by `is`, name what is caught, no mutable defaults."""
import ast
import sys
from pathlib import Path

faults = []
for file in sorted(Path(__file__).resolve().parent.parent.joinpath("jobs").glob("*.py")):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            if any(isinstance(each, ast.Constant) and each.value is None for each in node.comparators):
                faults.append((file.name, node.lineno, "compare with None by `is`"))
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            faults.append((file.name, node.lineno, "say which exception"))
        if isinstance(node, ast.FunctionDef):
            if any(isinstance(each, (ast.List, ast.Dict)) for each in node.args.defaults):
                faults.append((file.name, node.lineno, "a default that changes"))
for name, line, text in faults:
    print(f"{name}:{line}: {text}")
sys.exit(bool(faults))
'''
LINT = "python3 work/tools/lint.py"
STEPS = ("see what breaks the rules", "mend it", "check")

TASK = Task(
    name="fix a lint rule everywhere",
    says="make work/tools/lint.py pass without changing what the code does",
    files={
        "work/tools/lint.py": RULE,
        "work/jobs/__init__.py": "",
        "work/jobs/items.py": '''"""Items."""


def first(items, default=[]):
    """The first one, or the default."""
    try:
        return items[0]
    except:
        return default


def named(item):
    """Whether it has a name."""
    return item.get("name") != None
''',
        "work/jobs/runs.py": '''"""Runs."""


def run(item, seen={}):
    """Do it once for each name."""
    name = item.get("name")
    if name == None:
        return "nameless"
    try:
        return str(1 / item["size"])
    except:
        return "failed"


def later(item):
    """When."""
    if item.get("at") == None:
        return 0
    return item["at"]
''',
        "work/tests/__init__.py": "",
        "work/tests/test_jobs.py": """import unittest

from jobs import items, runs


class Jobs(unittest.TestCase):
    def test_items(self):
        self.assertEqual((items.first([]), items.first([3]), items.first([], 7)), ([], 3, 7))
        self.assertEqual((items.named({}), items.named({"name": "a"})), (False, True))

    def test_runs(self):
        self.assertEqual([runs.run(each) for each in ({}, {"name": "a", "size": 0}, {"name": "b", "size": 2})],
                         ["nameless", "failed", "0.5"])
        self.assertEqual((runs.later({}), runs.later({"at": 3})), (0, 3))
""",
    },
    rounds=[
        [plan(*STEPS, done=0), shell(LINT)],
        [
            plan(*STEPS, done=1),
            call("file_search", pattern=r"[!=]= None|except:|=\[\]|=\{\}", path="work/jobs", context=1),
        ],
        [
            edit(
                "work/jobs/items.py",
                ("default=[]", "default=None"),
                ("except:", "except IndexError:"),
                ("return default", "return [] if default is None else default"),
                ("!= None", "is not None"),
            ),
            edit("work/jobs/runs.py", ("== None", "is None"), ("except:", "except ZeroDivisionError:"), every=True),
        ],
        [shell(LINT)],
        [edit("work/jobs/runs.py", (", seen={}", ""))],
        [plan(*STEPS, done=2), shell(LINT), tests("work")],
    ],
    answers=["this command: python3 work/tools/lint.py (while", WRITES, TESTS],
    fails=2,
    gone=[r"[!=]= None$", r"except:$"],
)
