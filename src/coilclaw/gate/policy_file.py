"""Policy files: rules the owner keeps in the workspace. They only ever narrow what the configuration grants."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

from coilclaw.packets.action import Identity, Source
from coilclaw.packets.canonical import Json, NotCanonical, canonical_bytes, parse_json, sha256_hex
from coilclaw.packets.decision import Lane, Risk
from coilclaw.packets.names import did_you_mean
from coilclaw.sandbox.files import read_existing

POLICY_BYTES = 1 << 20

Words = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
Verdict = Literal["ask", "deny"]

_UNKNOWN = r"Invalid enum value '(?P<name>.*)' - at `\$(?:\.rules\[\d+\])?(?:\.when)?\.(?P<kind>\w+)"
_NAMES = {"source": Source, "lane": Lane, "risk": Risk, "verdict": Verdict, "identity": Identity}


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions that must all hold; a list holds when one of its values does. Matching is exact.

    What could never hold is a fault: a rule that never applies protects nothing.
    """

    tool: str | Words | None = None
    """A tool's name, as `coilclaw tool list` tells it."""
    path: str | Words | None = None
    """A path in the workspace, `folder/**` for everything below it, or `**/name` for that name anywhere."""
    command: str | Words | None = None
    """The base name of a program the command would run."""
    domain: str | Words | None = None
    """A host name, or `*.example.com` for every name below it."""
    source: Source | Annotated[tuple[Source, ...], msgspec.Meta(min_length=1)] | None = None
    lane: Lane | Annotated[tuple[Lane, ...], msgspec.Meta(min_length=1)] | None = None
    risk: Risk | Annotated[tuple[Risk, ...], msgspec.Meta(min_length=1)] | None = None
    identity: Identity | None = None
    """In whose name a call at an account is made: `user` or `bot`."""


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule: when it applies, what it says, and why."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
    when: When
    verdict: Verdict
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

    def __init__(self, folder: Path, tools: Collection[str]) -> None:
        self._folder = folder
        self._tools = tools
        self._seen: object = None
        self._loaded: LoadedPolicies | None = None

    def current(self) -> LoadedPolicies:
        """The rules as the files stand now."""
        seen = self._look()
        if self._loaded is None or seen is None or seen != self._seen:
            self._loaded, self._seen = load_policies(self._folder, self._tools), seen
        return self._loaded

    def _look(self) -> object:
        """What changes when a file does: names, inodes, sizes and both times. None means: do not rely on it."""
        try:
            with os.scandir(self._folder) as entries:
                found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError:
            return None
        return sorted((name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in found)


def load_policies(folder: Path, tools: Collection[str]) -> LoadedPolicies:
    """Read `policies/*.json`, in which rules may name these tools.

    One broken file makes the whole set broken: the gate then denies all but reads.
    """
    if folder.is_symlink():
        return LoadedPolicies(rules=(), hash="", broken=f"{folder} is a symbolic link")
    try:
        names = sorted(path.name for path in folder.iterdir() if path.suffix.casefold() == ".json")
    except FileNotFoundError:
        names = []
    except OSError as error:
        return LoadedPolicies(rules=(), hash="", broken=f"{folder} cannot be read ({error.strerror})")
    return read_policies(names, lambda name: read_existing(folder, name, POLICY_BYTES), tools)


def read_policies(names: Iterable[str], read: Callable[[str], bytes | None], tools: Collection[str]) -> LoadedPolicies:
    """The rules in files of these names, wherever they lie; `read` gives None for what cannot be a policy file."""
    rules: list[PolicyRule] = []
    faults: list[str] = []
    hashes: dict[str, str] = {}
    seen: dict[str, str] = {}
    for name in names:
        try:
            data = read(name)
            if data is None:
                faults.append(f"policies/{name}: it is not a regular file of at most {POLICY_BYTES} bytes")
                continue
            hashes[name] = sha256_hex(data)
            value = parse_json(data)
        except (OSError, NotCanonical) as error:
            faults.append(f"policies/{name}: {error}")
            continue
        try:
            loaded = msgspec.convert(value, PolicyFile)
        except msgspec.ValidationError as error:
            faults.append(f"policies/{name}: {_of_rule(value, error)}")
            continue
        for rule in loaded.rules:
            if rule.id in seen:
                faults.append(f"policies/{name}: the rule id {rule.id!r} is already used in {seen[rule.id]}")
            seen[rule.id] = name
            for _, fault in never_holds(rule.when, tools):
                faults.append(f"policies/{name}: rule {rule.id!r}: {fault}")
        rules.extend(loaded.rules)
    return LoadedPolicies(rules=tuple(rules), hash=sha256_hex(canonical_bytes(hashes)), broken="; ".join(faults))


def parse_policy(data: bytes) -> PolicyFile:
    """The rules of one file by themselves; raises NotCanonical or msgspec.ValidationError."""
    return msgspec.convert(parse_json(data), PolicyFile)


def never_holds(when: When, tools: Collection[str]) -> Iterator[tuple[str, str]]:
    """The conditions of a rule that no call could ever meet, and why."""
    for name in _values(when.tool):
        if name not in tools:
            yield "tool", f"there is no tool {name!r}. {did_you_mean(name, tools)}"
    for path in _values(when.path):
        plain = path.removesuffix("/**") if path.endswith("/**") else path.removeprefix("**/")
        named = path.startswith("**/") and "/" in plain
        if named or "*" in plain or plain != os.path.normpath(plain) or plain.startswith(("/", "../")):
            yield "path", f"the path {path!r} is not `folder/file`, `folder/**` or `**/name` in the workspace"
    for program in _values(when.command):
        if not program or "/" in program or program.split() != [program]:
            yield "command", f"the command {program!r} is not the base name of a program, such as `git`"
    for domain in _values(when.domain):
        if not re.fullmatch(r"(?:\*\.)?[^\s*/@]+", domain) or re.fullmatch(r"[^:]*:\d*", domain):
            yield "domain", f"the domain {domain!r} is neither a host name nor `*.` followed by one"


def explained(error: msgspec.ValidationError) -> str:
    """What is wrong with a value; for an unknown name, the nearest known one."""
    found = re.match(_UNKNOWN, str(error))
    if found is None or found["kind"] not in _NAMES:
        return str(error)
    known = get_args(_NAMES[found["kind"]])
    return f"there is no {found['kind']} {found['name']!r}. {did_you_mean(found['name'], known)}"


def _of_rule(value: Json, error: msgspec.ValidationError) -> str:
    """What is wrong with a file, and which rule it is, by its id."""
    found = re.search(r"\$\.rules\[(\d+)\]", str(error))
    rules = value.get("rules") if isinstance(value, Mapping) else None
    rule = rules[int(found[1])] if found and isinstance(rules, list) else None
    name = rule.get("id") if isinstance(rule, Mapping) else None
    return f"rule {name!r}: {explained(error)}" if isinstance(name, str) else explained(error)


def _values(condition: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (condition,) if isinstance(condition, str) else condition or ()
