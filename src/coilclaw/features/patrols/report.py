"""What a patrol's command reported. Everything in it is anybody's words: bounded, on one line, without controls."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.canonical import digest_of
from coilclaw.packets.text import one_line

Severity: TypeAlias = Literal["info", "warning", "error", "critical"]
Format: TypeAlias = Literal[
    "junit", "sarif", "ruff", "eslint", "pytest", "cargo", "go", "pip-audit", "npm-audit", "cargo-audit", "raw"
]
MOST_FINDINGS = 500
MOST_NUMBER = 1_000_000_000
_TEXT = 400
_NAME = 200


class ReportedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    rule: str
    """The rule, test or advisory. With the path it tells one finding from another; lines and words move."""
    path: str
    line: int
    severity: Severity
    text: str

    def fingerprint(self, building: str, kind: str) -> str:
        """The same thing in the same place, whichever run sees it and on whichever line."""
        return digest_of(b"alert", building.encode(), kind.encode(), self.rule.encode(), self.path.encode())


class PatrolReport(msgspec.Struct, frozen=True, kw_only=True):
    """A command's output, read."""

    format: Format
    findings: tuple[ReportedFinding, ...] = ()
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    complete: bool = True
    """It names everything that is wrong: what it does not name is no longer there."""
    unaudited: str = ""
    """Why an audit says nothing about some of what it should have looked at."""


class Unreadable(Exception):
    """The output is not in the format that it looked like."""


def finding(
    rule: object, path: object, text: object, severity: Severity = "error", *, line: object = 0
) -> ReportedFinding:
    """A finding of whatever a program wrote, made harmless."""
    return ReportedFinding(
        rule=clean(rule, _NAME) or "unnamed",
        path=clean(path, _NAME),
        line=count_of(line),
        severity=severity,
        text=clean(text, _TEXT),
    )


def clean(value: object, most: int) -> str:
    """A text on one line, without hidden characters, cut."""
    return one_line(value[: 4 * most].strip())[:most] if isinstance(value, str) else ""


def word_of(value: object) -> str:
    """A word that a program wrote, to be compared; empty if it is none."""
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """A number that a program wrote; 0 if it is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:12])
    return min(max(value, 0), MOST_NUMBER) if isinstance(value, int) and not isinstance(value, bool) else 0


def bounded(found: "list[ReportedFinding]", **more: object) -> PatrolReport:
    """A report of these findings, each once; of too many the rest is left out, and then it is not complete."""
    once = {(each.rule, each.path): each for each in reversed(found)}
    kept = tuple(reversed(once.values()))
    report = msgspec.convert({"format": "raw", **more}, PatrolReport)
    complete = report.complete and len(kept) <= MOST_FINDINGS
    return msgspec.structs.replace(report, findings=kept[:MOST_FINDINGS], complete=complete)
