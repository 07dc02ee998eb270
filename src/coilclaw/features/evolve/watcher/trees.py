"""What a tree may hold, and how it is written to disk: files, folders and links that stay inside, all counted first."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .git import Git, RecordError

ENTRIES = 20_000
BYTES = 256 << 20
DEPTH = 24
PATH = 512
LINK = 512
CHUNK = 1 << 16
AHEAD = 48
MODES = {"100644": "file", "100755": "program", "120000": "link"}


@dataclass(frozen=True)
class TreeFile:
    """One file of a checked tree."""

    mode: str
    sha: str
    size: int
    path: str


def walk(git: Git, commit: str, also: dict[str, str] | None = None) -> Iterator[TreeFile]:
    """Every file of a commit's tree, each checked before it is given; the first that is not allowed ends it."""
    seen: list[tuple[str, dict[str, str]]] = [("", {})]
    count = total = 0
    for row in _rows(git, commit, also):
        facts, _, raw = row.partition(b"\t")
        mode, kind, sha, size = facts.decode("ascii").split()
        try:
            path = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise RecordError(f"a file name is not UTF-8: {raw!r}") from None
        _check_name(path)
        _check_twin(path, seen)
        count += 1
        if count > ENTRIES:
            raise RecordError(f"more than {ENTRIES} files")
        if kind == "tree":
            continue
        if mode not in MODES:
            raise RecordError(f"{path}: mode {mode} (a submodule, perhaps) is not allowed; commit the files themselves")
        total += int(size)
        if total > BYTES or (mode == "120000" and int(size) > LINK):
            raise RecordError(f"{path}: too large")
        yield TreeFile(mode, sha, int(size), path)


def check(git: Git, commit: str, also: dict[str, str] | None = None) -> None:
    """Refuse a commit whose tree holds anything but files, folders, and links that stay inside it."""
    links = [entry for entry in walk(git, commit, also) if entry.mode == "120000"]
    if len(links) > 1000:
        raise RecordError("more than 1000 links")
    for entry in links:
        _check_link(entry.path, git.run("cat-file", "blob", entry.sha, also=also))


def write(git: Git, commit: str, folder: Path, uid: int = -1, gid: int = -1) -> None:
    """Write a commit's tree into a folder that does not exist yet; nothing of it is run, filtered or followed."""
    check(git, commit)
    folder.mkdir(mode=0o755)
    process = subprocess.Popen(
        git.argv("cat-file", "--batch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=git.environment(), cwd="/"
    )
    if process.stdin is None or process.stdout is None:
        raise RecordError("git cat-file has no pipes")
    made = {""}
    with process, process.stdin as asked, process.stdout as answer:
        for entry in _asked_ahead(walk(git, commit), asked.write, asked.flush):
            for parent in _parents(entry.path):
                if parent not in made:
                    (folder / parent).mkdir(mode=0o755)
                    os.chown(folder / parent, uid, gid)
                    made.add(parent)
            if answer.readline() != f"{entry.sha} blob {entry.size}\n".encode():
                raise RecordError(f"{entry.path}: the object cannot be read")
            place = folder / entry.path
            _write_entry(entry, place, answer.read)
            answer.read(1)
            os.chown(place, uid, gid, follow_symlinks=False)
    os.chown(folder, uid, gid)


def _asked_ahead(
    entries: Iterator[TreeFile], write: Callable[[bytes], object], flush: Callable[[], object]
) -> Iterator[TreeFile]:
    """The entries, each after git was asked for those that follow too, so that it need not wait for us.

    The ids of so few fit into the smallest pipe: git can wait for us to read without reading them.
    """
    waiting: deque[TreeFile] = deque()
    for entry in entries:
        write(f"{entry.sha}\n".encode())
        waiting.append(entry)
        if len(waiting) == 2 * AHEAD:
            flush()
            while len(waiting) > AHEAD:
                yield waiting.popleft()
    flush()
    yield from waiting


def _parents(path: str) -> Iterator[str]:
    """The folders above a file, the outermost first."""
    return (path[:end] for end, letter in enumerate(path) if letter == "/")


def _write_entry(entry: TreeFile, place: Path, read: Callable[[int], bytes]) -> None:
    if entry.mode == "120000":
        place.symlink_to(read(entry.size).decode("utf-8"))
        return
    mode = 0o755 if entry.mode == "100755" else 0o644
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        left = entry.size
        while left:
            chunk = read(min(left, CHUNK))
            if not chunk:
                raise RecordError(f"{entry.path}: the object ends early")
            file.write(chunk)
            left -= len(chunk)
        os.fchmod(file.fileno(), mode)


def _rows(git: Git, commit: str, also: dict[str, str] | None) -> Iterator[bytes]:
    """The rows of `ls-tree`, read as they come: a tree can name itself so often that its listing never ends."""
    words = git.argv("ls-tree", "-r", "-t", "-z", "-l", "--full-tree", commit)
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=git.environment() | (also or {}), cwd="/"
    )
    if process.stdout is None:
        raise RecordError("git ls-tree has no pipe")
    try:
        left = b""
        while chunk := os.read(process.stdout.fileno(), CHUNK):
            *rows, left = (left + chunk).split(b"\0")
            if len(left) > CHUNK:
                raise RecordError("a file name is too long")
            yield from rows
        if process.wait() != 0:
            raise RecordError("the tree cannot be read; push it again")
    finally:
        process.stdout.close()
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()


def _check_name(path: str) -> None:
    parts = path.split("/")
    if len(path) > PATH or len(parts) > DEPTH:
        raise RecordError(f"{path[:80]!r}…: the path is too long or too deep")
    if not path.isprintable() or "\\" in path:
        raise RecordError(f"{path!r}: a name holds a control character or a backslash")
    if any(part in {"", ".", ".."} or part.casefold().rstrip(". ") == ".git" for part in parts):
        raise RecordError(f"{path}: this name is not allowed")


def _check_twin(path: str, seen: list[tuple[str, dict[str, str]]]) -> None:
    """Names of one folder that differ in case only would be one file on some of the owner's machines."""
    parent, _, name = path.rpartition("/")
    while seen[-1][0] != parent:
        if seen[-1][0] == "" or parent.startswith(seen[-1][0] + "/"):
            seen.append((parent, {}))
        else:
            seen.pop()
    if seen[-1][1].setdefault(name.casefold(), name) != name:
        raise RecordError(f"{path}: another name in this folder differs in case only")


def _check_link(path: str, raw: bytes) -> None:
    """Up first, then down, and never above the tree: then no chain of such links leaves it either."""
    parts = raw.decode("utf-8", "replace").split("/")
    ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    inside = ups <= path.count("/") and not any(part in {"", ".."} or part.casefold() == ".git" for part in parts[ups:])
    if not inside or not "".join(parts).isprintable():
        raise RecordError(f"{path}: a link must be relative and stay inside the repository")
