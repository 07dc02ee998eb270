"""The folders that calls work in, each made when it is first needed: the workspace, projects, the trees of jobs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.config.mcp import guests_dir
from coilclaw.gate.decision_input import BY_OWNER
from coilclaw.gate.paths import Places
from coilclaw.gate.root import Root
from coilclaw.packets.errors import UsageError
from coilclaw.store.job_trees import JobTree, load_tree
from coilclaw.store.projects import load_project, project_of

if TYPE_CHECKING:
    from coilclaw.gate.turn import Turn
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.sandbox.missing_programs import Missing


class Roots:
    """Every root of an open home."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._known: dict[str, Root] = {}

    def of_thread(self, thread_id: str) -> Root:
        """The folder that calls of a conversation work in: its project, or the workspace."""
        return self.of_project(project_of(self._app.db.reader, thread_id) if thread_id else "")

    def of_project(self, project_id: str) -> Root:
        """A project as calls work in it, whether its folder is still there or not; the workspace when it is empty."""
        known = self._known.get(project_id)
        if known is None:
            known = self._known[project_id] = _project_root(self._app, project_id)
        return known

    def of_turn(self, turn: "Turn") -> Root:
        """The folder that calls of a turn work in: the tree of its job, or as its conversation has it.

        What the owner or the runtime calls in the name of a job, such as its merge, is about the workspace.
        """
        tree = None if turn.job is None or turn.source == BY_OWNER else self.of_job(turn.job.job_id)
        return tree or self.of_thread(turn.thread_id)

    def of_job(self, job_id: str) -> Root | None:
        """The tree that a job works in; None when it has none of its own."""
        tree = load_tree(self._app.db.reader, job_id)
        if tree is None:
            return None
        known = self._known.get(job_id)
        if known is None or str(known.folder) != tree.folder:
            known = self._known[job_id] = _tree_root(self._app, tree)
        return known

    def forget(self) -> None:
        """Make roots anew when they are next needed: what is forbidden has changed."""
        self._known.clear()


def _project_root(app: "Runtime", project_id: str) -> Root:
    """A folder as calls work in it: the workspace, or the project of that id."""
    project = load_project(app.db.reader, project_id) if project_id else None
    if project_id and project is None:
        raise UsageError("the project of this conversation is not known.", remedy="Start a new conversation.")
    places = _places(app, project=project is not None)
    if project is not None:  # as it was added: a link that stands there now must not lead anywhere
        places = msgspec.structs.replace(places, workspace=project.path)
    kept = app.home.projects_dir / project_id if project_id else app.home.root
    return _root(app, places, kept, project_id=project_id)


def _tree_root(app: "Runtime", tree: JobTree) -> Root:
    """The folder of a job as its calls work in it: the names of the workspace govern there too."""
    places = msgspec.structs.replace(_places(app, project=False), workspace=tree.folder)
    return _root(app, places, app.home.trees_dir / tree.job_id, tree=tree.job_id)


def _places(app: "Runtime", *, project: bool) -> Places:
    own = (app.config.trees_dir, app.config.sessions_dir, guests_dir(app.config.workspace_dir))
    forbidden = tuple(str(path) for path in (*app.config.security.forbidden_paths, *own))
    lent = tuple(str(path) for path in app.config.security.toolchains)
    return Places.of(app.workspace, app.home.root, app.user_home, forbidden, project=project, toolchains=lent)


def _root(app: "Runtime", places: Places, kept: Path, *, project_id: str = "", tree: str = "") -> Root:
    return Root(
        places=places,
        kept=kept,
        db=lambda: app.db,
        clock=app.clock,
        warn=app.warn,
        workspace=str(app.workspace),
        project_id=project_id,
        tree=tree,
    )


def lacking_in(app: "Runtime", folder: str) -> "list[Missing]":
    """Programs that a folder uses and boxes do not see."""
    from coilclaw.gate.paths import sight_of
    from coilclaw.sandbox.missing_programs import lacking

    places = msgspec.structs.replace(_places(app, project=True), workspace=os.path.realpath(folder))
    return lacking(sight_of(places, os.environ))
