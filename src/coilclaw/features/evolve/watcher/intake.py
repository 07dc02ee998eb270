"""The agent's side of the record: it can write objects and refs/heads/agent, and none of it is trusted."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .git import Git, RecordError

REFS = 512
MORE = "…"
"""Stands for the branches beyond these."""
OBJECTS = 100_000
OBJECT_BYTES = 512 << 20
SHA = re.compile(rb"(?!0{40})[0-9a-f]{40}\n?")
LOOSE = re.compile(r"[0-9a-f]{38}")
PACK = re.compile(r"pack-[0-9a-f]{40}\.(?:pack|idx)")
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SWEPT = ("!", "-type", "d", "!", "-type", "f", "-exec", "rm", "-f", "--", "{}", "+")
ERASED = ("-exec", "rm", "-rf", "--one-file-system", "--", "{}", "+")
CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = true
\tmultiPackIndex = false
\tcommitGraph = false
[gc]
\tauto = 0
[receive]
\tautogc = false
"""


class AgentDoor:
    """`remote.git`, which the agent sees as /mnt/remote."""

    def __init__(self, directory: Path, git: Git) -> None:
        self.directory = directory
        self.git = git
        self.snapshot = git.state / "door.git"

    def make(self, uid: int, gid: int) -> None:
        """Make the agent's side: objects of its own over the record's, which it can only read."""
        _make(self.directory)
        agents = self.directory / "refs" / "heads" / "agent"
        agents.mkdir(parents=True)
        for place in (agents, self.directory / "objects", self.directory / "objects" / "pack"):
            os.chown(place, uid, gid)

    def sweep(self) -> None:
        """Take what stops git out of the agent's side: pipes and links, and what is closed to its owner."""
        places = ("objects", "refs/heads/agent")
        _run(self.directory, "chmod", "-R", "u+rwX", "--", *places)  # in one process, however many are closed
        _run(self.directory, "find", *places, *SWEPT)

    def keep(self, branches: set[str]) -> None:
        """Remove everything else below the agent's refs, following nothing."""
        place = "refs/heads/agent"
        with _opened(self.directory / place) as folder:
            with os.scandir(folder) as entries:
                odd = [entry.name for entry in entries if entry.name not in branches]
            for name in odd:
                with suppress(IsADirectoryError, PermissionError):
                    os.unlink(name, dir_fd=folder)
        if odd:
            _run(self.directory, "find", place, "-mindepth", "1", "-maxdepth", "1", "-type", "d", *ERASED)

    def empty(self, uid: int, gid: int) -> None:
        """Remove all of the agent's objects, following nothing; git finds them in the record."""
        _run(self.directory, "find", "objects", "-mindepth", "1", "-maxdepth", "1", "!", "-name", "info", *ERASED)
        objects = self.directory / "objects"
        with suppress(FileExistsError):
            (objects / "pack").mkdir(mode=0o755)
            os.chown(objects / "pack", uid, gid)

    def show_main(self, commit: str) -> None:
        """Let the agent see main; only the watcher can write there."""
        _write(self.directory / "refs" / "heads", "main", commit)

    def show(self, name: str, commit: str) -> None:
        """Let the agent see a branch made for it; what it put in the way is its own loss."""
        with suppress(OSError):
            _write(self.directory / "refs" / "heads" / "agent", name, commit)

    @contextmanager
    def reading(self) -> Iterator[Side]:
        """The agent's side, to be read and fetched from; what was fetched and not let through is thrown away."""
        side = Side(self.directory, self.snapshot, self.git)
        lock = os.open(self.git.state / "intake.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the desk may take in too
            yield side
        finally:
            side.clear()
            os.close(lock)


class Side:
    """One look at the agent's side: its refs, and a copy of its objects that it cannot change the shape of."""

    def __init__(self, directory: Path, snapshot: Path, git: Git) -> None:
        self._directory = directory
        self._snapshot = snapshot
        self._quarantine = git.state / "quarantine"
        self._git = git
        self._copied = False

    def branches(self, first: str = "") -> Iterator[tuple[str, str | RecordError]]:
        """Names below refs/heads/agent with what they hold; read by us, since one bad file would fail a whole fetch."""
        with _opened(self._directory / "refs" / "heads" / "agent") as folder:
            wanted = first.removeprefix("agent/")
            if wanted and "/" not in wanted:
                with suppress(FileNotFoundError):
                    yield wanted, _read_ref(folder, wanted)
            with os.scandir(folder) as entries:
                for count, entry in enumerate(entries):
                    if count >= REFS:
                        yield MORE, RecordError(f"more than {REFS} branches; delete those that are merged")
                        return
                    if entry.name != wanted and not entry.name.endswith(".lock"):
                        with suppress(FileNotFoundError):
                            yield entry.name, _read_ref(folder, entry.name)

    def fetch(self, commit: str, check: Callable[[dict[str, str]], None]) -> None:
        """Bring a commit and all it needs into the record if fsck and `check` let it pass; else nothing stays."""
        self.copy()
        _empty(self._quarantine)
        (self._quarantine / "pack").mkdir(parents=True, mode=0o700)
        quarantined = {
            "GIT_OBJECT_DIRECTORY": str(self._quarantine),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._git.directory / "objects"),
        }
        # A commit id instead of a ref name: the other side then lists no refs, so that none can be in the way.
        words = (
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
        )
        self._git.run(*words, "--end-of-options", str(self._snapshot), commit, also=quarantined)
        check(quarantined)
        packs = sorted((self._quarantine / "pack").iterdir(), key=lambda file: file.suffix == ".idx")
        for file in packs:  # the index last: without it a pack does not exist for git
            file.replace(self._git.directory / "objects" / "pack" / file.name)
        fsync_folder(self._git.directory / "objects" / "pack")

    def clear(self) -> None:
        """Throw away what was not let through."""
        _empty(self._quarantine, self._snapshot)

    def copy(self) -> None:
        """Link the agent's objects into a folder of ours: no link is followed, only names of objects are taken."""
        if self._copied:
            return
        _empty(self._snapshot)
        _make(self._snapshot)
        count = total = 0
        with _opened(self._directory / "objects") as objects:
            for name in [*(f"{number:02x}" for number in range(256)), "pack"]:
                to = self._snapshot / "objects" / name
                for file in _files(objects, name):
                    to.mkdir(exist_ok=True)
                    size = _link(objects, name, file, to / file)
                    count, total = count + 1, total + size
                    if count > OBJECTS or total > OBJECT_BYTES:
                        raise RecordError(
                            "the agent's objects are too many or too large; delete branches that were not taken in"
                        )
        self._copied = True


def _run(folder: Path, *words: str) -> None:
    """Run a program that follows no link that it comes upon; what it cannot do is left as it is."""
    subprocess.run(words, cwd=folder, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def open_folder(name: str | Path, inside: int | None = None) -> int:
    """Open a folder, following nothing; one that the agent closed to its owner, who we are, is opened up again."""
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    try:
        here, mode = f"/proc/self/fd/{place}", stat.S_IMODE(os.fstat(place).st_mode)
        if mode & 0o700 != 0o700:
            Path(here).chmod(mode | 0o700)
        return os.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(place)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = open_folder(folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _files(objects: int, name: str) -> Iterator[str]:
    try:
        folder = os.open(name, FOLDER, dir_fd=objects)
    except FileNotFoundError:
        return
    except OSError:
        raise RecordError(f"objects/{name} is not a folder") from None
    try:
        shape = PACK if name == "pack" else LOOSE
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries if shape.fullmatch(entry.name))
    finally:
        os.close(folder)


def _link(objects: int, name: str, file: str, to: Path) -> int:
    """A hard link, and then a look at what it is: in our folder it cannot be exchanged any more."""
    try:
        os.link(f"{name}/{file}", to, src_dir_fd=objects, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise RecordError(f"objects/{name}/{file} cannot be read: {error.strerror}") from None
    found = to.lstat()
    if not stat.S_ISREG(found.st_mode):
        to.unlink()
        raise RecordError(f"objects/{name}/{file} is not a regular file")
    return found.st_size


def _read_ref(folder: int, name: str) -> str | RecordError:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        return RecordError(f"the branch is not a regular file: {error.strerror}")
    try:
        held = os.read(descriptor, 64) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)
    return (
        held.decode().strip()
        if SHA.fullmatch(held)
        else RecordError("the branch does not hold a commit id; push it again")
    )


def _make(directory: Path) -> None:
    """A bare repository over the record's objects. The alternate is relative: right on both sides of the wall."""
    record = os.path.relpath(
        directory.parent / "bot.git" if directory.name == "remote.git" else directory.parent.parent / "bot.git",
        directory / "objects",
    )
    for folder in (directory, directory / "refs", directory / "refs" / "heads"):
        folder.mkdir(mode=0o755)
    for folder in (directory / "objects", directory / "objects" / "info", directory / "objects" / "pack"):
        folder.mkdir(mode=0o755)
    (directory / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
    (directory / "config").write_text(CONFIG, encoding="ascii")
    (directory / "objects" / "info" / "alternates").write_text(f"{record}/objects\n", encoding="utf-8")


def _write(folder: Path, name: str, commit: str) -> None:
    """Write a ref by rename, in a folder opened without following links."""
    with _opened(folder) as descriptor:
        beside = f".{name}.{os.getpid()}"
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=descriptor)
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=descriptor)
        try:
            os.write(file, f"{commit}\n".encode())
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(beside, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        os.fsync(descriptor)


def _empty(*folders: Path) -> None:
    """Remove folders of ours and all in them, following nothing."""
    for folder in folders:  # `rm` would be a process each time, shutil costs the watcher megabytes
        if not folder.is_dir():
            continue
        for _, names, files, here in os.fwalk(folder, topdown=False):
            for file in files:
                os.unlink(file, dir_fd=here)
            for name in names:
                os.rmdir(name, dir_fd=here)
        folder.rmdir()


def fsync_folder(folder: Path) -> None:
    """Make what was renamed in a folder durable."""
    with _opened(folder) as descriptor:
        os.fsync(descriptor)
