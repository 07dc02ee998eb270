# ruff: noqa: PTH101 - descriptors of folders, so that nobody can swap a folder on the way
"""Moving entries between the workspace and the home: below an open root, following no link, across file systems too."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.files import open_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def folder_of(root: Path, relative: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The open folder of a path below the root, and the last name; with `make`, missing folders are created."""
    folder, _, name = relative.rpartition("/")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if make:
            here = _made(here, folder)
        elif folder:
            below = open_beneath(here, folder, os.O_RDONLY | os.O_DIRECTORY)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


def _made(here: int, folder: str) -> int:
    for part in folder.split("/") if folder else ():
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=here)
        below = os.open(part, _FOLDER, dir_fd=here)
        os.close(here)
        here = below
    return here


def open_up(root: Path, relative: str) -> None:
    """Make an owner's folder accessible if its mode locks them out."""
    with folder_of(root, relative) as (parent, name):
        _let_in(parent, name)


def _let_in(parent: int, name: str) -> None:
    place = os.open(name, _PLACE, dir_fd=parent)
    try:
        mode = os.fstat(place).st_mode
        needed = 0o700 if stat.S_ISDIR(mode) else 0o400 if stat.S_ISREG(mode) else 0
        if mode & needed != needed:
            os.chmod(f"/proc/self/fd/{place}", stat.S_IMODE(mode) | needed)
    finally:
        os.close(place)


def _let_into_all(parent: int, name: str) -> None:
    """The same for everything in a folder: a copy reads it."""
    for _, folders, files, here in os.fwalk(name, dir_fd=parent):
        for each in (*folders, *files):
            _let_in(here, each)


def move_out(root: Path, relative: str, target: Path) -> None:
    """Move an entry below the root to a path in the home."""
    with folder_of(root, relative) as (parent, name), _writable(parent):
        try:
            _let_in(parent, name)
            os.rename(name, target, src_dir_fd=parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _let_into_all(parent, name)
            _carry(f"/proc/self/fd/{parent}/{name}", target, f"{relative} could not be moved into CoilClaw's home")
            _remove(parent, name)
        os.fsync(parent)
    sync_folder(target.parent)


def move_in(source: Path, root: Path, relative: str, *, replace: bool) -> None:
    """Move an entry of the home to a path below the root, which must be free unless it may be replaced."""
    with folder_of(root, relative, make=True) as (parent, name), _writable(parent):
        is_folder = source.is_dir() and not source.is_symlink()
        if replace and is_folder:  # a folder cannot take the place of a file in one step
            _remove(parent, name)
        elif not replace and _is_there(parent, name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), relative)
        try:
            os.rename(source, name, dst_dir_fd=parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _carry(str(source), Path(f"/proc/self/fd/{parent}/{name}"), f"{relative} could not be put in place")
            shutil.rmtree(source) if is_folder else source.unlink()
        os.fsync(parent)


@contextmanager
def _writable(folder: int) -> Iterator[None]:
    """Make an owner's read-only folder writable for the moment."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & 0o300 != 0o300:
        os.fchmod(folder, mode | 0o300)
    try:
        yield
    finally:
        if mode & 0o300 != 0o300:
            os.fchmod(folder, mode)


def _is_there(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _carry(source: str, target: Path, failing: str) -> None:
    """Copy to another file system, all of it or nothing; what cannot be copied (a pipe, a device) is omitted."""
    path = Path(source)
    part = target.with_name(f".{target.name[:80]}.part")
    try:
        _discard(part)  # of an earlier attempt
        if path.is_symlink():
            part.symlink_to(path.readlink())
        elif path.is_dir():
            shutil.copytree(path, part, symlinks=True, ignore=_special, copy_function=_copy)
        elif path.is_file():
            _copy(source, str(part))
        else:
            return
        part.rename(target)
    except OSError as error:
        with suppress(OSError):
            _discard(part)
        raise ToolError(
            f"{failing}: {_reason(error)}.", remedy="Free space there, then try again.", code="FILE_ERROR"
        ) from error


def _copy(source: str, target: str) -> None:
    """A file's content, mode and times, on the disk before its original is removed."""
    shutil.copy2(source, target)
    fd = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _special(folder: str, names: list[str]) -> list[str]:
    def is_special(name: str) -> bool:
        mode = os.lstat(os.path.join(folder, name)).st_mode  # noqa: PTH118 - text in, text out
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))

    return [name for name in names if is_special(name)]


def _reason(error: OSError) -> str:
    if isinstance(error, shutil.Error):  # a list of what failed in a folder: source, target, what the system said
        _, _, said = error.args[0][0]
        return str(said).partition("] ")[2].partition(": ")[0] or "not everything in it can be copied"
    return error.strerror or type(error).__name__


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove(parent: int, name: str) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)


def sync_folder(path: Path) -> None:
    """Sync a folder, so that a rename survives a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
