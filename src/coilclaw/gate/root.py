"""A root: one folder that calls work in, and everything that is kept about it.

Path classes, boxes, labels, snapshots and the quarantine hold for one root each: the workspace, a project, or the tree
of a job. Which root a call has is looked up when the call is inspected, never taken from its arguments. What lies in
another root is forbidden, so that nothing gets from one into the other.
"""

import os
import stat
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.gate.paths import UPLOADS, Places
from coilclaw.packets.action import Label, untrusted
from coilclaw.packets.ids import Clock
from coilclaw.store.database import Database
from coilclaw.store.job_trees import JobTree, load_tree
from coilclaw.store.projects import Project, load_project, open_projects

if TYPE_CHECKING:
    from coilclaw.gate.labels import FileLabels
    from coilclaw.gate.undoing import Undoing
    from coilclaw.sandbox.quarantine import Quarantine
    from coilclaw.sandbox.snapshot import Snapshots

GIT_RESTS = timedelta(minutes=10)
PROJECT: Label = untrusted("project")
"""The label of every file of a project that the owner has not vouched for."""


class Root:
    """One folder, with what is kept about it in the home; each part is made when it is first needed."""

    def __init__(
        self,
        *,
        places: Places,
        kept: Path,
        db: Callable[[], Database],
        clock: Clock,
        warn: Callable[[str], None],
        workspace: str,
        project_id: str,
        tree: str = "",
    ) -> None:
        self._places = places
        self.folder = Path(places.workspace)
        self.kept = kept
        """The folder of the home that holds its snapshots and its quarantine."""
        self._quarantine = kept / "quarantine"
        self.project_id = project_id
        """Empty for the workspace and for trees."""
        self.tree = tree
        """The job that owns this folder, a copy of the workspace that governs nothing; empty for other roots."""
        self.user_home = Path(places.user_home)
        self._workspace = workspace
        self._db = db
        self._clock = clock
        self._warn = warn
        self._others: tuple[str, ...] = ()
        self._git_rests_until: datetime | None = None

    @property
    def has_uploads(self) -> bool:
        """Whether this is the workspace, and uploads lie in a folder of it that a box can leave out."""
        try:
            return not self.key and stat.S_ISDIR(os.lstat(self.folder / UPLOADS).st_mode)
        except OSError:
            return False

    @property
    def places(self) -> Places:
        """What every path is held against; the other roots there are now are forbidden."""
        others = tuple(each.path for each in open_projects(self._db().reader) if each.project_id != self.project_id)
        if self.key:
            others = (self._workspace, *others)
        if others != self._others:
            forbidden = tuple(each for each in self._places.forbidden if each not in self._others)
            self._places = msgspec.structs.replace(self._places, forbidden=(*others, *forbidden))
            self._others = others
        return self._places

    @property
    def key(self) -> str:
        """What its rows are kept under; empty for the workspace."""
        return self.project_id or self.tree

    @property
    def project(self) -> Project | None:
        """The project as it is now; None for the workspace."""
        return load_project(self._db().reader, self.project_id) if self.project_id else None

    def fault(self) -> str:
        """Why nothing can work here now, or empty. There is no other folder to fall back to."""
        if self.tree:
            return tree_fault(load_tree(self._db().reader, self.tree))
        if not self.project_id:
            return ""
        project = self.project
        if project is None or project.removed_at is not None:
            return "its project was removed." if project is None else f"the project {project.name} was removed."
        for name, place in (("CoilClaw's home", self._places.home), ("the workspace", self._workspace)):
            if f"{project.path}/".startswith(f"{place}/") or f"{place}/".startswith(f"{project.path}/"):
                return f"the project {project.name} and {name} lie in one another."
        return folder_fault(project)

    def rest_git(self) -> None:
        """git took too long here, and everything waits for it: it is left alone for a while."""
        self._git_rests_until = self._clock() + GIT_RESTS

    def git_rests(self) -> bool:
        """Whether git is left alone here for now."""
        return self._git_rests_until is not None and self._clock() < self._git_rests_until

    def _everything(self) -> tuple[Label, ...]:
        """What every file here carries: nothing once the owner vouched for the folder."""
        project = self.project
        return () if project is not None and project.vouched else (PROJECT,)

    @cached_property
    def labels(self) -> "FileLabels":
        """Which of its files hold untrusted content."""
        from coilclaw.gate.labels import FileLabels

        everything = self._everything if self.project_id else None
        return FileLabels(self._db(), self.folder, self._clock, root=self.key, everything=everything)

    @cached_property
    def snapshots(self) -> "Snapshots":
        """The folder as it was, for undo."""
        from coilclaw.sandbox.snapshot import Snapshots

        return Snapshots(self.folder, self.kept / "snapshots", self._clock, self._warn)

    @cached_property
    def undoing(self) -> "Undoing":
        """Keeps what calls write, so that it can be undone."""
        from coilclaw.gate.undoing import Undoing

        return Undoing(lambda: self.snapshots, lambda: self.labels, self._warn, lambda: self.places)

    @cached_property
    def quarantine(self) -> "Quarantine":
        """What runs made that may not stay in the folder."""
        from coilclaw.sandbox.quarantine import Quarantine

        return Quarantine(self.folder, self._quarantine, self._clock)

    def left_nothing(self, action_id: str) -> bool:
        """Whether the quarantine would find nothing of a call: no run of it or of a dead process, nothing found before.

        Most calls only read. The quarantine itself is made for those that do not.
        """
        try:
            with os.scandir(self._quarantine / "runs") as entries:
                left = {entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json")}
        except FileNotFoundError:
            left = set[str]()
        except OSError:
            return False  # the quarantine says what is wrong
        under_way = self.quarantine.under_way if "quarantine" in self.__dict__ else frozenset[str]()
        return action_id not in under_way and left <= under_way and not os.path.lexists(self._quarantine / action_id)


def tree_fault(tree: JobTree | None) -> str:
    """Why a job cannot work in its tree, or empty."""
    if tree is None or tree.removed_at is not None:
        return "the folder this job worked in was removed."
    try:
        info = os.lstat(tree.folder)
    except OSError:
        return f"the folder this job works in, {tree.folder}, is not there."
    if not stat.S_ISDIR(info.st_mode) or info.st_ino != tree.inode:
        return f"the folder this job works in, {tree.folder}, was replaced by another one."
    return ""


def folder_fault(project: Project) -> str:
    """Why a project's folder is not the one that was added; empty if it is."""
    told = f"the folder of project {project.name}, {project.path},"
    try:
        info = os.lstat(project.path)
        real = os.path.realpath(project.path)
    except OSError:
        return f"{told} is not there."
    if stat.S_ISLNK(info.st_mode) or real != project.path:
        return f"{told} is a link now."
    if not stat.S_ISDIR(info.st_mode) or info.st_ino != project.inode:
        return f"{told} was replaced by another one."
    return ""
