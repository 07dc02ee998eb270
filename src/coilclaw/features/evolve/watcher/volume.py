"""The agent's volume, seen from outside: every name in it may be a link, a pipe or gone in a moment."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .intake import open_folder
from .record import REF, is_branch

LARGEST_SIGNAL = 256
ASIDE = 16
TAIL = 1 << 16
DEEPEST = 64


@dataclass(frozen=True)
class AgentSignal:
    """What the agent asked for: a branch to start, or a ref to go back to. `wrong` says why it cannot be obeyed."""

    kind: str
    target: str
    identity: str
    wrong: str = ""


class Volume:
    """The folder seen as /bot inside."""

    def __init__(self, folder: Path, aside: Path, uid: int, gid: int) -> None:
        self.folder = folder
        self._aside = aside
        self._owner = (uid, gid)

    def prepare(self) -> None:
        """Have the folders there that the agent and the watcher meet in; only while no agent runs."""
        self.folder.mkdir(mode=0o755, exist_ok=True)
        os.close(open_folder(self.folder))
        for name in (".signal", "logs", "agent"):
            self.real_folder(name)

    def real_folder(self, name: str) -> None:
        """Make sure a name in the volume is a folder and not a link to one; only while no agent runs."""
        place = self.folder / name
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            self.put_aside(name)
        if not place.exists():
            place.mkdir(mode=0o755)
            os.chown(place, *self._owner)
        os.close(open_folder(place))

    def _open(self, name: str) -> int:
        """A folder in the volume, opened name by name."""
        volume = open_folder(self.folder)
        try:
            return open_folder(name, volume)
        finally:
            os.close(volume)

    def code(self, branch: str) -> Path:
        """Where a branch's files are."""
        return self.folder / branch / "coilclaw"

    def has_runner(self, branch: str) -> bool:
        """Whether a branch's folder is there, with a runner, and no link on the way."""
        place = self.folder
        try:
            for part in (*branch.split("/"), "coilclaw", "infra"):
                place /= part
                if place.is_symlink() or not place.is_dir():
                    return False
            return (place / "runner.py").is_file() and not (place / "runner.py").is_symlink()
        except OSError:  # closed to us: the box could not run it either
            return False

    def replace_code(self, branch: str, staged: Path) -> None:
        """Put fresh files in the place of a branch's folder; only while no agent runs."""
        if "/" in branch:
            self.real_folder(branch.split("/", maxsplit=1)[0])
        self.remove_code(branch)
        parent = self.folder / branch
        parent.mkdir(mode=0o755)
        os.chown(parent, *self._owner)
        staged.rename(parent / "coilclaw")

    def remove_code(self, branch: str) -> None:
        """Remove a branch's folder, following nothing; only while no agent runs."""
        place = self.folder
        for part in branch.split("/")[:-1]:
            place /= part
            if place.is_symlink():
                return
        erase(self.folder / branch)
        if os.path.lexists(self.folder / branch):  # something in it is closed to us
            subprocess.run(["chmod", "-R", "u+rwX", "--", str(self.folder / branch)], check=False)
            erase(self.folder / branch)

    def put_aside(self, name: str, folder: int | None = None) -> None:
        """Move something odd out of the volume, or of an open folder in it, for the owner to look at."""
        self._aside.mkdir(mode=0o700, exist_ok=True)
        for old in sorted(self._aside.iterdir())[: -ASIDE + 1]:
            erase(old)
        descriptor = open_folder(self.folder) if folder is None else folder
        try:
            with suppress(FileNotFoundError):
                os.rename(name, self._aside / f"{time.time_ns()}-{name.lstrip('.')}", src_dir_fd=descriptor)
        finally:
            if folder is None:
                os.close(descriptor)

    # Signals

    def quiet(self, kinds: tuple[str, ...]) -> bool:
        """Whether there is plainly no signal; looked at every second, so with as few calls as possible."""
        folder = f"{self.folder}/.signal"
        try:
            mode = os.lstat(folder).st_mode
        except OSError:
            return False
        usable = stat.S_ISDIR(mode) and mode & 0o700 == 0o700
        return usable and not any(os.path.lexists(f"{folder}/{kind}") for kind in kinds)

    def signal(self, kind: str) -> AgentSignal | None:
        """The signal of a kind, read without following, waiting or trusting its size."""
        try:
            folder = self._open(".signal")
        except FileNotFoundError:
            return None
        except OSError:
            return AgentSignal(kind, "", "", ".signal is not a folder")
        try:
            return _read_signal(folder, kind)
        finally:
            os.close(folder)

    def drop_signal(self, signal: AgentSignal) -> None:
        """Delete a signal that was handled, unless another one has taken its place."""
        with suppress(OSError):
            folder = self._open(".signal")
            try:
                if _identity(os.lstat(signal.kind, dir_fd=folder)) == signal.identity:
                    os.unlink(signal.kind, dir_fd=folder)
                    os.fsync(folder)
            finally:
                os.close(folder)

    def refuse_signal(self, signal: AgentSignal) -> None:
        """Move a signal that cannot be obeyed aside; by an open folder, which cannot become a link meanwhile."""
        if not signal.identity:
            self.put_aside(".signal")
            return
        with suppress(OSError):
            folder = self._open(".signal")
            try:
                self.put_aside(signal.kind, folder)
            finally:
                os.close(folder)

    # Logs

    def open_log(self, name: str, largest: int) -> int | None:
        """A log to append to, made or rotated by name only; nothing when the agent put something odd in its place."""
        with suppress(OSError):
            folder = self._open("logs")
            try:
                return self._open_log(folder, name, largest)
            finally:
                os.close(folder)
        return None

    def _open_log(self, folder: int, name: str, largest: int) -> int:
        with suppress(FileNotFoundError):
            found = os.lstat(name, dir_fd=folder)
            usable = stat.S_ISREG(found.st_mode) and found.st_mode & 0o600 == 0o600
            if not usable or found.st_nlink > 1 or found.st_size > largest:
                os.rename(name, f"{name}.1", src_dir_fd=folder, dst_dir_fd=folder)
        how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, how, 0o644, dir_fd=folder)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(descriptor)
            raise OSError(f"{name} is not a log")
        if found.st_size == 0:
            os.fchown(descriptor, *self._owner)
        return descriptor

    def append(self, name: str, line: str, largest: int) -> None:
        """Add a line to a log the agent reads; a log that cannot be written is the agent's loss."""
        if (descriptor := self.open_log(name, largest)) is not None:
            with suppress(OSError):
                os.write(descriptor, line.encode("utf-8", "replace") + b"\n")
            os.close(descriptor)

    def log_end(self, name: str, largest: int) -> int:
        """How long a log is now, after it was rotated if need be."""
        if (descriptor := self.open_log(name, largest)) is None:
            return 0
        try:
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def log_since(self, name: str, start: int) -> str:
        """What was added to a log since it was `start` bytes long; of very much, the end."""
        with suppress(OSError):
            folder = self._open("logs")
            try:
                how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                descriptor = os.open(name, how, dir_fd=folder)
            finally:
                os.close(folder)
            try:
                found = os.fstat(descriptor)
                if stat.S_ISREG(found.st_mode):
                    start = 0 if found.st_size < start else start
                    return os.pread(descriptor, TAIL, max(start, found.st_size - TAIL)).decode("utf-8", "replace")
            finally:
                os.close(descriptor)
        return ""

    def succeeded(self, branch: str, start: int) -> bool:
        """Whether SUCCESS follows the newest BOOTSTRAPPING of a branch in bootstrap.log, from `start` on."""
        found = False
        for line in self.log_since("bootstrap.log", start).splitlines():
            words = line.split()
            if len(words) >= 3 and words[2] == branch and words[1] in {"BOOTSTRAPPING", "SUCCESS"}:
                found = words[1] == "SUCCESS"
        return found


class OutputLog:
    """errors.log: what the agent prints, rotated by size."""

    def __init__(self, volume: Volume, largest: int) -> None:
        self._volume = volume
        self._largest = largest
        self._descriptor: int | None = None
        self._size = 0

    def write(self, chunk: bytes) -> None:
        """Keep a piece of output; a log that cannot be written loses it."""
        if self._descriptor is None or self._size > self._largest:
            self.close()
            self._descriptor = self._volume.open_log("errors.log", self._largest)
            self._size = os.fstat(self._descriptor).st_size if self._descriptor is not None else 0
        if self._descriptor is not None:
            with suppress(OSError):
                self._size += os.write(self._descriptor, chunk)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def erase(place: Path) -> None:
    """Remove a file or folder with all in it, following nothing."""
    subprocess.run(["rm", "-rf", "--one-file-system", "--", str(place)], check=False, stdin=subprocess.DEVNULL)


def measure(folder: Path, most_bytes: int, most_files: int) -> tuple[int, int]:
    """Bytes and files below a folder, following no link; it stops counting when either is too much."""
    size = count = 0
    waiting: list[tuple[int, list[str]]] = []
    try:
        with suppress(OSError):
            waiting.append(_listed(open_folder(folder)))
        while waiting and size <= most_bytes and count <= most_files:
            descriptor, names = waiting[-1]
            if not names:
                os.close(waiting.pop()[0])
                continue
            name = names.pop()
            count += 1
            with suppress(OSError):
                found = os.lstat(name, dir_fd=descriptor)
                size += found.st_blocks * 512
                if stat.S_ISDIR(found.st_mode):
                    if len(waiting) > DEEPEST:  # too deep to look into is too much: nothing can be hidden there
                        return most_bytes + 1, count
                    waiting.append(_listed(open_folder(name, descriptor)))
    finally:
        for descriptor, _ in waiting:
            os.close(descriptor)
    return size, count


def _listed(descriptor: int) -> tuple[int, list[str]]:
    try:
        return descriptor, os.listdir(descriptor)
    except OSError:
        os.close(descriptor)
        raise


def _identity(found: os.stat_result) -> str:
    return f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def _read_signal(folder: int, kind: str) -> AgentSignal | None:
    try:
        named = os.lstat(kind, dir_fd=folder)
    except OSError:
        return None
    identity = _identity(named)
    if not stat.S_ISREG(named.st_mode):
        return AgentSignal(kind, "", identity, "it is not a regular file")
    try:
        descriptor = os.open(kind, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        return AgentSignal(kind, "", identity, f"it cannot be read: {error.strerror}")
    try:
        found = os.fstat(descriptor)
        held = os.read(descriptor, LARGEST_SIGNAL + 1) if stat.S_ISREG(found.st_mode) else b""
    finally:
        os.close(descriptor)
    return _judged(kind, _identity(found), held)


def _judged(kind: str, identity: str, held: bytes) -> AgentSignal:
    target = held.decode("ascii", "replace").removesuffix("\n")
    if len(held) > LARGEST_SIGNAL:
        return AgentSignal(kind, "", identity, f"it is longer than {LARGEST_SIGNAL} bytes")
    allowed = is_branch(target) if kind == "bootstrap" else REF.fullmatch(target) is not None
    return AgentSignal(kind, target, identity, "" if allowed else "it does not name a branch or ref")
