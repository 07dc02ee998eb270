"""What a move or a removal takes along: every file in a folder is decided on and named like one by itself."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from coilclaw.gate.paths import PathClass, PathFact, Places
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Touches
from coilclaw.sandbox.executed import GIT_PARTS, Kind, folded, is_git_shaped
from coilclaw.sandbox.relocate import state_of
from coilclaw.sandbox.survey import completes_repository

MOST_ENTRIES = 2000
"""Files and folders of one call."""


class TakenEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file, link or folder, by its path below what is taken; empty for that itself."""

    below: str
    size: int
    is_folder: bool
    is_link: bool
    state: str
    git_shaped: bool = False


class TakenAlong(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would move or remove."""

    entries: tuple[TakenEntry, ...]
    replaces: int | None = None
    """The size of the file whose place it would take."""

    @property
    def files(self) -> tuple[TakenEntry, ...]:
        return tuple(entry for entry in self.entries if not entry.is_folder)

    @property
    def empty_folders(self) -> int:
        """Folders with nothing in them, which no undo brings back."""
        filled = {entry.below.rpartition("/")[0] for entry in self.entries if entry.below}
        return sum(entry.is_folder and entry.below not in filled for entry in self.entries)


class Taking(msgspec.Struct, frozen=True, kw_only=True):
    """The paths of a call with all that it takes along, or why it can only fail."""

    paths: tuple[PathFact, ...]
    taken: TakenAlong | None = None
    fault: ToolError | None = None


def take_along(touches: Touches, paths: tuple[PathFact, ...], places: Places) -> Taking:
    """Look at what a call would move or remove; paths that the gate refuses anyway are not looked into."""
    asked = (touches.removes,) if touches.moves is None else touches.moves
    named = [path for path in paths if path.asked in asked]
    if any(path.fault or path.in_home or path.forbidden_by or path.relative is None for path in named):
        return Taking(paths=paths)
    source, target = named[0], named[-1] if touches.moves is not None else None
    try:
        replaces = _fitting(source, target, overwrites=touches.overwrites)
        closed = source.path_class == "never"  # the gate refuses that, and a repository can be large
        entries = tuple(_entries(source, closed=closed))
    except ToolError as error:
        return Taking(paths=paths, fault=error)
    found = [_fact(source, entry, places, state=entry.state) for entry in entries]
    if target is not None:
        there = _state_at(target.absolute) if replaces is not None else ""
        found += [_fact(target, entry, places, state="" if entry.below else there) for entry in entries]
        if entries[0].is_folder and completes_repository(Path(places.workspace), f"{target.relative}/_"):
            found.append(msgspec.structs.replace(target, path_class="never"))
    return Taking(paths=tuple(found), taken=TakenAlong(entries=entries, replaces=replaces))


def _refused(text: str, code: str = "FILE_ERROR", remedy: str = "") -> ToolError:
    return ToolError(text, remedy=remedy, code=code, begun=False)


def _state_at(path: str) -> str:
    try:
        return state_of(os.lstat(path))
    except OSError:
        return ""


def _fitting(source: PathFact, target: PathFact | None, *, overwrites: bool) -> int | None:
    """The size of what would be replaced, None for nothing; a ToolError when it cannot be done."""
    whole = next((path for path in (source, target) if path is not None and not path.relative), None)
    if whole is not None:
        raise _refused(f"{whole.asked} is the workspace itself.")
    try:
        info = os.lstat(source.absolute)
    except OSError as error:
        raise _refused(f"{source.asked} does not exist.") from error
    if target is None:
        return None
    if f"{target.relative}/".startswith(f"{source.relative}/"):
        raise _refused(f"{target.asked} is {source.asked} itself, or in it.")
    try:
        there = os.lstat(target.absolute)
    except OSError:
        return None
    if stat.S_ISDIR(there.st_mode) or stat.S_ISDIR(info.st_mode):
        raise _refused(f"{target.asked} already exists, and folders are not replaced.", "FILE_EXISTS")
    if not overwrites:
        raise _refused(f"{target.asked} already exists.", "FILE_EXISTS", "Set `overwrite` to replace it.")
    return there.st_size


def _entries(source: PathFact, *, closed: bool) -> Iterator[TakenEntry]:
    """The path itself and everything in it, folders before their contents."""
    info = os.lstat(source.absolute)
    is_folder = stat.S_ISDIR(info.st_mode)
    yield TakenEntry(
        below="",
        size=0 if is_folder else info.st_size,
        is_folder=is_folder,
        is_link=stat.S_ISLNK(info.st_mode),
        state=state_of(info),
    )
    count = 1
    folders = [""] if is_folder and not closed else []
    while folders:
        folder = folders.pop()
        for entry in _listed(source, folder):
            count += 1
            if count > MOST_ENTRIES:
                raise _refused(
                    f"{source.asked} has more than {MOST_ENTRIES} files and folders.",
                    "TOO_MANY_FILES",
                    "Take it in parts, or use `shell`.",
                )
            if entry.is_folder:
                folders.append(entry.below)
            yield entry


def _listed(source: PathFact, folder: str) -> list[TakenEntry]:
    try:
        with os.scandir(os.path.join(source.absolute, folder) if folder else source.absolute) as found:  # noqa: PTH118
            infos = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in found)
    except OSError as error:
        raise _refused(f"{source.asked} cannot be looked through ({error.strerror}).") from error
    shaped = is_git_shaped({(folded(name), _kind(info)) for name, info in infos if folded(name) in GIT_PARTS})
    return [
        TakenEntry(
            below=f"{folder}/{name}" if folder else name,
            size=0 if stat.S_ISDIR(info.st_mode) else info.st_size,
            is_folder=stat.S_ISDIR(info.st_mode),
            is_link=stat.S_ISLNK(info.st_mode),
            state=state_of(info),
            git_shaped=shaped,
        )
        for name, info in infos
    ]


def _kind(info: os.stat_result) -> Kind:
    if stat.S_ISDIR(info.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(info.st_mode) else "file"


def _fact(top: PathFact, entry: TakenEntry, places: Places, *, state: str) -> PathFact:
    """What a path would be that is asked for by its own name."""
    if not entry.below:
        runs = top.path_class not in ("never", "owner") and _runs(top.relative or "", entry, places)
        return msgspec.structs.replace(top, state=state, path_class="executed" if runs else top.path_class)
    relative, absolute = f"{top.relative}/{entry.below}", f"{top.absolute}/{entry.below}"
    path_class: PathClass = "never" if entry.git_shaped else places.classify(relative, link=entry.is_link)
    return msgspec.structs.replace(
        top,
        asked=f"{top.asked.rstrip('/')}/{entry.below}",
        absolute=absolute,
        relative=relative,
        path_class=top.path_class if top.path_class in ("never", "owner", "executed") else path_class,
        forbidden_by=next((each for each in places.forbidden if _under(absolute, each)), ""),
        fault=_fault(relative),
        state=state,
        within=True,
    )


def _runs(relative: str, entry: TakenEntry, places: Places) -> bool:
    """Whether other programs execute it there because it is a link."""
    return entry.is_link and places.classify(relative, link=True) == "executed"


def _under(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _fault(relative: str) -> str:
    """Why it cannot be taken along: what an undo could not name, or no system could."""
    try:
        size = len(relative.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8 text"
    return "the path is longer than 4096 bytes" if size > 4096 else ""
