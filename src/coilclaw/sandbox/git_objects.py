"""Objects of a repository without a process of git: loose ones are files, and what git said about ids stays true.

An object is named by the hash of its content, so whatever is read here is checked by its name. What is not there as a
file (it may be in a pack), or is damaged, is left to git.
"""

import hashlib
import os
import stat
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from coilclaw.sandbox.fast_import import ForgeRefused, Person, message_bytes, object_id

ANSWERS = 32
ANSWER_BYTES = 1 << 20
"""A longer answer is not remembered."""
LOOSE_BYTES = 64 << 20
HEAD_BYTES = 64


def object_name(kind: str, data: bytes, like: str) -> str:
    """The id that git gives an object, in a repository whose ids look like this one."""
    hashed = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return hashed(b"%s %d\0" % (kind.encode(), len(data)) + data, usedforsecurity=False).hexdigest()


def read_loose(objects: Path, kind: str, sha: str) -> bytes | None:
    """What an object holds; None where only git can tell. A clone may hold anything: links, pipes, endless zeros."""
    try:
        fd = os.open(objects / sha[:2] / sha[2:], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            info = os.fstat(fd)
            packed = file.read() if stat.S_ISREG(info.st_mode) and info.st_size <= LOOSE_BYTES else b""
        inflater = zlib.decompressobj()
        head, found, data = inflater.decompress(packed, HEAD_BYTES).partition(b"\0")
        size = head.removeprefix(f"{kind} ".encode())
        if not found or not size.isdigit():
            return None
        data += inflater.decompress(inflater.unconsumed_tail, int(size) + 1)  # no more than it says
    except (OSError, zlib.error, OverflowError):
        return None
    return data if object_name(kind, data, sha) == sha else None


def write_loose(objects: Path, kind: str, data: bytes, like: str) -> str:
    """Store an object as git does, if it is not there yet; its id."""
    sha = object_name(kind, data, like)
    folder = objects / sha[:2]
    folder.mkdir(exist_ok=True)
    aside = folder / f"tmp_obj_{os.urandom(8).hex()}"  # git removes such a file when a killed process left it
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o444)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, 1))
            file.flush()
            os.fsync(fd)
        aside.rename(folder / sha[2:])
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return sha


def commit_bytes(
    tree: str, parents: Sequence[str], message: str, author: Person, committer: Person, when: int
) -> bytes:
    """A commit as git stores it."""
    lines = [f"tree {object_id(tree)}", *(f"parent {object_id(parent)}" for parent in parents)]
    who = (("author", author), ("committer", committer))
    lines += [f"{role} {person.name} <{person.address}> {when} +0000" for role, person in who]
    text = message_bytes(message)
    if b"\0" in text:
        raise ForgeRefused("a commit message cannot hold a NUL character.", begun=False)
    return "\n".join((*lines, "\n")).encode() + text


class Answers:
    """The last answers of git that follow from ids of objects alone; any thread may ask."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, question: tuple[str, ...], ask: Callable[[], bytes]) -> bytes:
        """The answer that is remembered, or a new one."""
        found = self.get(question)
        if found is None:
            found = ask()
            self.keep(question, found)
        return found

    def get(self, question: tuple[str, ...]) -> bytes | None:
        """The answer that is remembered."""
        with self._lock:
            if question in self._kept:
                self._kept.move_to_end(question)
            return self._kept.get(question)

    def keep(self, question: tuple[str, ...], answer: bytes) -> None:
        """Remember an answer instead of the one that was not asked for longest."""
        if len(answer) > ANSWER_BYTES:
            return
        with self._lock:
            self._kept[question] = answer
            while len(self._kept) > ANSWERS:
                self._kept.popitem(last=False)
