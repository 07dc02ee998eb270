"""Which folders can be projects, under which name, and how one is given up."""

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import ToolCall
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock
from coilclaw.sandbox.layout import SYSTEM_PLACES
from coilclaw.store.projects import Project, drop_project, open_projects
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_OWN_FOLDER = "Choose a folder that holds one project and nothing else."


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that can be a project."""

    path: str
    inode: int


def check_folder(app: "Runtime", given: str) -> Folder:
    """The folder, or a UsageError that says why it cannot be a project and what to do."""
    if not given or "\0" in given:
        raise UsageError("this is not a path.", remedy="Name a folder.")
    path = os.path.abspath(os.path.expanduser(given))  # noqa: PTH100, PTH111 - text in, text out
    try:
        info = os.lstat(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be opened ({error.strerror}).", remedy="Name a folder that exists.") from error
    real = os.path.realpath(path)
    if stat.S_ISLNK(info.st_mode):
        raise UsageError(f"{path} is a symbolic link.", remedy=f"Add the folder itself: {real}")
    if not stat.S_ISDIR(info.st_mode):
        raise UsageError(f"{path} is not a folder.", remedy="Name the folder it lies in.")
    try:
        real.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError("the path is not UTF-8 text.", remedy="Rename the folder.") from error
    _check_place(app, real)
    for project in open_projects(app.db.reader):
        if _overlap(real, project.path):
            how = "is" if real == project.path else "contains" if _under(project.path, real) else "is inside"
            raise UsageError(
                f"{real} {how} the project {project.name} ({project.path}).",
                remedy=f"Use that one, or remove it first: coilclaw project remove {project.name}",
            )
    return Folder(path=real, inode=info.st_ino)


def _check_place(app: "Runtime", real: str) -> None:
    user_home = os.path.realpath(app.user_home)
    if real == "/" or _under(user_home, real):
        what = "the whole machine" if real == "/" else "your home directory, or contains it"
        raise UsageError(f"{real} is {what}: nothing would be out of the agent's reach.", remedy=_OWN_FOLDER)
    ours = {
        "CoilClaw's home": os.path.realpath(app.home.root),
        "the workspace": os.path.realpath(app.workspace),
        "the folder of coding sessions": os.path.realpath(app.config.sessions_dir),
    }
    for name, place in ours.items():
        if _overlap(real, place):
            how = "is" if real == place else "contains" if _under(place, real) else "is inside"
            raise UsageError(f"{real} {how} {name} ({place}).", remedy="Choose a folder beside it.")
    for each in map(str, app.config.security.toolchains):
        if _overlap(real, each):
            raise UsageError(
                f"{real} and {each}, which is lent to boxes, lie in one another: they would run what the agent writes.",
                remedy="Choose another folder, or take that one out of security.toolchains.",
            )
    system = next((place for place in SYSTEM_PLACES if _overlap(real, place)), None)
    if system is not None:
        raise UsageError(f"{real} is part of the system ({system}).", remedy=_OWN_FOLDER)
    for each in app.config.security.forbidden_paths:
        for place in {os.path.normpath(each), os.path.realpath(each)}:
            if _under(real, place):
                raise UsageError(
                    f"{real} is under {place}, which is forbidden.",
                    remedy="Choose another folder, or change security.forbidden_paths.",
                )
    if Path(real, ".git").is_symlink():
        raise UsageError(
            f"{real}/.git is a symbolic link, which no box can hold.",
            remedy="Put the repository itself there.",
        )


def check_name(app: "Runtime", name: str, path: str) -> str:
    """The name a project gets: as asked for, or that of its folder."""
    wanted = name or os.path.basename(path)  # noqa: PTH119 - text in, text out
    if not re.fullmatch(NAME, wanted) or wanted.startswith("prj_"):
        raise UsageError(
            f"{wanted!r} cannot be the name of a project.",
            remedy="Give it one (--name) of letters, digits, dots, dashes and underscores that begins with no sign.",
        )
    if any(project.name == wanted for project in open_projects(app.db.reader)):
        raise UsageError(f"there is a project {wanted} already.", remedy="Choose another name with --name.")
    return wanted


def add_call(app: "Runtime", path: str, name: str, *, vouch: bool) -> ToolCall:
    """The call that makes a project of a folder as it is now; a UsageError says why it cannot be one."""
    folder = check_folder(app, path)
    called = check_name(app, name, folder.path)
    return ToolCall.of("project_add", {"name": called, "path": folder.path, "inode": folder.inode, "vouch": vouch})


def vouch_call(project: Project) -> ToolCall:
    """The call that lets the files of a project count as the owner's."""
    return ToolCall.of("project_vouch", {"project_id": project.project_id, "name": project.name, "path": project.path})


def remove_project(tx: Tx, clock: Clock, project: Project) -> None:
    """Nothing works in its folder any more, and nothing in it is changed. It only takes away, so nobody is asked."""
    if drop_project(tx, clock, project.project_id):
        add_event(tx, clock, "project_removed", project.project_id, {"name": project.name})


def _under(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _overlap(one: str, other: str) -> bool:
    return _under(one, other) or _under(other, one)
