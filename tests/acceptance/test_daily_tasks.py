"""Ten tasks of a coding agent's daily life, through the real executable in `supervised`: done, and with few questions.

The model is scripted; what it does is judged by the repository's own tests, run here once it says that it is done.
"""

import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import HomeAt
from tests.acceptance.daily import (
    bisect,
    cli_flag,
    convert,
    coverage,
    dead_code,
    lint,
    red_suite,
    rename,
    split,
    upgrade,
)
from tests.acceptance.daily.task import ONCE, Task

pytestmark = pytest.mark.slow

TASKS = [
    each.TASK
    for each in (rename, red_suite, cli_flag, bisect, upgrade, split, coverage, dead_code, lint, convert)
]  # fmt: skip
APPROVE, DONE = "Approve? [y", "That is done."
MOST = 3
"""Questions that a task may take."""


def put(home: HomeAt, files: Mapping[str, str]) -> None:
    """Lay out a repository in the workspace; a folder that ends with .whl becomes an archive."""
    for name, text in files.items():
        archive, inside, member = name.partition(".whl/")
        path = home.workspace / (f"{archive}.whl" if inside else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if inside:
            with zipfile.ZipFile(path, "a") as made:
                made.writestr(member, text)
        else:
            path.write_text(text)


def git(home: HomeAt, *words: str) -> None:
    identity = ("-c", "user.name=Owner", "-c", "user.email=owner@localhost", "-c", "core.hooksPath=/dev/null")
    done = subprocess.run(["git", *identity, *words], cwd=home.workspace, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def answered(home: HomeAt, task: Task) -> str:
    """Do the task at a terminal and answer what is asked; all that was shown."""
    replies: list[dict[str, Any]] = [{"tool_calls": list(calls)} for calls in task.rounds]
    env = home.script(*replies, {"text": DONE})
    sitting = home.sit("agent", "-m", task.says, env=env, size=(200, 300))
    for wanted in task.answers:
        assert sitting.wait_for_one(APPROVE, DONE) == APPROVE, f"{wanted!r} was not asked: {sitting.shown[-3000:]}"
        if wanted == ONCE:
            sitting.type("y\r")
            continue
        before = len(sitting.shown)
        sitting.type("a\r").wait_for("Number")
        offered = re.findall(r"^ +(\d+)  (.*), in this conversation\r?$", sitting.shown[before:], re.MULTILINE)
        chosen = [number for number, text in offered if text.startswith(wanted)]
        assert len(chosen) == 1, f"{wanted!r} is not what is offered: {offered}"
        sitting.type(f"{chosen[0]}\r")
    assert sitting.wait_for_one(APPROVE, DONE) == DONE, f"one question too many: {sitting.shown[-3000:]}"
    ran = sitting.end()
    assert ran.rc == 0, ran
    return ran.out


def content(folder: Path) -> str:
    """All text of a repository but what is installed there."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".md", ".txt", ".json", ".csv")]
    return "\n".join(path.read_text() for path in files if not {"lib", "index"} & set(path.parts))


@pytest.mark.parametrize("task", TASKS, ids=[task.name.replace(" ", "-") for task in TASKS])
def test_a_task_is_done_with_few_questions(home: HomeAt, task: Task) -> None:
    assert len(task.answers) <= MOST
    for number, files in enumerate(task.history):
        put(home, files)
        git(home, "add", "-A")
        git(home, "commit", "-qm", f"version {number}")
    put(home, task.files)
    repository = home.workspace / next(iter(task.files)).partition("/")[0]

    shown = answered(home, task)

    ended = Counter(receipt["status"] for receipt in home.logged())
    assert ended["failed"] == task.fails, (ended, home.messages())
    assert set(ended) <= {"allowed", "failed"}, shown[-3000:]
    asked = home.rows("SELECT count(*) FROM audit_log WHERE event_type = 'tool_approved'")
    assert asked == [(len(task.answers),)]
    judged = subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "-q", "-s", "tests", "-t", "."],
        cwd=repository,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stderr
    assert re.search(r"^Ran [1-9]", judged.stderr, re.MULTILINE), judged.stderr
    after = content(repository)
    for pattern in task.gone:
        assert not re.search(pattern, after, re.MULTILINE), pattern
    for pattern in task.there:
        assert re.search(pattern, after, re.MULTILINE), pattern
    home.intact()
