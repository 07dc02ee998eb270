"""A commit as the stream that git's fast-import reads.

git accepts any name there (`.git/config`, `..`) and any mode, so both are checked here first.
"""

import os
import re
from collections.abc import Sequence

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.executed import is_dot_git

FILE, PROGRAM = "100644", "100755"
BESIDE = ".git"
"""Ends the name of the folder beside one that is being filled: what a killed process leaves is found with it."""
NAME_BYTES = 255
PATH_BYTES = 4096
_NEW = "refs/coilclaw/new"
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Person(msgspec.Struct, frozen=True):
    """Who a commit is by."""

    name: str
    address: str


OWNER = Person("Owner", "owner@localhost")
BOT = Person("CoilClaw", "coilclaw@localhost")


class Written(msgspec.Struct, frozen=True):
    """What a path shall hold in a new commit; None as data removes it."""

    path: str
    data: bytes | None
    mode: str = FILE


class ForgeRefused(ToolError):
    """The repository cannot be worked with as it is."""

    code = "FORGE_REFUSED"


def object_id(text: str) -> str:
    """An object's id, so that nothing else can be taken for an option or a reference."""
    if not _SHA.fullmatch(text):
        raise ForgeRefused(f"{text[:80]!r} is not the id of an object.", begun=False)
    return text


def name_fault(path: str) -> str:
    """Why a path cannot be in a commit of ours; empty when it can."""
    parts = path.split("/")
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8 text"
    if not path or size > PATH_BYTES or any(len(part.encode()) > NAME_BYTES for part in parts):
        return "its name is empty or too long"
    if any(part in ("", ".", "..") for part in parts):
        return "its name has an empty part, `.` or `..`"
    if any(is_dot_git(part) for part in parts):
        return "git would take it for its own folder"
    if "\\" in path or ":" in path or any(ord(char) < 32 or ord(char) == 127 for char in path):
        return "its name has a control character, a backslash or a colon"
    return ""


def check_name(path: str) -> None:
    """Refuse a path that must not be in a commit."""
    fault = name_fault(path)
    if fault:
        raise ForgeRefused(f"{path[:200]!r} cannot be committed: {fault}.", remedy="Rename the file.", begun=False)


def commit_stream(
    onto: Sequence[str],
    parent: str,
    files: str,
    changes: Sequence[Written],
    message: str,
    author: Person,
    when: int,
) -> bytes:
    """The stream that writes one commit and says its id; the references `onto` lead to it afterwards, or none does."""
    name = onto[0] if onto else f"{_NEW}/{os.urandom(8).hex()}"
    lines = [f"commit {name}\nmark :1\n".encode()]
    for role, person in (("author", author), ("committer", BOT)):
        lines.append(f"{role} {person.name} <{person.address}> {when} +0000\n".encode())
    text = message_bytes(message)
    lines += [f"data {len(text)}\n".encode(), text, b"\n"]
    if parent:
        lines.append(f"from {object_id(parent)}\n".encode())
    if files:
        lines += [b"deleteall\n", f'M 040000 {object_id(files)} ""\n'.encode()]
    for change in changes:
        path = _quoted(change.path)
        if change.data is None:
            lines.append(f"D {path}\n".encode())
        else:
            lines += [f"M {change.mode} inline {path}\ndata {len(change.data)}\n".encode(), change.data, b"\n"]
    lines += [f"reset {other}\nfrom :1\n\n".encode() for other in onto[1:]]
    if not onto:  # no reference stays behind
        lines.append(f"reset {name}\nfrom {'0' * len(parent or files or '0' * 40)}\n\n".encode())
    lines.append(b"get-mark :1\ndone\n")
    return b"".join(lines)


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def message_bytes(text: str) -> bytes:
    """A commit message as git stores it: it ends in one line break."""
    return (text.strip() + "\n").encode("utf-8", "surrogateescape")
