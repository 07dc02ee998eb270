"""Moves and removes granted workspace files: a file that was replaced meanwhile is left alone."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.scan import open_folder

if TYPE_CHECKING:
    from coilclaw.sandbox.files import FileGrant

_NAMED = 10
_NOREPLACE = 1
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def state_of(info: os.stat_result) -> str:
    """A file's identity and version; a folder's identity only."""
    if stat.S_ISDIR(info.st_mode):
        return f"folder {info.st_dev} {info.st_ino}"
    return (
        f"{stat.S_IFMT(info.st_mode)} {info.st_dev} {info.st_ino} {info.st_size} {info.st_mtime_ns} {info.st_ctime_ns}"
    )


def is_folder_state(state: str) -> bool:
    """Whether that is a folder's state."""
    return state.startswith("folder ")


def remove_granted(root: int, grants: Sequence["FileGrant"]) -> None:
    """Remove these, contents of folders first. What changed since it was granted stays, and is named."""
    left: list[str] = []
    for grant in sorted(grants, key=lambda grant: grant.relative, reverse=True):
        folder, _, name = grant.relative.rpartition("/")
        try:
            here = open_folder(root, folder)
        except FileNotFoundError:
            continue
        except NotADirectoryError:  # a parent folder is a link by now
            left.append(grant.asked)
            continue
        try:
            if not _remove(here, name, grant.state):
                left.append(grant.asked)
            os.fsync(here)
        finally:
            os.close(here)
    if left:
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        raise ToolError(
            f"{', '.join(left[:_NAMED])}{more} changed meanwhile, or something was put there; it was not removed.",
            remedy="Look at it, and propose it again.",
            code="FILE_CHANGED",
        )


def _remove(here: int, name: str, state: str) -> bool:
    """Whether it is gone."""
    try:
        info = os.stat(name, dir_fd=here, follow_symlinks=False)
        if state_of(info) != state:
            return False
        if stat.S_ISDIR(info.st_mode):
            os.rmdir(name, dir_fd=here)
        else:
            os.unlink(name, dir_fd=here)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ELOOP):
            return False
        raise
    return True


def check_granted(root: int, top: "FileGrant", grants: Sequence["FileGrant"]) -> None:
    """Refuse unless the entry, and everything in it, is what was granted."""
    expected = {grant.relative: grant.state for grant in grants}
    folder, _, name = top.relative.rpartition("/")
    try:
        here = open_folder(root, folder)
        try:
            found = dict(_states(here, name, top.relative, len(expected)))
        finally:
            os.close(here)
    except OSError:
        found = {}
    if found != expected:
        raise ToolError(
            f"{top.asked}, or something in it, changed meanwhile; nothing was moved.",
            remedy="Look at it, and propose it again.",
            code="FILE_CHANGED",
            begun=False,
        )


def _states(here: int, name: str, path: str, most: int) -> Iterator[tuple[str, str]]:
    info = os.stat(name, dir_fd=here, follow_symlinks=False)
    yield path, state_of(info)
    if not stat.S_ISDIR(info.st_mode) or most < 0:
        return
    below = os.open(name, _FOLDER, dir_fd=here)
    try:
        with os.scandir(below) as entries:
            names = [entry.name for entry in entries]
        for each in names[: most + 1]:
            yield from _states(below, each, f"{path}/{each}", most)
    finally:
        os.close(below)


def rename(source: int, name: str, target: int, new: str, *, replaces: str) -> None:
    """Rename between open folders; over a file only if it may be replaced."""
    if replaces:
        if state_of(os.stat(new, dir_fd=target, follow_symlinks=False)) != replaces:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
    else:
        _rename_to_nothing(source, name, target, new)
    os.fsync(target)
    os.fsync(source)


def _rename_to_nothing(source: int, name: str, target: int, new: str) -> None:
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        if call(source, os.fsencode(name), target, os.fsencode(new), _NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
            raise OSError(code, os.strerror(code))
    try:  # not supported by this system or file system
        os.stat(new, dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def would_be_repository(root: str, relative: str, *, is_folder: bool) -> bool:
    """Whether the entry at a path makes git treat a folder as a repository."""
    from coilclaw.sandbox.survey import completes_repository

    return bool(completes_repository(Path(root), f"{relative}/_" if is_folder else relative))
