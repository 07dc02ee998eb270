"""Walks the workspace: every name in it, each folder opened without following links.

Nothing there is trusted: a folder may be swapped for a link at any moment, names may be any bytes.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.guard import is_stand_in

LEFT_OUT = frozenset({".git", "node_modules", ".venv", "__pycache__"})
"""What a snapshot excludes: repositories' own data, and what can be downloaded again."""
MISSED = frozenset({"node_modules", ".venv"})
"""Those whose change is worth a word: repositories are closed to commands, and Python fills its caches by itself."""
MOST_FILES = 500_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Found(NamedTuple):
    """One name in the workspace."""

    path: str
    info: os.stat_result
    is_folder: bool
    """An ordinary folder. An excluded or unreadable one is not: it represents everything in it."""
    folder: int
    """Its open parent folder, until the next step; -1 if that cannot be opened."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def scan(workspace: Path, most: int = MOST_FILES) -> Iterator[Found]:
    """Every name, folder by folder; a ToolError if there are too many."""
    top = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield from _scan(top, workspace, most)
    finally:
        os.close(top)


def _scan(top: int, workspace: Path, most: int) -> Iterator[Found]:
    folders = [""]
    count = 0
    while folders:
        folder = folders.pop()
        try:
            here = open_folder(top, folder)
        except OSError:
            with suppress(OSError):  # it is gone
                info = os.lstat(workspace / folder)
                if not is_stand_in(info.st_mode):  # empty placeholders left by a killed box
                    yield Found(folder, info, is_folder=False, folder=-1)
            continue
        try:
            with os.scandir(here) as entries:
                names = sorted(entries, key=lambda entry: entry.name)
            for entry in names:
                path = f"{folder}/{entry.name}" if folder else entry.name
                try:
                    is_folder = entry.name not in LEFT_OUT and entry.is_dir(follow_symlinks=False)
                    info = entry.stat(follow_symlinks=False)
                except OSError:  # it is gone, or the folder can be listed but not entered
                    continue
                if is_folder:
                    folders.append(path)
                count += 1
                if count > most:
                    text = f"the workspace has more than {most:,} files and folders."
                    raise ToolError(text, code="NOT_KEPT", begun=False)
                yield Found(path, info, is_folder, here)
        finally:
            os.close(here)


def open_folder(top: int, path: str) -> int:
    """A folder below an open one, without following links."""
    here = os.dup(top)
    for part in path.split("/") if path else ():
        try:
            below = os.open(part, _FOLDER, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def changed_since(workspace: Path, path: str, info: os.stat_result, since: int, is_late: Callable[[], bool]) -> bool:
    """Whether it, or anything in it, changed since then; true if there is too much to check."""
    if info.st_ctime_ns >= since:
        return stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)
    folders = [workspace / path] if stat.S_ISDIR(info.st_mode) else []
    count = 0
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue  # if it had become inaccessible since, its own time would show it
        for entry in entries:
            count += 1
            if count > MOST_FILES or is_late():
                return True
            with suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_ctime_ns >= since:
                    return True
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
    return False


def is_text(path: str) -> bool:
    """Whether the name can be in a manifest; it must be UTF-8."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def nearest_text(path: str) -> str:
    """The path, or its nearest parent whose name is text; empty for the workspace itself."""
    while not is_text(path):
        path = path.rpartition("/")[0]
    return path


def why_not_kept(path: str, info: os.stat_result, most: int) -> str | None:
    """Why a name is not in a snapshot; empty if it is, None if there is nothing to lose.

    Intentional exclusions, pipes, sockets and devices contain nothing that could be restored.
    """
    if path.rpartition("/")[2] in LEFT_OUT:
        return None
    if not (stat.S_ISLNK(info.st_mode) or stat.S_ISREG(info.st_mode)):
        return None if not stat.S_ISDIR(info.st_mode) else "it cannot be opened"
    if info.st_size > most:
        return f"it is larger than {most >> 20} MB"
    return "" if is_text(path) else "its name is not UTF-8"
