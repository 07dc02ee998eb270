"""Paths of a pull request: how much risk each carries, and which of them the owner alone merges. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath

import msgspec

from coilclaw.gate.policy_file import POLICY_BYTES, PolicyRule, parse_policy
from coilclaw.packets.canonical import NotCanonical
from coilclaw.packets.decision import Risk
from coilclaw.packets.forge import FileChange
from coilclaw.packets.workspace import OWNER_ONLY
from coilclaw.sandbox.executed import executed_part, folded

Reader = Callable[[str], bytes | None]
"""What a file of one commit holds; None when it is not there."""

_DOWNWARD: tuple[Risk, ...] = ("R3", "R2", "R1")
_INFORMAL = frozenset({"jobs", "audit", "intel", "memory"})
_OWNERS = frozenset({("codeowners",), ("docs", "codeowners"), (".github", "codeowners")})
"""Where a forge looks for the file that names who must agree."""
_GOVERNING = frozenset(folded(name) for name in OWNER_ONLY)
_PREFERENCES = ("memory", "preferences.md")
RUNS = "audit/runs/"


def path_risk(path: str) -> Risk:
    """The risk of changing a path; a spelling that some file system takes for another is that other, if riskier."""
    parts = _folded_parts(path)
    if parts[0] in _GOVERNING or parts in _OWNERS:
        return "R3"
    if path.partition("/")[0].casefold() not in _INFORMAL or parts == _PREFERENCES or executed_part(path):
        return "R2"
    return "R1"


def highest(paths: Iterable[str]) -> Risk:
    """The risk of changing all of these: that of the riskiest; R0 when there is none."""
    found = {path_risk(path) for path in paths}
    for risk in _DOWNWARD:
        if risk in found:
            return risk
    return "R0"


# What the runtime writes


def job_file_path(job_id: str, created_at: str) -> str:
    """Where the summary of a job stands, by the month (UTC) in which it was asked for."""
    return f"jobs/{created_at[:4]}/{created_at[5:7]}/{job_id}.md"


def events_path(job_id: str) -> str:
    """Where the audit events of a job stand."""
    return f"audit/jobs/{job_id}.jsonl"


def evidence_path(job_id: str) -> str:
    """Where the evidence of a job stands."""
    return f"audit/evidence/{job_id}.json"


def run_path(job_id: str) -> str:
    """Where the chain of a job that ran in Actions stands."""
    return f"{RUNS}{job_id}.json"


def is_runtime_file(path: str, job_id: str) -> bool:
    """Whether a path is one of those that the runtime writes for a job."""
    if path in (events_path(job_id), evidence_path(job_id), run_path(job_id)):
        return True
    return re.fullmatch(rf"jobs/[0-9]{{4}}/(?:0[1-9]|1[0-2])/{re.escape(job_id)}\.md", path) is not None


# What governs the agent


def governed(changes: Iterable[FileChange], read_old: Reader, read_new: Reader) -> tuple[str, ...]:
    """The touched paths that the owner alone merges, in every merge mode.

    A policy file counts when a rule of it is dropped or loosened. Rules may be added, moved to another file, or turned
    from asking into denying; every other difference counts, and so does a file that cannot be read.
    """
    paths = [change.path for change in changes]
    found = {path for path in paths if _governs(path)}
    policies = [path for path in paths if _is_policy(path)]
    now: dict[str, PolicyRule] = {}
    for path in policies:
        rules = _rules(read_new(path))
        if rules is None or rules.keys() & now.keys():
            found.add(path)
        now |= rules or {}
    for path in policies:
        before = _rules(read_old(path))
        if before is None or any(_loosened(rule, now.get(name)) for name, rule in before.items()):
            found.add(path)
    return tuple(path for path in dict.fromkeys(paths) if path in found)


def _governs(path: str) -> bool:
    parts = _folded_parts(path)
    return parts[0] in (".github", "system.md") or parts in _OWNERS


def _is_policy(path: str) -> bool:
    """Whether the runtime would read it as rules, on some file system."""
    parts = _folded_parts(path)
    return len(parts) == 2 and parts[0] == "policies" and PurePosixPath(parts[1]).suffix == ".json"


def _rules(data: bytes | None) -> Mapping[str, PolicyRule] | None:
    """The rules of a file by id; none when there is no file, None when it cannot be read."""
    if data is None:
        return {}
    if len(data) > POLICY_BYTES:
        return None
    try:
        rules = parse_policy(data).rules
    except (NotCanonical, msgspec.ValidationError):
        return None
    by_id = {rule.id: rule for rule in rules}
    return by_id if len(by_id) == len(rules) else None


def _loosened(before: PolicyRule, now: PolicyRule | None) -> bool:
    """Whether a rule says less than before. Its reason counts: it is what the owner is told."""
    return now is None or now not in (before, msgspec.structs.replace(before, verdict="deny"))


def _folded_parts(path: str) -> tuple[str, ...]:
    return tuple(folded(part) for part in path.split("/"))
