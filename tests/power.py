"""A power cut: of what was written since, only what was synced is certain. The strictest disk that keeps its word."""

import contextlib
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path


class Disk:
    """A folder, and what of it a power cut would leave."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modes: list[int] = []
        """The modes of files at the moment they were synced."""
        self._names: dict[int, dict[str, tuple[int, str]]] = {}
        self._contents: dict[int, tuple[int, bytes]] = {}
        self._open: list[int] = []
        self._lock = threading.Lock()
        for folder, _, files in os.walk(root):
            self._note_folder(os.open(folder, os.O_RDONLY))
            for name in files:
                with contextlib.suppress(OSError):  # a link
                    self._note_file(os.open(Path(folder) / name, os.O_RDONLY | os.O_NOFOLLOW))

    def _note_folder(self, fd: int) -> None:
        self._open.append(fd)  # held open, so that its number is not given to another
        here: dict[str, tuple[int, str]] = {}
        with os.scandir(fd) as entries:
            for each in entries:
                info = each.stat(follow_symlinks=False)
                link = os.readlink(each.name, dir_fd=fd) if each.is_symlink() else ""
                here[each.name] = ((info.st_ino if not link else 0), link)
                if each.is_dir(follow_symlinks=False):
                    self._names.setdefault(info.st_ino, {})
        self._names[os.fstat(fd).st_ino] = here

    def _note_file(self, fd: int) -> None:
        self._open.append(fd)
        info = os.fstat(fd)
        self._contents[info.st_ino] = (info.st_mode, Path(f"/proc/self/fd/{fd}").read_bytes())

    def synced(self, fd: int) -> None:
        """Something was made durable."""
        with self._lock:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                self._note_folder(os.dup(fd))
            else:
                self._note_file(os.dup(fd))
                self.modes.append(stat.S_IMODE(os.fstat(fd).st_mode))

    def cut(self) -> None:
        """Leave in the folder only what is certain: names of synced folders; a file that was not synced is empty."""
        inode = os.stat(self.root).st_ino
        for each in list(self.root.iterdir()):
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
        self._lay(self.root, inode)

    def _lay(self, folder: Path, inode: int) -> None:
        for name, (number, link) in self._names[inode].items():
            path = folder / name
            if link:
                path.symlink_to(link)
            elif number in self._names:
                path.mkdir()
                self._lay(path, number)
            else:
                mode, data = self._contents.get(number, (0o600, b""))
                path.write_bytes(data)
                path.chmod(stat.S_IMODE(mode))

    def close(self) -> None:
        for fd in self._open:
            os.close(fd)


@contextlib.contextmanager
def disk(root: Path) -> Iterator[Disk]:
    """Watch what is synced below a folder; what stands there already is durable."""
    made = Disk(root)
    real = os.fsync

    def watched(fd: int) -> None:
        real(fd)
        made.synced(fd if isinstance(fd, int) else fd.fileno())

    os.fsync = watched
    try:
        yield made
    finally:
        os.fsync = real
        made.close()


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
