"""JUnit XML, read by hand: no document type, no entities, bounded depth and number. Pure."""

from xml.parsers import expat

from coilclaw.features.patrols.report import (
    MOST_FINDINGS,
    PatrolReport,
    ReportedFinding,
    Unreadable,
    bounded,
    finding,
)

MOST_DEPTH = 64
MOST_CASES = 200_000
_TEXT = 2000


class _Cases:
    """Collects test cases while the parser goes along."""

    def __init__(self) -> None:
        self.found: list[ReportedFinding] = []
        self.passed = self.failed = self.skipped = 0
        self.suites = 0
        self._depth = 0
        self._case: dict[str, str] | None = None
        self._outcome = ""
        self._message = ""
        self._in_brief = False
        """The failure has a message of its own; what it holds besides repeats that, or is a trace."""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise Unreadable("it is nested too deeply")
        if self._depth == 1 and name not in ("testsuites", "testsuite"):
            raise Unreadable("it is not JUnit")
        if name == "testsuite":
            self.suites += 1
        elif name == "testcase":
            if self.passed + self.failed + self.skipped > MOST_CASES:
                raise Unreadable("it has too many test cases")
            self._case, self._outcome, self._message = attributes, "passed", ""
            self._in_brief = False
        elif self._case is not None and name in ("failure", "error", "skipped"):
            if self._outcome != "failed":
                self._outcome = "skipped" if name == "skipped" else "failed"
            if not self._message:
                self._message = attributes.get("message", "")[:_TEXT]
                self._in_brief = bool(self._message.strip())

    def end(self, name: str) -> None:
        self._depth -= 1
        if name != "testcase" or self._case is None:
            return
        case, self._case = self._case, None
        match self._outcome:
            case "failed":
                self.failed += 1
                if len(self.found) <= MOST_FINDINGS:
                    self.found.append(self._finding(case))
            case "skipped":
                self.skipped += 1
            case _:
                self.passed += 1

    def words(self, text: str) -> None:
        if self._case is not None and self._outcome == "failed" and not self._in_brief and len(self._message) < _TEXT:
            self._message += text[:_TEXT]

    def _finding(self, case: dict[str, str]) -> ReportedFinding:
        name, owner = case.get("name", "")[:1000], case.get("classname", "")[:1000]
        rule = f"{owner}::{name}" if owner else name
        words = f"{rule} failed: {self._message}" if self._message.strip() else f"{rule} failed"
        return finding(rule, case.get("file", ""), words, line=case.get("line", ""))


def read_junit(data: bytes, exit_code: int) -> PatrolReport:
    """A JUnit report; Unreadable if it is none, or tries anything."""
    cases = _Cases()
    parser = expat.ParserCreate("utf-8")  # whatever it claims: any codec of Python's could be named
    parser.buffer_text = True

    def refuse(*_: object) -> int:
        raise Unreadable("it declares a document type")

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    parser.StartElementHandler = cases.start
    parser.EndElementHandler = cases.end
    parser.CharacterDataHandler = cases.words
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, UnicodeError) as error:
        raise Unreadable(f"its XML is broken: {error}") from error
    if not cases.suites:
        raise Unreadable("it is not JUnit")
    # 2 and above: pytest and others stopped before every test had run
    complete = exit_code == 0 or (exit_code == 1 and cases.failed > 0)
    return bounded(
        cases.found,
        format="junit",
        passed=cases.passed,
        failed=cases.failed,
        skipped=cases.skipped,
        complete=complete,
    )
