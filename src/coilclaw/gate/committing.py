"""Committing: what a call would put into a project's history, gathered before the decision."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from coilclaw.gate.paths import PathFact, look_at
from coilclaw.gate.root import Root
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.commit import SLOW, CommitPlan, make_commit, plan_commit

if TYPE_CHECKING:
    from coilclaw.gate.facts import Inspected

PLAN_SECONDS = 10.0
"""The caller waits while a commit is inspected, and a repository can make git hang: a pipe as .gitignore does."""


class LookedAt(msgspec.Struct, frozen=True, kw_only=True):
    """A commit as it would be, or why there can be none."""

    plan: CommitPlan | None = None
    paths: tuple[PathFact, ...] = ()
    """Every file that would be in it."""
    fault: ToolError | None = None


def look_at_commit(root: Root, named: tuple[PathFact, ...], ahead: LookedAt | None = None) -> LookedAt:
    """What the call would commit in its root, which must be a project; `ahead` is what git just said about it."""
    if (refused := _refused(root, named)) is not None:
        return refused
    looked = ahead if ahead is not None else _planned(root, named)
    if looked.plan is None:
        if looked.fault is not None and looked.fault.code == SLOW:
            root.rest_git()
        return looked
    places = root.places
    paths = tuple(look_at(path, places, write=False, follow=False) for path in looked.plan.paths)
    return msgspec.structs.replace(looked, paths=paths)


def plan_aside(root: Root, named: tuple[PathFact, ...]) -> Awaitable[LookedAt] | None:
    """The slow part, git's, in a thread; None when git is not needed."""
    return None if _refused(root, named) is not None else asyncio.to_thread(_planned, root, named)


def _refused(root: Root, named: tuple[PathFact, ...]) -> LookedAt | None:
    """Why git is not called."""
    if not root.project_id:
        text = "this conversation works in the workspace, whose repository only the runtime writes."
        remedy = "git_commit works in a project: `coilclaw agent --project NAME`."
        return LookedAt(fault=ToolError(text, remedy=remedy, code="NO_PROJECT", begun=False))
    if any(path.fault or path.in_home or path.forbidden_by for path in named):
        return LookedAt()  # the gate says why
    outside = next((path.asked for path in named if path.relative is None), None)
    if outside is not None:
        return LookedAt(fault=ToolError(f"{outside} is outside the project.", code="NOT_GRANTED", begun=False))
    if root.git_rests():
        text = "git took too long in this repository a moment ago."
        return LookedAt(fault=ToolError(text, remedy="Commit it yourself.", code=SLOW, begun=False))
    return None


def _planned(root: Root, named: tuple[PathFact, ...]) -> LookedAt:
    """What git says; it reads the folder alone, so it may run in any thread."""
    wanted = [path.relative or "." for path in named]
    try:
        vouched = root.project is not None and root.project.vouched
        plan = plan_commit(
            root.folder, root.kept, root.user_home, wanted, seconds=PLAN_SECONDS, vouched=vouched
        )  # fmt: skip
        return LookedAt(plan=plan)
    except ToolError as error:
        return LookedAt(fault=error)
    except OSError as error:
        return LookedAt(fault=ToolError(f"the repository cannot be read ({error.strerror}).", begun=False))


def committer(inspected: "Inspected") -> Callable[[str], Awaitable[str]]:
    """Commits exactly what was inspected."""
    plan, root = inspected.commit, inspected.root

    async def commit(message: str) -> str:
        if plan is None:
            raise ToolError("no commit was granted to this call.", code="NOT_GRANTED", begun=False)
        try:
            return await asyncio.to_thread(make_commit, root.folder, root.kept, plan, message)
        except ToolError as error:
            if error.code != ToolError.code:
                raise
            # git's own words may quote the repository
            raise ToolError("git could not make the commit.", remedy="Look at it with `git status`.") from error

    return commit
