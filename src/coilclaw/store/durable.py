"""Durable files: there whole after a power cut, or as they were before."""

import os
from pathlib import Path

from coilclaw.packets.errors import StorageError


def write_durably(path: Path, data: bytes, *, replace: bool) -> bool:
    """Put a private file there whole and durable; False when something is there that must not be replaced.

    It is written aside, for the owner alone, synced, given its name, and the folder is synced. Of several who try at
    once without replacing, one succeeds. Nothing is left aside.
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
    """One sentence for a disk without room, with what to do."""
    return StorageError(f"the disk holding {path} is full; nothing was changed.", remedy="Free space, then retry.")


def write_all(fd: int, data: bytes) -> None:
    """Write all of it: the system may take less at once, and does when the disk is nearly full."""
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
