"""SARIF, ruff, eslint, cargo and `go test -json`, as pure functions of what they wrote."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from coilclaw.features.patrols.report import (
    MOST_FINDINGS,
    PatrolReport,
    ReportedFinding,
    Severity,
    Unreadable,
    bounded,
    clean,
    finding,
    word_of,
)

MOST_LINES = 200_000


def items(value: object) -> Iterator[dict[str, Any]]:
    """The objects of a list; anything else is passed over."""
    for each in cast("list[object]", value) if isinstance(value, list) else ():
        if isinstance(each, dict):
            yield cast("dict[str, Any]", each)


def first_item(value: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """The first object; empty if there is none."""
    return next(value, cast("dict[str, Any]", {}))


def inner(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """An object within objects; empty if there is none."""
    found: object = value
    for name in names:
        found = cast("dict[str, object]", found).get(name) if isinstance(found, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


# SARIF

_LEVELS: dict[str, Severity] = {"error": "error", "warning": "warning", "note": "info", "none": "info"}


def read_sarif(told: Mapping[str, Any], exit_code: int) -> PatrolReport:
    """Static Analysis Results Interchange Format."""
    found: list[ReportedFinding] = []
    failed_run = False
    for run in items(told.get("runs")):
        failed_run |= any(each.get("executionSuccessful") is False for each in items(run.get("invocations")))
        for result in items(run.get("results")):
            if result.get("suppressions"):
                continue
            place = inner(first_item(items(result.get("locations"))), "physicalLocation")
            level = _LEVELS.get(word_of(result.get("level", "warning")), "warning")
            found.append(
                finding(
                    result.get("ruleId") or inner(result, "rule").get("id"),
                    _relative(inner(place, "artifactLocation").get("uri")),
                    inner(result, "message").get("text"),
                    level,
                    line=inner(place, "region").get("startLine", 0),
                )
            )
    return bounded(found, format="sarif", complete=not failed_run and exit_code in (0, 1))


# Linters


def read_ruff(told: list[object], exit_code: int) -> PatrolReport:
    """`ruff check --output-format json`."""
    found = [
        finding(
            each.get("code") or "syntax",
            _relative(each.get("filename")),
            each.get("message"),
            "warning" if each.get("code") else "error",
            line=inner(each, "location").get("row", 0),
        )
        for each in items(told)
    ]
    return bounded(found, format="ruff", complete=exit_code in (0, 1))


def read_eslint(told: list[object], exit_code: int) -> PatrolReport:
    """`eslint --format json`."""
    found: list[ReportedFinding] = []
    for file in items(told):
        for each in items(file.get("messages")):
            severity: Severity = "error" if each.get("severity") == 2 or each.get("fatal") is True else "warning"
            rule, path = each.get("ruleId") or "syntax", _relative(file.get("filePath"))
            found.append(finding(rule, path, each.get("message"), severity, line=each.get("line", 0)))
    return bounded(found, format="eslint", complete=exit_code in (0, 1))


# Streams of JSON lines


def json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The lines that are JSON objects; others are a program's own words."""
    for line in data.split(b"\n", MOST_LINES)[:MOST_LINES]:
        if line.lstrip().startswith(b"{"):
            try:
                value = msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError):
                continue
            if isinstance(value, dict):
                yield cast("dict[str, Any]", value)


def read_cargo(data: bytes, exit_code: int) -> PatrolReport:
    """`cargo … --message-format json`."""
    found: list[ReportedFinding] = []
    finished = False
    for each in json_lines(data):
        finished |= each.get("reason") == "build-finished"
        message = inner(each, "message")
        level = word_of(message.get("level"))
        if each.get("reason") != "compiler-message" or level not in ("error", "warning"):
            continue
        span = first_item(items(message.get("spans")))
        rule, path = inner(message, "code").get("code") or level, _relative(span.get("file_name"))
        severity: Severity = "error" if level == "error" else "warning"
        if path or message.get("code"):  # the last line only counts the others
            found.append(finding(rule, path, message.get("message"), severity, line=span.get("line_start", 0)))
    if not finished:
        raise Unreadable("cargo did not finish")
    passed, failed, skipped, names = _rust_tests(data)
    found += [finding(name, "", f"{name} failed") for name in names]
    return bounded(found, format="cargo", passed=passed, failed=failed, skipped=skipped, complete=exit_code in (0, 101))


_RUST_RESULT = re.compile(rb"^test result: \S+ (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored", re.MULTILINE)
_RUST_FAILED = re.compile(rb"^test (\S{1,300}) \.\.\. FAILED\s*$", re.MULTILINE)


def _rust_tests(data: bytes) -> tuple[int, int, int, list[str]]:
    results = [tuple(map(int, match)) for match in _RUST_RESULT.findall(data)]
    names = [match.decode("utf-8", "replace") for match in _RUST_FAILED.findall(data)[: MOST_FINDINGS + 1]]
    return sum(r[0] for r in results), sum(r[1] for r in results), sum(r[2] for r in results), names


def read_go(data: bytes, exit_code: int) -> PatrolReport:
    """`go test -json`."""
    counts = {"pass": 0, "fail": 0, "skip": 0}
    said: dict[tuple[str, str], str] = {}
    found: list[ReportedFinding] = []
    failed: set[str] = set()
    for each in json_lines(data):
        package, test, action = (
            clean(each.get("Package"), 200),
            clean(each.get("Test"), 200),
            word_of(each.get("Action")),
        )
        key = package, test
        if action == "output" and isinstance(each.get("Output"), str):
            words = each["Output"].strip()
            if words and not words.startswith(("===", "---", "FAIL", "PASS", "ok")) and len(said) < 10_000:
                said.setdefault(key, words[:400])
        elif action in counts and test:
            counts[action] += 1
            if action == "fail":
                failed.add(package)
                found.append(finding(test, package, f"{test} failed: {said.get(key, '')}".rstrip(": ")))
        elif action in ("fail", "build-fail") and package not in failed:
            failed.add(package)
            found.append(finding("build", package, f"{package} failed: {said.get(key, '')}".rstrip(": ")))
    return bounded(
        found,
        format="go",
        passed=counts["pass"],
        failed=counts["fail"],
        skipped=counts["skip"],
        complete=exit_code in (0, 1),
    )


_CHECKOUT = re.compile(r"^.*?/[a-z]{1,10}_[0-9a-z]{1,60}/[^/]+/")


def _relative(path: object) -> str:
    """A path within the checkout: some programs name files whole, and each checkout is another folder."""
    text = clean(path, 1000).removeprefix("file://").removeprefix("./")
    return _CHECKOUT.sub("", text) if text.startswith("/") else text
