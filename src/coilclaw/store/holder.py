"""Who holds a lock: the process according to the kernel, its command, whether it is stopped, and what to do."""

import os
from pathlib import Path

import msgspec

from coilclaw.packets.text import one_line

LONGEST_COMMAND = 120
_WAL_WRITE_BYTE = 120
"""The byte of the -shm file that SQLite locks to write in WAL mode."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process that blocks others."""

    pid: int
    command: str
    stopped: bool

    def __str__(self) -> str:
        """Names the process, for the middle of a sentence."""
        said = f"process {self.pid} (`{self.command}`)" if self.command else f"process {self.pid}"
        return f"{said}, which is stopped" if self.stopped else said

    @property
    def remedy(self) -> str:
        """What the owner can do about it."""
        if self.stopped:
            return f"Resume it with `kill -CONT {self.pid}`, or stop it with `kill -9 {self.pid}`; then retry."
        return f"Wait until it has finished, or stop it with `kill {self.pid}`; then retry."


def database_holder(database: Path, lock: Path) -> Holder | None:
    """Who blocks writes to the database: the holder of SQLite's own lock, or else of the lock file."""
    held = _held()
    inside = _find(held, Path(f"{database}-shm"), byte=_WAL_WRITE_BYTE) or _find(held, database)
    return _holder(inside or _find(held, lock))


def file_holder(path: Path) -> Holder | None:
    """Who holds the lock on that file."""
    return _holder(_find(_held(), path))


class _Lock(msgspec.Struct, frozen=True):
    """A line of /proc/locks: an exclusive lock that is held."""

    pid: int
    device: str
    inode: int
    first: int
    last: int

    def covers(self, byte: int | None) -> bool:
        return byte is None or (self.first <= byte and (self.last == -1 or byte <= self.last))


def _held() -> list[_Lock]:
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    found: list[_Lock] = []
    for line in lines:
        words = line.split()  # 1: FLOCK ADVISORY WRITE 4242 08:01:1311 0 EOF; waiters have "->" after the number
        if len(words) != 8 or words[3] != "WRITE" or not words[4].isdigit():
            continue
        device, _, inode = words[5].rpartition(":")
        last = -1 if words[7] == "EOF" else int(words[7])
        found.append(_Lock(int(words[4]), device, int(inode), int(words[6]), last))
    return found


def _find(held: list[_Lock], path: Path, *, byte: int | None = None) -> int:
    """The process that holds the lock, 0 if unknown. Some file systems have two device numbers."""
    try:
        seen = path.stat()
    except OSError:
        return 0
    device = f"{os.major(seen.st_dev):02x}:{os.minor(seen.st_dev):02x}"
    found = [each for each in held if each.inode == seen.st_ino and each.covers(byte)]
    found.sort(key=lambda each: each.device != device)
    return found[0].pid if found else 0


def _holder(pid: int) -> Holder | None:
    if not pid:
        return None
    return Holder(pid=pid, command=_command(pid), stopped=_is_stopped(pid))


def _command(pid: int) -> str:
    """The process's command line, as a single line with every character visible."""
    for name in ("cmdline", "comm"):
        try:
            data = Path(f"/proc/{pid}/{name}").read_bytes()[:4096]
        except OSError:
            continue
        if words := data.replace(b"\0", b" ").decode("utf-8", "replace").strip():
            said = one_line(words).replace("`", "'")
            return said if len(said) <= LONGEST_COMMAND else f"{said[:LONGEST_COMMAND]}…"
    return ""


def _is_stopped(pid: int) -> bool:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2]
    except OSError:
        return False
    return after_name[:1] in ("T", "t")
