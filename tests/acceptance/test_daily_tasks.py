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
from tests.acceptance.daily.task import ONCE, WRITES, Task, call, edit, shell

pytestmark = pytest.mark.slow

TASKS = [
    each.TASK
    for each in (rename, red_suite, cli_flag, bisect, upgrade, split, coverage, dead_code, lint, convert)
]  # fmt: skip
APPROVE, DONE = "Approve? [y", "That is done."
MOST = 3
"""Questions that a task may take."""


def put(folder: Path, files: Mapping[str, str]) -> None:
    """Lay out a repository; a folder that ends with .whl becomes an archive."""
    for name, text in files.items():
        archive, inside, member = name.partition(".whl/")
        path = folder / (f"{archive}.whl" if inside else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if inside:
            with zipfile.ZipFile(path, "a") as made:
                made.writestr(member, text)
        else:
            path.write_text(text)


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Owner", "-c", "user.email=owner@localhost", "-c", "core.hooksPath=/dev/null")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def answered(home: HomeAt, task: Task, *where: str) -> str:
    """Do the task at a terminal and answer what is asked; all that was shown."""
    replies: list[dict[str, Any]] = [{"tool_calls": list(calls)} for calls in task.rounds]
    env = home.script(*replies, {"text": DONE})
    sitting = home.sit("agent", *where, "-m", task.says, env=env, size=(200, 300))
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
        put(home.workspace, files)
        git(home.workspace, "add", "-A")
        git(home.workspace, "commit", "-qm", f"version {number}")
    put(home.workspace, task.files)
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


def test_a_bug_of_a_project_is_mended_with_its_own_environment_and_committed(home: HomeAt) -> None:
    """A folder of the owner's with a virtual environment, whose Python may lie outside the system."""
    project = home.base / "user" / "dates"
    files = {name.removeprefix("dates/"): text for name, text in red_suite.TASK.files.items()}
    put(project, {**files, ".gitignore": ".venv\n"})
    git(project, "init", "-q", "-b", "main")
    git(project, "config", "user.name", "Owner")
    git(project, "config", "user.email", "owner@localhost")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "as it was")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / ".venv"], check=True, capture_output=True)
    python = Path(os.path.realpath(project / ".venv/bin/python"))
    if not python.is_relative_to("/usr"):
        home.environ["COILCLAW_SECURITY_TOOLCHAINS"] = str(python.parent.parent)
    adding = home.sit("project", "add", str(project), "--vouch", size=(200, 300)).wait_for("Approve? [y")
    assert adding.type("y\r").end().rc == 0
    tests = shell(".venv/bin/python -m unittest discover -q -s tests -t .")
    task = red_suite.TASK._replace(
        rounds=[
            [tests],
            [edit("dates/spans.py", ("range((last - first).days)", "range((last - first).days + 1)"))],
            [tests],
            [call("git_commit", message="Include the last day")],
        ],
        answers=[".venv/bin/python -m unittest with other arguments", WRITES, ONCE],
    )

    shown = answered(home, task, "--project", "dates")

    assert Counter(receipt["status"] for receipt in home.logged())["failed"] == 1, shown[-3000:]
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "log", "--format=%s").splitlines() == ["Include the last day", "as it was"]
    assert "days + 1" in git(project, "show", "HEAD:dates/spans.py")
    home.intact()
