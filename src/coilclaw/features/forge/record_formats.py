"""How the records of a clone are written: canonical JSON, lines of it, and frontmatter."""

import re
from collections.abc import Mapping

from coilclaw.packets.canonical import Json, JsonObject, canonical_bytes, parse_object
from coilclaw.sandbox.bot_repository import TreeEntry
from coilclaw.sandbox.clones import Clone

FILE_BYTES = 64 << 20
"""A larger file is not read."""
_TRAILER = re.compile(r"([A-Za-z][A-Za-z-]*): (.+)")


def read_entry(clone: Clone, entry: TreeEntry) -> bytes:
    """What a file of a clone holds, unless it is too large."""
    if entry.size > FILE_BYTES:
        raise ValueError(f"{entry.size} bytes are too many")
    return clone.blobs([entry.blob])[entry.blob]


def read_object(data: bytes) -> JsonObject:
    """A canonical JSON object with a line break after it."""
    found = parse_object(data)
    if canonical_bytes(found) + b"\n" != data:
        raise ValueError("it is not canonical JSON")
    return found


def read_lines(data: bytes) -> list[JsonObject]:
    """Canonical JSON objects, one a line."""
    if data and not data.endswith(b"\n"):
        raise ValueError("the last line is incomplete")
    return [read_object(line + b"\n") for line in data.split(b"\n")[:-1]]


def frontmatter(data: bytes) -> dict[str, Json]:
    """The block between two lines of dashes: a key and a JSON value on each line."""
    text = data.decode("utf-8")
    if not text.startswith("---\n"):
        raise ValueError("it has no frontmatter")
    block, end, _ = text[4:].partition("\n---\n")
    if not end:
        raise ValueError("its frontmatter does not end")
    pairs = (line.partition(": ") for line in block.split("\n"))
    return {name: parse_object(f'{{"v":{value}}}')["v"] for name, _, value in pairs}


def listed_files(evidence: JsonObject) -> dict[str, str | None]:
    """The files that a job's evidence names, with the hash of each; None for what it removed."""
    files = evidence.get("files")
    if not isinstance(files, list | tuple):
        raise ValueError("the evidence lists no files")  # noqa: TRY004 - a finding like the others
    found: dict[str, str | None] = {}
    for each in files:
        if isinstance(each, Mapping):
            digest = each.get("sha256")
            found[str(each.get("path"))] = None if digest is None else str(digest)
    return found


def trailers(message: str) -> dict[str, list[str]]:
    """What the last paragraph of a commit message states, if it consists of nothing else."""
    title, _, last = message.rstrip("\n").rpartition("\n\n")
    found: dict[str, list[str]] = {}
    for line in last.split("\n") if title else ():  # a title is none, whatever it looks like
        match = _TRAILER.fullmatch(line)
        if match is None:
            return {}
        found.setdefault(match[1].title(), []).append(match[2])  # readers of git do not tell their case apart
    return found
