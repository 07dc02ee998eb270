"""Hard links out of the workspace: writing a file with another name elsewhere changes that one too.

Before a command may write, such a file becomes a private copy with the same content, mode and times.
"""

import os
import stat
from pathlib import Path

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.moving import folder_of
from coilclaw.sandbox.survey import Linked

MOST_FILES = 20_000
MOST_BYTES = 1 << 30
_CHUNK = 1 << 20


def unlink_from_outside(workspace: Path, linked: list[Linked]) -> int:
    """Replace each of these files by a private copy. Returns how many; too many are refused."""
    total = sum(each.size for each in linked)
    if len(linked) > MOST_FILES or total > MOST_BYTES:
        raise ToolError(
            f"{len(linked):,} files of the workspace ({total >> 20:,} MB) are hard links to files outside it,"
            " which a command could change through them.",
            remedy="Replace their folder by a copy (`cp -a`); `coilclaw doctor` names some.",
            code="HARD_LINKS",
            begun=False,
        )
    try:
        return sum(_copy_up(workspace, each.path) for each in linked)
    except OSError as error:
        raise ToolError(
            f"a file that is a hard link to one outside the workspace could not be copied ({error.strerror}).",
            remedy="`coilclaw doctor` names such files; replace them by copies.",
            code="HARD_LINKS",
            begun=False,
        ) from error


def _copy_up(workspace: Path, relative: str) -> bool:
    with folder_of(workspace, relative) as (parent, name):
        if not _could_write(parent, name):
            return False
        try:
            source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        except FileNotFoundError:
            return False
        try:
            info = os.fstat(source)
            if info.st_nlink < 2 or not stat.S_ISREG(info.st_mode):
                return False
            aside = f".{name[:80]}.{os.urandom(6).hex()}.new"
            target = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
            try:
                _fill(source, target, info)
                os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                os.unlink(aside, dir_fd=parent)
                raise
            finally:
                os.close(target)
        finally:
            os.close(source)
    return True


def _could_write(parent: int, name: str) -> bool:
    """Whether a command could write it: it runs as we do, and may change the mode of our files."""
    try:
        owner = os.stat(name, dir_fd=parent, follow_symlinks=False).st_uid
    except FileNotFoundError:
        return False
    return os.geteuid() in (0, owner) or os.access(name, os.W_OK, dir_fd=parent, follow_symlinks=True)


def _fill(source: int, target: int, info: os.stat_result) -> None:
    while data := os.read(source, _CHUNK):
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]
    if os.geteuid() == 0:
        os.fchown(target, info.st_uid, info.st_gid)
    os.fchmod(target, stat.S_IMODE(info.st_mode))
    for attribute in os.listxattr(source):
        if attribute.startswith("user."):
            os.setxattr(target, attribute, os.getxattr(source, attribute))
    os.fsync(target)
    os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))
