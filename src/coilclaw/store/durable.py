"""Durable files: after a power cut either complete or unchanged. And files that must be what they seem."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from coilclaw.packets.errors import StorageError


def write_durably(path: Path, data: bytes, *, replace: bool) -> bool:
    """Write a private file atomically and durably; False if an existing one must not be replaced.

    It is written under a temporary name with owner-only permissions, synced, renamed, and the folder is synced. Of
    several concurrent callers without `replace` one succeeds. No temporary file is left.
    """
    aside = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        if replace:
            aside.replace(path)
        else:
            os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def full_disk(path: Path) -> StorageError:
    """One sentence for a full disk, with what to do."""
    return StorageError(f"the disk holding {path} is full; nothing was changed.", remedy="Free space, then retry.")


def write_all(fd: int, data: bytes) -> None:
    """Write all of it: the system may write less at once, and does when the disk is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading. A pipe or a device in its place would keep whoever reads it for ever."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    raise OSError(errno.EINVAL, "not a regular file")


def read_plain(path: Path, most: int) -> bytes:
    """A regular file of at most so many bytes."""
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes")
        return file.read()
