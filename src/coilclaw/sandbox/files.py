"""The workspace files granted to a call: opened beneath the root without following links, written atomically.

A path is resolved once, before the decision; what is opened here is that resolved path, component by component. A link
put in its place in between is refused by the kernel.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

import msgspec

from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import FileEntry
from coilclaw.sandbox.guard import clear_stand_in

_OPENAT2 = 437  # the same number on every architecture
_RESOLVE = 0x08 | 0x04 | 0x02  # BENEATH, NO_SYMLINKS, NO_MAGICLINKS
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileGrant(msgspec.Struct, frozen=True, kw_only=True):
    """One path a call may use: as requested, and as resolved when it was decided."""

    asked: str
    root: str
    relative: str
    """Relative to the root, without links and dots; empty means the root itself."""
    writable: bool
    alone: bool = False
    """Written only while no command runs: replacing a protected file would unprotect it inside a running box."""
    state: str = ""
    """The file's identity, if it may be moved or removed; empty if there was none."""


class NewFile(msgspec.Struct, frozen=True):
    """What a granted path shall hold."""

    path: str
    data: bytes
    program: bool | None = None
    """Whether it can be run; None leaves that as it is."""


def _explain(error: OSError, asked: str) -> ToolError:
    """One sentence for a system error."""
    known = {
        errno.ENOENT: f"{asked} does not exist.",
        errno.EEXIST: f"{asked} already exists.",
        errno.ELOOP: f"{asked} was replaced by a link after it was checked; it is not followed.",
        errno.EXDEV: f"{asked} leads out of the workspace; it is not followed.",
        errno.ENOTDIR: f"a part of {asked} is not a directory.",
        errno.EISDIR: f"{asked} is a directory.",
        errno.EACCES: f"this user may not open {asked}.",
        errno.ENOSPC: f"the disk is full; {asked} was left as it was.",
        errno.EROFS: f"{asked} is on a read-only file system.",
        errno.ENAMETOOLONG: f"the name {asked[:60]}… is too long.",
    }
    text = known.get(error.errno or 0, f"{asked} cannot be used ({error.strerror}).")
    name = asked.rstrip("/").rpartition("/")[2]
    remedy = f"Find it with `file_search` and the glob **/{name}." if error.errno == errno.ENOENT and name else ""
    return ToolError(text, remedy=remedy, code="FILE_ERROR", begun=False)


def open_beneath(root: int, relative: str, flags: int) -> int:
    """Open a path below a folder, with openat2 if available, otherwise by walking, which refuses links too."""
    if "\0" in relative:  # the kernel would read no further, and open something else
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    if "/" not in relative and relative not in ("", ".", ".."):
        return _walk(root, relative, flags)  # enough for a single name
    openat2 = _openat2()
    for _ in range(16):  # EAGAIN: a concurrent rename; inconclusive
        fd, code = openat2(root, os.fsencode(relative), flags | os.O_CLOEXEC)
        if fd >= 0:
            return fd
        if code in (errno.ENOSYS, errno.EPERM):  # EPERM: a container's filter that does not know the call
            return _walk(root, relative, flags)
        if code != errno.EAGAIN:
            raise OSError(code, os.strerror(code))
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@cache
def _openat2() -> Callable[[int, bytes, int], tuple[int, int]]:
    """The system call, looked up once: its result and errno."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)

    def call(root: int, relative: bytes, flags: int) -> tuple[int, int]:
        how = (ctypes.c_uint64 * 3)(flags, 0, _RESOLVE)  # struct open_how: flags, mode, resolve
        fd = libc.syscall(_OPENAT2, root, relative, ctypes.byref(how), ctypes.sizeof(how))
        return int(fd), ctypes.get_errno()

    return call


def _walk(root: int, relative: str, flags: int) -> int:
    """Open one component after the other, following no link."""
    *parents, name = relative.split("/")
    here = os.dup(root)
    try:
        for part in parents:
            below = os.open(part, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    finally:
        os.close(here)


class WorkspaceFiles:
    """The Files port for one call: only its granted paths."""

    def __init__(self, grants: tuple[FileGrant, ...], tag: str = "") -> None:
        self._grants = {(grant.asked, grant.writable): grant for grant in grants}
        self._tag = tag
        """Names the temporary file: a call repeated after a crash reuses the one it left."""

    def _grant(self, path: str, *, writable: bool) -> FileGrant:
        grant = self._grants.get((path, writable))
        if grant is None:
            verb = "write" if writable else "read"
            raise ToolError(f"the call was not granted to {verb} {path}.", code="NOT_GRANTED", begun=False)
        return grant

    def _open(self, grant: FileGrant, flags: int) -> int:
        root = os.open(grant.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not grant.relative:
            return root
        try:
            return open_beneath(root, grant.relative, flags)
        finally:
            os.close(root)

    def list(self, path: str, *, limit: int) -> list[FileEntry]:
        """Names under a granted directory, sorted."""
        try:
            fd = self._open(self._grant(path, writable=False), os.O_RDONLY | os.O_DIRECTORY)
            try:
                with os.scandir(fd) as entries:
                    found = [_entry(entry) for entry in entries]
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                raise ToolError(f"{path} is not a directory.", code="FILE_ERROR", begun=False) from error
            raise _explain(error, path) from error
        return sorted(found, key=lambda entry: entry.name)[:limit]

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """The bytes of a granted regular file no larger than `max_bytes`."""
        with self.open(path) as file:
            try:
                size = os.fstat(file.fileno()).st_size
                # Never more than there is: a buffer of the limit's size leaves each small file a memory map of its own.
                data = file.read(min(size, max_bytes) + 1)
                if len(data) > size:  # it grew since, or never says how long it is
                    data += file.read(max_bytes + 1 - len(data))
            except OSError as error:
                raise _explain(error, path) from error
        if len(data) > max_bytes:
            raise ToolError(
                f"{path} is {size} bytes, more than the {max_bytes} that may be used at once.",
                remedy="Read a part of it with `file_read` (offset and limit) or use `file_search`.",
                code="FILE_TOO_LARGE",
                begun=False,
            )
        return data

    def open(self, path: str) -> BinaryIO:
        """A granted regular file, open for reading."""
        try:
            fd = self._open(self._grant(path, writable=False), os.O_RDONLY | os.O_NONBLOCK)
            mode = os.fstat(fd).st_mode
        except OSError as error:
            raise _explain(error, path) from error
        if not stat.S_ISREG(mode):
            os.close(fd)
            if stat.S_ISDIR(mode):
                raise ToolError(f"{path} is a directory.", remedy="Use `file_list`.", code="IS_DIRECTORY", begun=False)
            raise ToolError(f"{path} is not a regular file.", code="FILE_ERROR", begun=False)
        return os.fdopen(fd, "rb")

    def place(self, path: str) -> str:
        """A path granted for reading, relative to its root, without links and dots."""
        return self._grant(path, writable=False).relative

    def write(self, path: str, data: bytes) -> None:
        """Replace or create a granted file: written to a temporary file, synced, renamed."""
        self.write_all((NewFile(path, data),))

    def write_all(self, files: Sequence[NewFile], ready: Callable[[str], bool] | None = None) -> None:
        """Replace or create granted files: all are written aside and synced, then each takes its place, if it is ready.

        Waiting for the disk once instead of for each file is most of what this saves; each is complete or as it was.
        """
        path = ""
        grants = [self._grant(each.path, writable=True) for each in files]
        try:
            with self._locked_root(grants) as root, ExitStack() as opened:
                written: list[tuple[FileGrant, int, str, str, int]] = []
                for each, grant in zip(files, grants, strict=True):
                    path = each.path
                    parent = self._parent(grant, root)
                    opened.callback(os.close, parent)
                    name = grant.relative.rpartition("/")[2]
                    made = _aside(parent, name, each.data, _mode_of(parent, name), self._tag, program=each.program)
                    written.append((grant, parent, name, *opened.enter_context(made)))
                for *_, fd in written:
                    os.fsync(fd)
                placed: list[tuple[FileGrant, int, str]] = []
                for grant, parent, name, aside, _ in written:
                    path = grant.asked
                    if ready is None or ready(path):
                        os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
                        placed.append((grant, parent, name))
                    else:
                        os.unlink(aside, dir_fd=parent)
                for parent in {os.fstat(parent).st_ino: parent for _, parent, _ in placed}.values():
                    os.fsync(parent)
                for each in placed:
                    _refuse_repository(*each)
        except IsADirectoryError as error:
            raise ToolError(f"{path} is a directory.", code="FILE_ERROR", begun=False) from error
        except OSError as error:
            raise _explain(error, path) from error

    def _parent(self, grant: FileGrant, root: int) -> int:
        """The folder that a granted file shall be in, made where it is missing."""
        if not grant.relative:
            raise ToolError(f"{grant.asked} is the workspace itself, not a file.", code="FILE_ERROR", begun=False)
        if grant.alone:
            clear_stand_in(root, tuple(grant.relative.split("/")))
        return self._make_parents(grant, grant.relative.rpartition("/")[0])

    def remove(self, path: str) -> None:
        """Remove a granted file, or a folder with the files granted in it; files changed or added meanwhile stay."""
        from coilclaw.sandbox.relocate import remove_granted

        taken = self._within(self._grant(path, writable=True))
        try:
            with self._locked_root(taken) as root:
                remove_granted(root, taken)
        except OSError as error:
            raise _explain(error, path) from error

    def move(self, path: str, target: str) -> None:
        """Rename a granted file or folder atomically; refused if anything in it changed meanwhile."""
        from coilclaw.sandbox.relocate import check_granted, is_folder_state, rename, would_be_repository
        from coilclaw.sandbox.scan import open_folder

        top, to = self._grant(path, writable=True), self._grant(target, writable=True)
        taken = self._within(top)
        try:
            with self._locked_root((*taken, to)) as root, ExitStack() as opened:
                check_granted(root, top, taken)
                (folder, _, name), (parent, _, new) = top.relative.rpartition("/"), to.relative.rpartition("/")
                source = open_folder(root, folder)
                opened.callback(os.close, source)
                place = self._make_parents(to, parent)
                opened.callback(os.close, place)
                rename(source, name, place, new, replaces=to.state)
                if would_be_repository(to.root, to.relative, is_folder=is_folder_state(top.state)):
                    rename(place, new, source, name, replaces="")
                    raise _repository_made(to)
        except OSError as error:
            raise _explain(error, target if error.errno in (errno.EEXIST, errno.ENOTEMPTY) else path) from error

    def _within(self, top: FileGrant) -> tuple[FileGrant, ...]:
        """The grants of an entry: itself, and what is in it."""
        below = f"{top.relative}/"
        written = (grant for grant in self._grants.values() if grant.writable)
        return tuple(each for each in written if each.relative == top.relative or each.relative.startswith(below))

    @contextmanager
    def _locked_root(self, grants: Sequence[FileGrant]) -> Iterator[int]:
        """The root, with the exclusive lock if one of these requires it."""
        root = os.open(grants[0].root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if any(grant.alone for grant in grants):
                lock_alone(root)
            yield root
        finally:
            os.close(root)

    def _make_parents(self, grant: FileGrant, folder: str) -> int:
        here = os.open(grant.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in folder.split("/") if folder else ():
            try:
                try:
                    below = os.open(part, _DIRECTORY, dir_fd=here)
                except FileNotFoundError:
                    os.mkdir(part, dir_fd=here)
                    os.fsync(here)
                    below = os.open(part, _DIRECTORY, dir_fd=here)
            finally:
                os.close(here)
            here = below
        return here


def _refuse_repository(grant: FileGrant, parent: int, name: str) -> None:
    """Two concurrent writes may complete a repository, though neither would alone."""
    from coilclaw.sandbox.survey import completes_repository

    if grant.root != "/" and completes_repository(Path(grant.root), grant.relative):
        os.unlink(name, dir_fd=parent)
        raise _repository_made(grant)


def _repository_made(grant: FileGrant) -> ToolError:
    return ToolError(
        f"with {grant.asked} git would treat the folder as a repository, so it was not written.",
        remedy="Use another name.",
        code="REPOSITORY_MADE",
    )


def lock_alone(root: int) -> None:
    """Boxes hold a shared lock while they run; exclusive writes are refused until the next attempt."""
    try:
        fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ToolError(
            "a command is running in the workspace.",
            remedy="Try again when it has ended; one in the background can be ended with command_stop.",
            code="WORKSPACE_BUSY",
            begun=False,
        ) from error


def _entry(entry: "os.DirEntry[str]") -> FileEntry:
    if entry.is_symlink():
        kind = "link"
    elif entry.is_dir(follow_symlinks=False):
        kind = "dir"
    else:
        kind = "file" if entry.is_file(follow_symlinks=False) else "other"
    size = entry.stat(follow_symlinks=False).st_size if kind == "file" else 0
    return FileEntry(name=os.fsencode(entry.name).decode("utf-8", "replace"), kind=kind, size=size)


def _mode_of(parent: int, name: str) -> int | None:
    """The permissions of the regular file that is replaced; None if there is none."""
    try:
        present = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(present.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return stat.S_IMODE(present.st_mode) if stat.S_ISREG(present.st_mode) else None


def put_durably(parent: int, name: str, data: bytes | Iterable[bytes], mode: int | None, tag: str = "") -> None:
    """Write a file into an open folder through a temporary file: complete and durable, or absent.

    With a mode it has exactly these permissions, whatever the umask; without one the umask decides. Setuid and
    setgid are not carried over to new content, as in the system itself.
    """
    with _aside(parent, name, data, mode, tag) as (aside, fd):
        os.fsync(fd)
        os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
    os.fsync(parent)


@contextmanager
def _aside(
    parent: int, name: str, data: bytes | Iterable[bytes], mode: int | None, tag: str, *, program: bool | None = None
) -> Iterator[tuple[str, int]]:
    """A temporary file with these bytes beside the name that it is for; it goes if anything fails."""
    stem = name if len(name) <= 80 else f"{name[:71]}-{sha256_hex(os.fsencode(name))[:8]}"  # one for each long name
    aside = f".{stem}.{tag or os.urandom(6).hex()}.new"
    with suppress(FileNotFoundError):
        os.unlink(aside, dir_fd=parent)
    wanted = 0o644 if mode is None else mode & 0o777
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, wanted, dir_fd=parent)
    try:
        with os.fdopen(fd, "wb") as file:
            for piece in (data,) if isinstance(data, bytes) else data:
                file.write(piece)
            file.flush()
            now = stat.S_IMODE(os.fstat(fd).st_mode)
            wanted = now if mode is None else wanted
            if program is not None:  # whoever may read it may run it, or nobody
                wanted = wanted | wanted >> 2 & 0o111 if program else wanted & ~0o111
            if now != wanted:
                os.fchmod(fd, wanted)
            yield aside, fd
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=parent)
        raise


def read_existing(root: Path, relative: str, max_bytes: int) -> bytes | None:
    """A file's current content, for a diff; None if there is none or it is not a small regular file."""
    grant = FileGrant(asked=relative, root=str(root), relative=relative, writable=False)
    try:
        return WorkspaceFiles((grant,)).read(relative, max_bytes=max_bytes)
    except ToolError:
        return None
