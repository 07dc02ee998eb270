"""A task: a repository, the owner's words, the calls of a scripted model, and the questions that may be asked."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

WRITES = "writing ordinary files in any folder here"
TESTS = "python3 -m unittest with other arguments"
ONCE = ""
"""A plain yes, for what must be asked each time."""


class Task(NamedTuple):
    """One task."""

    name: str
    says: str
    """What the owner asks for."""
    files: Mapping[str, str]
    """The repository before, by path in the workspace."""
    rounds: Sequence[Sequence[dict[str, Any]]]
    """The calls of each answer of the model, in order."""
    answers: Sequence[str]
    """Each question that is asked, in order, by what the owner makes of the yes from now on."""
    fails: int = 0
    """How many calls are meant to fail, as tests do before they are mended."""
    gone: Sequence[str] = ()
    """Regular expressions that no file matches afterwards."""
    there: Sequence[str] = ()
    """Regular expressions that some file matches afterwards."""
    history: Sequence[Mapping[str, str]] = ()
    """What the repository held before, commit by commit."""


def call(tool: str, **args: Any) -> dict[str, Any]:
    """One call of the model."""
    return {"tool": tool, "args": args}


def edit(path: str, *pairs: tuple[str, str], every: bool = False) -> dict[str, Any]:
    """Several replacements in one file."""
    return call("file_edit", path=path, edits=[{"old": old, "new": new, "all": every} for old, new in pairs])


def shell(command: str) -> dict[str, Any]:
    """A command."""
    return call("shell", command=command)


def tests(folder: str) -> dict[str, Any]:
    """The repository's own tests."""
    return shell(f"python3 -m unittest discover -q -s {folder}/tests -t {folder}")


def plan(*steps: str, done: int) -> dict[str, Any]:
    """The plan, with so many steps done."""
    states = ["done"] * done + ["doing"] + ["todo"] * len(steps)
    return call("plan_update", steps=[{"title": step, "state": state} for step, state in zip(steps, states)])  # noqa: B905
