"""Which policy-file rules apply to a case. Matching is exact: the rule `bash` says nothing of `bash_anything`."""

from collections.abc import Iterator

from coilclaw.gate.decision_input import Case
from coilclaw.gate.policy_file import PolicyRule, When
from coilclaw.packets.action import Source
from coilclaw.packets.decision import Reason, Verdict


def _one_of(wanted: str | tuple[str, ...], values: tuple[str, ...]) -> bool:
    choices = (wanted,) if isinstance(wanted, str) else wanted
    return any(value in choices for value in values)


def _path_matches(wanted: str | tuple[str, ...], values: tuple[str, ...]) -> bool:
    for choice in (wanted,) if isinstance(wanted, str) else wanted:
        folder = choice.removesuffix("**").rstrip("/") if choice.endswith("/**") else None
        name = choice.removeprefix("**/") if choice.startswith("**/") else None
        for value in values:
            if name is not None and value.rpartition("/")[2] == name:
                return True
            if value == choice or (folder is not None and (value == folder or value.startswith(folder + "/"))):
                return True
    return False


def hidden_paths(rules: tuple[PolicyRule, ...]) -> list[str]:
    """Workspace paths that a rule denies to everything: a boxed command does not see them either."""
    hidden: list[str] = []
    for rule in rules:
        if rule.verdict == "deny" and rule.when.path is not None and rule.when == When(path=rule.when.path):
            paths = (rule.when.path,) if isinstance(rule.when.path, str) else rule.when.path
            hidden += [path.removeprefix("**/").removesuffix("/**") for path in paths]
    return hidden


READERS = ("file_read", "file_search")
"""A rule that keeps a path from one of these keeps it from results of the other."""


def unreadable_paths(rules: tuple[PolicyRule, ...], source: Source) -> tuple[str, ...]:
    """The paths, as rules write them, that a reader may not show without asking: what a search passes over."""
    found: list[str] = []
    for rule in rules:
        when = rule.when
        conditions = ((when.tool, READERS), (when.source, (source,)), (when.lane, ("A",)), (when.risk, ("R0",)))
        if when.path is None or any(each is not None for each in (when.command, when.domain, when.identity)):
            continue
        if all(wanted is None or _one_of(wanted, values) for wanted, values in conditions):
            found += (when.path,) if isinstance(when.path, str) else when.path
    return tuple(dict.fromkeys(found))


def is_path_of(wanted: tuple[str, ...], path: str) -> bool:
    """Whether a path is one of those that rules name."""
    return _path_matches(wanted, (path,))


def _domain_matches(wanted: str | tuple[str, ...], host: str) -> bool:
    for choice in (wanted,) if isinstance(wanted, str) else wanted:
        lowered = choice.lower()
        if host == lowered or (lowered.startswith("*.") and host.endswith(lowered[1:])):
            return True
    return False


def _holds(when: When, case: Case) -> bool:
    """Whether every condition given holds."""
    facts = case.facts
    paths = tuple(path.relative for path in facts.paths if path.relative is not None)
    checks: list[bool] = []
    if when.tool is not None:
        checks.append(_one_of(when.tool, (facts.tool_name,)))
    if when.path is not None:
        checks.append(_path_matches(when.path, paths))
    if when.command is not None:
        checks.append(_one_of(when.command, facts.command.programs if facts.command else ()))
    if when.domain is not None:
        checks.append(facts.url is not None and _domain_matches(when.domain, facts.url.host))
    if when.source is not None:
        checks.append(_one_of(when.source, (case.setting.source,)))
    if when.lane is not None:
        checks.append(_one_of(when.lane, (case.lane,)))
    if when.risk is not None:
        checks.append(_one_of(when.risk, (case.risk,)))
    if when.identity is not None:
        checks.append(when.identity == facts.identity)
    return all(checks)


def matching_rules(case: Case, verdict: Verdict) -> Iterator[Reason]:
    """A reason for every rule of that verdict that applies."""
    for rule in case.policy.rules:
        if rule.verdict == verdict and _holds(rule.when, case):
            yield Reason(rule=f"policy.{rule.id}", code="POLICY_RULE", text=rule.reason)
