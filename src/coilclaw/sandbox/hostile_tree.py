"""Folders that a boxed program filled: measured and removed whatever their depth, names and permissions."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from coilclaw.packets.errors import TryLater

_TRIES, _PAUSE_SECONDS = 20, 0.1
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: Path) -> None:
    """Remove a folder whose box has ended; nothing happens if there is none."""
    for left in reversed(range(_TRIES)):
        try:
            return _remove(folder)
        except OSError as error:
            # A box that was killed with its process may write a moment longer.
            if not left or error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise
            time.sleep(_PAUSE_SECONDS)
    return None


def _remove(folder: Path) -> None:
    """Folders are moved to the top before they are emptied, so depth needs neither recursion nor long paths."""
    if not os.path.lexists(folder):
        return
    parent = os.open(folder.parent, _FOLDER)
    try:
        top = _opened(parent, folder.name)
    finally:
        os.close(parent)
    try:
        names = (f".{number}.{os.urandom(4).hex()}" for number in count())
        waiting = _emptied(top, top, names)
        while waiting:
            name = waiting.pop()
            inner = _opened(top, name)
            try:
                waiting += _emptied(inner, top, names)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    folder.rmdir()


def _opened(parent: int, name: str) -> int:
    """A folder, made readable and writable first."""
    with suppress(PermissionError):
        os.chmod(name, 0o700, dir_fd=parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _emptied(folder: int, top: int, names: Iterator[str]) -> list[str]:
    """Unlink the files of a folder and move its folders to the top; their names there."""
    moved: list[str] = []
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
        elif folder == top:
            moved.append(name)
        else:
            with suppress(PermissionError):  # a folder that is moved is written to
                os.chmod(name, 0o700, dir_fd=folder)
            moved.append(next(names))
            os.rename(name, moved[-1], src_dir_fd=folder, dst_dir_fd=top)
    return moved


def disk_bytes(folder: Path, seconds: float = 120.0) -> int:
    """What a folder occupies on its disk, files with several names counted once; 0 if there is none."""
    import subprocess

    try:
        told = subprocess.run(
            ["du", "--summarize", "--one-file-system", "--block-size=1", "--", str(folder)],
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        ).stdout.split(b"\t")[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TryLater(f"{folder} could not be measured.", remedy="Try again when the disk is less busy.") from error
    return int(told) if told.isdigit() else 0
