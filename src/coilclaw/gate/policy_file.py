"""Policy files: rules the owner keeps in the workspace. They only ever narrow what the configuration grants."""

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from coilclaw.packets.action import Source
from coilclaw.packets.canonical import NotCanonical, canonical_bytes, parse_json, sha256_hex
from coilclaw.packets.decision import Lane, Risk
from coilclaw.sandbox.files import read_existing

POLICY_BYTES = 1 << 20

Words = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions that must all hold; a list holds when one of its values does. Matching is exact."""

    tool: str | Words | None = None
    """A tool's name."""
    path: str | Words | None = None
    """A path in the workspace, `folder/**` for everything below it, or `**/name` for that name anywhere."""
    command: str | Words | None = None
    """The base name of a program the command would run."""
    domain: str | Words | None = None
    """A host name, or `*.example.com` for every name below it."""
    source: Source | tuple[Source, ...] | None = None
    lane: Lane | tuple[Lane, ...] | None = None
    risk: Risk | tuple[Risk, ...] | None = None


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule: when it applies, what it says, and why."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
    when: When
    verdict: Literal["ask", "deny"]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=400)]


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file under `policies/`."""

    version: Literal[1]
    rules: tuple[PolicyRule, ...]


class LoadedPolicies(msgspec.Struct, frozen=True, kw_only=True):
    """All rules in file order, a hash of every file, and what is wrong, if anything."""

    rules: tuple[PolicyRule, ...]
    hash: str
    broken: str


class PolicyFolder:
    """The policy files of a workspace; read again as soon as any of them was touched."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: object = None
        self._loaded: LoadedPolicies | None = None

    def current(self) -> LoadedPolicies:
        """The rules as the files stand now."""
        seen = self._look()
        if self._loaded is None or seen is None or seen != self._seen:
            self._loaded, self._seen = load_policies(self._folder), seen
        return self._loaded

    def _look(self) -> object:
        """What changes when a file does: names, inodes, sizes and both times. None means: do not rely on it."""
        try:
            with os.scandir(self._folder) as entries:
                found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError:
            return None
        return sorted((name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in found)


def load_policies(folder: Path) -> LoadedPolicies:
    """Read `policies/*.json`. One broken file makes the whole set broken: the gate then denies all but reads."""
    rules: list[PolicyRule] = []
    faults: list[str] = []
    hashes: dict[str, str] = {}
    seen: dict[str, str] = {}
    if folder.is_symlink():
        return LoadedPolicies(rules=(), hash="", broken=f"{folder} is a symbolic link")
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix.casefold() == ".json")
    except FileNotFoundError:
        files = []
    except OSError as error:
        return LoadedPolicies(rules=(), hash="", broken=f"{folder} cannot be read ({error.strerror})")
    for path in files:
        try:
            data = read_existing(folder, path.name, POLICY_BYTES)
            if data is None:
                faults.append(f"policies/{path.name}: it is no plain file of at most {POLICY_BYTES} bytes")
                continue
            hashes[path.name] = sha256_hex(data)
            loaded = msgspec.convert(parse_json(data), PolicyFile)
        except (OSError, NotCanonical, msgspec.ValidationError) as error:
            faults.append(f"policies/{path.name}: {error}")
            continue
        for rule in loaded.rules:
            if rule.id in seen:
                faults.append(f"policies/{path.name}: the rule id {rule.id!r} is already used in {seen[rule.id]}")
            seen[rule.id] = path.name
        rules.extend(loaded.rules)
    return LoadedPolicies(rules=tuple(rules), hash=sha256_hex(canonical_bytes(hashes)), broken="; ".join(faults))
