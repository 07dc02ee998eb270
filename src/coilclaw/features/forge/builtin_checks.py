"""The built-in checks of a pull request: each looks at what the merge gives and says what is wrong with it. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from coilclaw.features.forge.paths import evidence_path
from coilclaw.features.jobs.evidence import holds
from coilclaw.features.schedules.registry import REGISTRY, REGISTRY_BYTES, RegistryBroken, read_registry
from coilclaw.features.skills.skill import FILE as SKILL_FILE
from coilclaw.features.skills.skill import MOST_SKILLS, SKILL_BYTES, read_skill
from coilclaw.features.sops.sop_toml import read_sop
from coilclaw.gate.paths import classify
from coilclaw.gate.policy_file import read_policies
from coilclaw.packets.canonical import Json, JsonObject, NotCanonical, parse_object, sha256_hex
from coilclaw.packets.forge import FileChange
from coilclaw.packets.ports import Tool
from coilclaw.packets.text import one_line
from coilclaw.sandbox.executed import Shape, executed_part, folded, is_git_shaped
from coilclaw.sandbox.fast_import import FILE, PROGRAM, name_fault
from coilclaw.secrets.labels import MARK

FILE_BYTES = 50 << 20
"""The largest file that a pull request may add or change."""
CHANGE_BYTES = 128 << 20
"""What all of them together may hold."""
MOST_CHANGES = 20_000

_LINK, _SUBMODULE = "120000", "160000"
_SHOWN = 200
Redact = Callable[[str], str]


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge would give, as far as it is looked at."""

    changes: tuple[FileChange, ...]
    """Against main."""
    modes: Mapping[str, str]
    """Everything in it by path, links and submodules too."""
    sizes: Mapping[str, int]
    """Of every regular file in it."""
    new: Mapping[str, bytes]
    """What the files hold that were added or changed; nothing where that is more than is looked at."""
    old: Callable[[str], bytes]
    """What a changed file holds on main."""
    policies: Mapping[str, bytes | None]
    """The files in `policies/` by name, when one of them changed; None for what cannot be read."""
    skills: Mapping[str, bytes | None]
    """Every SKILL.md by its skill, when something in `skills/` changed; None for what cannot be read or is missing."""
    of_head: Mapping[str, str]
    """What the pull request's own commit holds: blobs by path."""


class CheckTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a pull request is held to."""

    job_id: str | None
    tainted: bool
    most_files: int | None
    """How many files the job may change; None is any number."""
    required: tuple[str, ...]
    """The evidence that the job must leave."""
    is_runtime: Callable[[str], bool]
    """Whether the runtime writes that path in this pull request."""


# Paths


def path_faults(merge: MergeResult, terms: CheckTerms) -> Iterator[str]:
    """Names, modes and places that must not come with a pull request."""
    touched = [change for change in merge.changes if not terms.is_runtime(change.path)]
    if terms.most_files is not None and len(touched) > terms.most_files:
        yield f"{len(touched)} files are changed; the job may change {terms.most_files}"
    if len(merge.changes) > MOST_CHANGES:
        yield f"{len(merge.changes)} files are changed; a pull request may change {MOST_CHANGES}"
        return
    yield from _size_faults(merge)
    for change in merge.changes:
        for fault in (*_place_faults(change, merge, terms), *(_file_faults(change) if change.new_blob else ())):
            yield f"{shown(change.path)}: {fault}"
    added = [change.path for change in merge.changes if change.kind == "added"]
    yield from _collisions(merge.modes, added)
    yield from _repositories(merge.modes, added)


def _size_faults(merge: MergeResult) -> Iterator[str]:
    """More than a pull request may hold."""
    weight = 0
    for change in merge.changes:
        size = merge.sizes.get(change.path, 0) if change.new_blob else 0
        weight += size
        if size > FILE_BYTES:
            yield f"{shown(change.path)}: it has {size} bytes; a file may have {FILE_BYTES}"
    if weight > CHANGE_BYTES:
        yield f"the changed files have {weight} bytes; together they may have {CHANGE_BYTES}"


def _place_faults(change: FileChange, merge: MergeResult, terms: CheckTerms) -> Iterator[str]:
    """What is wrong with touching that place at all."""
    if terms.is_runtime(change.path):
        as_written = change.new_blob and change.new_blob == merge.of_head.get(change.path) and change.new_mode == FILE
        if not as_written:
            yield "it is not what the runtime wrote"
        return
    place = classify(change.path)
    if place == "never":
        yield "only the runtime writes there"
    elif terms.tainted and place == "executed":
        yield f"the job took in untrusted content, and other programs execute {shown(executed_part(change.path))}"
    elif terms.tainted and place in ("owner", "guarded"):
        yield "the job took in untrusted content, and this steers later work"


def _file_faults(change: FileChange) -> Iterator[str]:
    """What is wrong with a file that is added or changed."""
    if fault := name_fault(change.path):
        yield fault
    if change.new_mode == _LINK:
        yield "it is a symbolic link"
    elif change.new_mode == _SUBMODULE:
        yield "it is a submodule"
    elif change.new_mode not in (FILE, PROGRAM):
        yield f"it has the mode {change.new_mode}"
    elif change.new_mode == PROGRAM != change.old_mode and change.path.rpartition("/")[2].startswith("."):
        yield "it is a new hidden file that can be executed"


def _collisions(paths: Iterable[str], added: Sequence[str]) -> Iterator[str]:
    """New names that some file system takes for others that are there, or for one another."""
    if not added:
        return
    new = frozenset(added)
    known: dict[str, str] = {}
    plain: dict[str, str] = {}
    for path in (*(path for path in paths if path not in new), *added):
        place = key = ""
        for part in path.split("/"):
            if part not in plain:
                plain[part] = folded(part)
            place, key = f"{place}/{part}", f"{key}/{plain[part]}"
            other = known.setdefault(key, place)
            if other != place and path in new:
                yield f"{shown(path)}: some file systems take it for {shown(other[1:])}"
                break


def _repositories(paths: Iterable[str], added: Sequence[str]) -> Iterator[str]:
    """Folders that the new files would make git take for a repository."""
    suspects = {path.rpartition("/")[0] for path in added if folded(path.rpartition("/")[2]) in ("head", "commondir")}
    suspects |= {
        "/".join(parts[:depth])
        for parts in (path.split("/") for path in added)
        for depth, part in enumerate(parts)
        if folded(part) in ("objects", "refs")
    }
    if not suspects:
        return
    inside: dict[str, Shape] = {folder: set() for folder in suspects}
    for path in paths:
        parts = path.split("/")
        for depth, part in enumerate(parts):
            listed = inside.get("/".join(parts[:depth]))
            if listed is not None:
                listed.add((folded(part), "file" if depth == len(parts) - 1 else "folder"))
    for folder, listed in sorted(inside.items()):
        if is_git_shaped(listed):
            yield f"{shown(folder or '.')}: git would take it for a repository"


# Evidence


def evidence_faults(merge: MergeResult, terms: CheckTerms) -> Iterator[str]:
    """A manifest that is missing, is not what its hash says, or does not tell what was required."""
    if terms.job_id is None:
        return
    path = evidence_path(terms.job_id)
    data = merge.new.get(path)
    if data is None:
        yield f"{path} is missing"
        return
    try:
        fields = parse_object(data)
    except NotCanonical as error:
        yield f"{path}: {error}"
        return
    if fields.get("job_id") != terms.job_id:
        yield f"{path} is not of {terms.job_id}"
    if not holds(fields):
        yield f"{path} is not what its manifest_hash says"
    there = {str(each.get(key)) for each in _objects(fields, "artifacts") for key in ("name", "kind")}
    yield from (f"the required evidence {shown(name)} is missing" for name in terms.required if name not in there)
    yield from _hash_faults(fields, merge)


def _hash_faults(fields: JsonObject, merge: MergeResult) -> Iterator[str]:
    """Files that hold something else than the evidence says. What main had a hand in holds something else anyway."""
    stated = {each.get("path"): each.get("sha256") for each in _objects(fields, "files")}
    for change in merge.changes:
        if change.path not in stated or change.new_blob != merge.of_head.get(change.path, ""):
            continue
        data = merge.new.get(change.path)
        if data is None and change.new_blob:
            continue  # it was not looked at
        if stated[change.path] != (None if data is None else sha256_hex(data)):
            yield f"{shown(change.path)}: it is not what the evidence says"


def _objects(fields: JsonObject, name: str) -> list[Mapping[str, Json]]:
    listed = fields.get(name)
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


# Secrets


def secret_faults(merge: MergeResult, redact: Redact) -> Iterator[str]:
    """Files that bring a secret which was not there. What it is, is not said."""
    for change in merge.changes:
        if not change.new_blob:
            continue
        if redact(change.path) != change.path:
            yield "the name of a file contains a secret"
        data = merge.new.get(change.path)
        if data is None:
            yield f"{shown(change.path)}: it was not looked at"
        elif data and _brings_secret(data, change, merge, redact):
            yield f"{shown(change.path)}: it contains a secret{_at_line(data, redact)}"


def _brings_secret(data: bytes, change: FileChange, merge: MergeResult, redact: Redact) -> bool:
    text = searchable(data)
    clean = redact(text)
    if clean == text:
        return False
    before = searchable(merge.old(change.path)) if change.old_blob else ""
    if len(MARK.findall(clean)) > len(MARK.findall(redact(before))):
        return True
    known = frozenset(before.split("\n"))
    added = "\n".join(line for line in text.split("\n") if line not in known)
    return redact(added) != added


def searchable(data: bytes) -> str:
    """Bytes as a text in which a secret can be found, also when each character takes two bytes."""
    text = data.decode("utf-8", "replace")
    return text.replace("\0", "") if "\0" in text else text


def _at_line(data: bytes, redact: Redact) -> str:
    """Where, if a line by itself shows it."""
    lines = enumerate(searchable(data).split("\n")[:10_000], start=1)
    found = next((number for number, line in lines if redact(line) != line), None)
    return "" if found is None else f" in line {found}"


# What the runtime reads


def policy_faults(merge: MergeResult, tools: Collection[str]) -> Iterator[str]:
    """Policy files that would not load: the gate would deny everything but reads."""
    names = sorted(name for name in merge.policies if PurePosixPath(name).suffix.casefold() == ".json")
    if broken := read_policies(names, merge.policies.__getitem__, tools).broken:
        yield from broken.split("; ")


def registry_faults(merge: MergeResult, redact: Redact) -> Iterator[str]:
    """A registry of schedules that would not be taken over."""
    if not any(change.path == REGISTRY for change in merge.changes):
        return
    data = merge.new.get(REGISTRY)
    if data is None or len(data) > REGISTRY_BYTES:
        yield f"{REGISTRY}: it is missing, or larger than is read"
        return
    try:
        read_registry(data, redact=redact)
    except RegistryBroken as error:
        yield from (str(fault) for fault in error.faults)


def sop_faults(merge: MergeResult, tools: Mapping[str, Tool], redact: Redact) -> Iterator[str]:
    """Procedures that could not be run."""
    for change in merge.changes:
        match change.path.split("/"):
            case ["sops", name, "SOP.toml"] if change.new_blob:
                data = merge.new.get(change.path)
                if data is None:
                    yield f"{shown(change.path)}: it was not looked at"
                    continue
                for fault in read_sop(data, name, tools, redact).faults:
                    yield f"{shown(change.path)}: {fault}"
            case _:
                pass


def skill_faults(merge: MergeResult) -> Iterator[str]:
    """Skills that would not be used, or too many of them."""
    if len(merge.skills) > MOST_SKILLS:
        yield f"there would be {len(merge.skills)} skills; {MOST_SKILLS} are read"
    for name, data in sorted(merge.skills.items()):
        path = shown(f"skills/{name}/{SKILL_FILE}")
        if data is None:
            yield f"{path}: it is missing, or larger than {SKILL_BYTES} bytes"
            continue
        for fault in read_skill(data, name).faults:
            yield f"{path}: {fault}"


def shown(path: str) -> str:
    """A path in a line of text, with nothing hidden in it."""
    line = one_line(path)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
