"""From a command's output to a report: the format is told by what stands there, never by what a repository claims."""

import re
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from coilclaw.config.runner import PatrolKind
from coilclaw.features.patrols.audits import read_cargo_audit, read_npm_audit, read_pip_audit
from coilclaw.features.patrols.json_reports import (
    first_item,
    json_lines,
    read_cargo,
    read_eslint,
    read_go,
    read_ruff,
    read_sarif,
)
from coilclaw.features.patrols.junit import read_junit
from coilclaw.features.patrols.report import MOST_FINDINGS, PatrolReport, Unreadable, bounded, clean, finding

# Nothing in it is tried twice: a repository chooses the text, and a search is not interrupted.
_SUMMARY = re.compile(r"^=*+[ \t]*+((?:\d{1,9} [a-z]+(?:, )?){1,12}) in [\d.:a-z ()]++=*+[ \t\r]*+$", re.MULTILINE)
_COUNT = re.compile(r"(\d{1,9}) (passed|failed|skipped|errors?|xfailed|xpassed|deselected|warnings?)")
_FAILED = re.compile(r"^(FAILED|ERROR) ([^\s].{0,600})$", re.MULTILINE)


def read_report(kind: PatrolKind, output: bytes, errors: bytes, report: bytes, exit_code: int) -> PatrolReport:
    """What a command reported, in its report file or its output; raw where no format fits. It never raises."""
    said = output + errors
    read = _first_read((report, output), exit_code) or _raw(kind, said, exit_code)
    if kind == "deps" and read.format not in AUDITS:  # a clean line is no audit, whatever the exit code
        return PatrolReport(format=read.format, complete=False, unaudited="it wrote no report that can be read")
    if exit_code != 0 and not read.findings:  # it failed and names nothing: then it did not look at everything
        raw = _raw(kind, said, exit_code)
        return msgspec.structs.replace(read, findings=raw.findings, complete=False)
    return read


AUDITS = ("pip-audit", "npm-audit", "cargo-audit", "sarif")


def _first_read(told: Iterable[bytes], exit_code: int) -> PatrolReport | None:
    for data in told:
        if data.strip():
            try:
                return _read(data, exit_code)
            except (Unreadable, msgspec.DecodeError, RecursionError):
                continue
    return None


def _read(data: bytes, exit_code: int) -> PatrolReport:
    start = data.lstrip()[:1]
    if start == b"<":
        return read_junit(data.strip(), exit_code)
    if start == b"[":
        return _of_list(msgspec.json.decode(data, type=list[object]), exit_code)
    if start == b"{" and (told := _whole(data)) is not None:
        return _of_object(told, exit_code)
    first = first_item(json_lines(data))
    if "reason" in first:
        return read_cargo(data, exit_code)
    if "Action" in first:
        return read_go(data, exit_code)
    return _pytest(data.decode("utf-8", "replace"), exit_code)


def _whole(data: bytes) -> "dict[str, Any] | None":
    try:
        told = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    # A single line of a stream is an object too.
    return cast("dict[str, Any]", told) if isinstance(told, dict) and not {"reason", "Action"} & told.keys() else None


def _of_list(told: list[object], exit_code: int) -> PatrolReport:
    first = told[0] if told else None
    if isinstance(first, dict) and "messages" in first:
        return read_eslint(told, exit_code)
    if not told or (isinstance(first, dict) and "filename" in first):
        return read_ruff(told, exit_code)
    raise Unreadable("no known list")


def _of_object(told: "dict[str, Any]", exit_code: int) -> PatrolReport:
    if isinstance(told.get("runs"), list):
        return read_sarif(told, exit_code)
    if isinstance(told.get("dependencies"), list):
        return read_pip_audit(told, exit_code)
    if "auditReportVersion" in told or "error" in told:
        return read_npm_audit(told, exit_code)
    if "lockfile" in told or "database" in told:
        return read_cargo_audit(told, exit_code)
    raise Unreadable("no known object")


def _pytest(text: str, exit_code: int) -> PatrolReport:
    """The summary of pytest's own output: the counts, and the lines of what failed."""
    summaries = _SUMMARY.findall(text)
    if not summaries:
        raise Unreadable("no summary of pytest")
    counts: dict[str, int] = {}
    for number, word in _COUNT.findall(summaries[-1]):
        counts[word.removesuffix("s") if word.startswith("error") else word] = int(number)
    found = [
        finding(name, name.partition("::")[0], f"{name} {how.lower()}: {why}".removesuffix(": "))
        for how, told in _FAILED.findall(text)[: MOST_FINDINGS + 1]
        for name, _, why in (told.partition(" - "),)
    ]
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if failed and not found:
        found = [finding("pytest", "", f"{failed} tests failed")]
    return bounded(
        found,
        format="pytest",
        passed=counts.get("passed", 0) + counts.get("xfailed", 0) + counts.get("xpassed", 0),
        failed=failed,
        skipped=counts.get("skipped", 0),
        complete=exit_code in (0, 1) and len(found) >= failed,
    )


def _tells(line: str) -> bool:
    """Whether a line says more than that something failed."""
    return bool(line.strip("-=. \t")) and not line.startswith(("make:", "npm ERR", "npm error"))


def _raw(kind: PatrolKind, output: bytes, exit_code: int) -> PatrolReport:
    """A command that says nothing we know: it worked, or it did not."""
    if exit_code == 0:
        return PatrolReport(format="raw")
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if _tells(line)]
    last = clean(lines[-1], 300) if lines else ""
    words = f"{kind} failed with status {exit_code}{f': {last}' if last else ''}"
    return bounded([finding(f"{kind}.failed", "", words)], format="raw")
