# ruff: noqa: PTH101 - descriptors of folders, so that nobody can swap a folder on the way
"""Moving entries between the workspace and the home: below an open root, following no link, across file systems too."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
        if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{place}", stat.S_IMODE(mode) | 0o700)
    finally:
        os.close(place)


def move_out(root: Path, relative: str, target: Path) -> None:
    """Move an entry below the root to a path in the home."""
    with folder_of(root, relative) as (parent, name), _writable(parent):
        try:
            _let_in(parent, name)
            os.rename(name, target, src_dir_fd=parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _carry(f"/proc/self/fd/{parent}/{name}", target)
            _remove(parent, name)
        os.fsync(parent)
    sync_folder(target.parent)


def move_in(source: Path, root: Path, relative: str, *, replace: bool) -> None:
    """Move an entry of the home to a path below the root, which must be free unless it may be replaced."""
    with folder_of(root, relative, make=True) as (parent, name), _writable(parent):
        if replace:
            _remove(parent, name)
        elif _is_there(parent, name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), relative)
        try:
            os.rename(source, name, dst_dir_fd=parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _carry(str(source), Path(f"/proc/self/fd/{parent}/{name}"))
            shutil.rmtree(source) if source.is_dir() and not source.is_symlink() else source.unlink()
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


def _carry(source: str, target: Path) -> None:
    """Copy to another file system; what cannot be copied (a pipe, a device) is omitted."""
    path = Path(source)
    if path.is_symlink():
        target.symlink_to(path.readlink())
    elif path.is_dir():
        with suppress(shutil.Error):
            shutil.copytree(path, target, symlinks=True)
    elif path.is_file():
        shutil.copy2(path, target)


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
