"""What pip-audit, npm audit and cargo audit wrote. What was skipped or not reached is not audited, never healthy."""

from collections.abc import Mapping
from typing import Any, cast

from coilclaw.features.patrols.json_reports import inner, items
from coilclaw.features.patrols.report import PatrolReport, ReportedFinding, Severity, bounded, clean, finding, word_of

_NPM: dict[str, Severity] = {"critical": "critical", "high": "error", "moderate": "warning", "low": "info"}


def read_pip_audit(told: Mapping[str, Any], exit_code: int) -> PatrolReport:
    """`pip-audit --format json`; it calls a package clean that it skipped."""
    found: list[ReportedFinding] = []
    skipped: list[str] = []
    looked = 0
    for each in items(told.get("dependencies")):
        name = clean(each.get("name"), 100)
        if each.get("skip_reason"):
            skipped.append(name)
            continue
        looked += 1
        for known in items(each.get("vulns")):
            versions = known.get("fix_versions")
            listed = cast("list[object]", versions) if isinstance(versions, list) else []
            fixed = ", ".join(clean(version, 40) for version in listed if version)
            words = f"{name} {clean(each.get('version'), 40)} has {clean(known.get('id'), 60)}"
            found.append(finding(known.get("id"), name, f"{words}{f', fixed in {fixed}' if fixed else ''}", "error"))
    why = f"{len(skipped)} packages were skipped, such as {skipped[0]}" if skipped else ""
    if not looked and not why:
        why = "no package was looked at"
    return bounded(found, format="pip-audit", complete=exit_code in (0, 1) and not why, unaudited=why)


def read_npm_audit(told: Mapping[str, Any], exit_code: int) -> PatrolReport:
    """`npm audit --json`; a registry that only reads answers with an error."""
    error = inner(told, "error")
    if error or told.get("message") or "vulnerabilities" not in told:
        why = clean(error.get("summary") or error.get("code") or told.get("message"), 200)
        return bounded([], format="npm-audit", complete=False, unaudited=why or "npm could not ask its registry")
    found: list[ReportedFinding] = []
    known = inner(told, "vulnerabilities")
    for name in known:
        each = inner(known, name)
        severity = _NPM.get(word_of(each.get("severity")), "warning")
        named = [via for via in items(each.get("via")) if via.get("title")]
        found += [finding(via.get("url") or via["title"], name, f"{name}: {via['title']}", severity) for via in named]
        if not named and not each.get("via"):  # otherwise it is vulnerable by way of another one, which is named
            found.append(finding("vulnerable", name, f"{name} is vulnerable", severity))
    return bounded(found, format="npm-audit", complete=exit_code in (0, 1))


def read_cargo_audit(told: Mapping[str, Any], exit_code: int) -> PatrolReport:
    """`cargo audit --json`."""
    if not inner(told, "database") or not inner(told, "lockfile"):
        return bounded([], format="cargo-audit", complete=False, unaudited="it had no database of advisories")
    found: list[ReportedFinding] = []
    for each in items(inner(told, "vulnerabilities").get("list")):
        advisory, package = inner(each, "advisory"), inner(each, "package")
        name = clean(package.get("name"), 100)
        words = f"{name} {clean(package.get('version'), 40)}: {clean(advisory.get('title'), 200)}"
        found.append(finding(advisory.get("id"), name, words, "error"))
    return bounded(found, format="cargo-audit", complete=exit_code in (0, 1))
