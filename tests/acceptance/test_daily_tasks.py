"""Ten tasks of a coding agent's daily life, through the real executable in `supervised`: done, and with few questions.

The model is scripted; what it does is judged by the repository's own tests, run here once it says that it is done.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
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
from tests.acceptance.daily.task import ONCE, Task, call, shell

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


def moved(task: Task) -> Task:
    """The task in a project: its repository is the folder itself, and the environment there runs the tests."""
    top = next(iter(task.files)).partition("/")[0]

    def there(call: dict[str, Any]) -> dict[str, Any]:
        args = dict(call["args"])
        for name in {"path", "target"} & set(args):
            args[name] = args[name].removeprefix(f"{top}/") if args[name] != top else "."
        if "command" in args:
            command = args["command"].replace(f"-s {top}/tests -t {top}", "-s tests -t .")
            args["command"] = command.replace("python3 ", ".venv/bin/python ")
        return {**call, "args": args}

    return task._replace(
        files={name.removeprefix(f"{top}/"): text for name, text in task.files.items()},
        rounds=[*([there(each) for each in calls] for calls in task.rounds), [call("git_commit", message=task.name)]],
        answers=[*(each.replace("python3", ".venv/bin/python") for each in task.answers), ONCE],
    )


def environment(project: Path) -> Path:
    """A virtual environment with a package that nothing else has; where its Python lies."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / ".venv"], check=True, capture_output=True)
    (packages,) = project.glob(".venv/lib/python*/site-packages")
    (packages / "only_here.py").write_text("THERE = True\n")
    return Path(os.path.realpath(project / ".venv/bin/python"))


IN_PROJECTS = [moved(each.TASK) for each in (rename, red_suite, cli_flag)]


@pytest.mark.parametrize("task", IN_PROJECTS, ids=[task.name.replace(" ", "-") for task in IN_PROJECTS])
def test_a_task_is_done_and_committed_in_a_project_with_its_own_environment(home: HomeAt, task: Task) -> None:
    """A folder of the owner's with a virtual environment, whose Python may lie outside the system."""
    assert len(task.answers) <= MOST
    project = home.base / "user" / "work"
    put(project, {**task.files, ".gitignore": ".venv\n__pycache__\n"})
    tests = project / "tests/__init__.py"
    tests.write_text(f"import only_here\n{tests.read_text()}")
    git(project, "init", "-q", "-b", "main")
    git(project, "config", "user.name", "Owner")
    git(project, "config", "user.email", "owner@localhost")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "as it was")
    python = environment(project)
    if not python.is_relative_to("/usr"):
        home.environ["COILCLAW_SECURITY_TOOLCHAINS"] = str(python.parent.parent)
    adding = home.sit("project", "add", str(project), "--vouch", size=(200, 300)).wait_for("Approve? [y")
    assert adding.type("y\r").end().rc == 0

    shown = answered(home, task, "--project", "work")

    ended = Counter(receipt["status"] for receipt in home.logged())
    assert ended["failed"] == task.fails, (ended, shown[-3000:])
    judged = subprocess.run(
        [".venv/bin/python", "-m", "unittest", "discover", "-q", "-s", "tests", "-t", "."],
        cwd=project, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert judged.returncode == 0, judged.stderr
    assert re.search(r"^Ran [1-9]", judged.stderr, re.MULTILINE), judged.stderr
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "log", "--format=%s").splitlines() == [task.name, "as it was"]
    after = content(project)
    for pattern in task.gone:
        assert not re.search(pattern, after, re.MULTILINE), pattern
    for pattern in task.there:
        assert re.search(pattern, after, re.MULTILINE), pattern
    home.intact()


def test_adding_a_project_offers_to_lend_what_its_environment_is_made_of(home: HomeAt) -> None:
    lent = Path(tempfile.mkdtemp(prefix=".coilclaw-python-", dir=Path.home()))  # boxes have a /tmp of their own
    try:
        (lent / "bin").mkdir()
        (lent / "bin/python3").write_text("#!/bin/sh\necho lent python\n")
        (lent / "bin/python3").chmod(0o755)
        project = home.base / "user" / "work"
        (project / ".venv/bin").mkdir(parents=True)
        (project / ".venv/pyvenv.cfg").write_text("home = there\n")
        (project / ".venv/bin/python").symlink_to(lent / "bin/python3")
        sitting = home.sit("project", "add", str(project), "--vouch", size=(200, 300))
        sitting.wait_for("Approve? [y").type("y\r").wait_for(f"{lent}/bin/python3, which boxes do not see")
        ran = sitting.wait_for("Approve? [y").type("y\r").end()
        assert ran.rc == 0, ran.out
        runs = shell(".venv/bin/python x")
        task = Task(name="", says="run it", files={}, rounds=[[runs]], answers=[ONCE])
        assert "lent python" in answered(home, task, "--project", "work")
    finally:
        shutil.rmtree(lent)
