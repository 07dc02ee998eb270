"""Reports of real programs, and what a hostile one tries."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.patrols.detect import commands_of, detect
from coilclaw.features.patrols.parsers import read_report
from coilclaw.features.patrols.report import MOST_FINDINGS


def read(kind, output=b"", *, report=b"", code=0, errors=b""):
    output, report = (x.encode() if isinstance(x, str) else x for x in (output, report))
    return read_report(kind, output, errors, report, code)


JUNIT = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" errors="0" failures="1"
skipped="1" tests="3" time="0.03"><testcase classname="tests.test_a" name="test_ok" time="0.001" />
<testcase classname="tests.test_a" name="test_bad" time="0.001"><failure message="assert 1 == 2">def test_bad():
&gt; assert 1 == 2</failure></testcase><testcase classname="tests.test_a" name="test_later" time="0">
<skipped type="pytest.skip" message="later">x</skipped></testcase></testsuite></testsuites>"""


def test_junit_is_counted_and_its_failures_are_findings():
    told = read("test", report=JUNIT, code=1)
    assert (told.format, told.passed, told.failed, told.skipped, told.complete) == ("junit", 1, 1, 1, True)
    (found,) = told.findings
    assert found.rule == "tests.test_a::test_bad"
    assert found.text == "tests.test_a::test_bad failed: assert 1 == 2"


def test_junit_failure_without_a_message_is_told_by_its_text():
    (found,) = read("test", report=JUNIT.replace(' message="assert 1 == 2"', ""), code=1).findings
    assert "def test_bad()" in found.text


def test_junit_of_a_run_that_stopped_early_resolves_nothing():
    assert not read("test", report=JUNIT, code=2).complete


@pytest.mark.parametrize(
    "hostile",
    [
        '<?xml version="1.0"?><!DOCTYPE t [<!ENTITY a "ha">]><testsuite><testcase name="&a;"/></testsuite>',
        '<!DOCTYPE t SYSTEM "file:///etc/passwd"><testsuite><testcase name="a"/></testsuite>',
        '<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/passwd">]><testsuite><testcase>&x;</testcase></testsuite>',
        "<testsuite>" * 100_000,
        "<testsuite><testcase name='a'>",
        "<html><testsuite/></html>",
        "<testsuite><testcase name='\x00'/></testsuite>",
    ],
)
def test_hostile_xml_is_not_read_and_passes_nothing(hostile):
    told = read("test", report=hostile, code=1)
    assert (told.format, told.passed) == ("raw", 0)
    assert told.findings


@pytest.mark.parametrize("encoding", ["no-such", "base64", "undefined", "utf-16", "unicode_escape"])
def test_encoding_that_a_report_claims_is_not_believed(encoding):
    assert read("test", report=JUNIT.replace("utf-8", encoding), code=1) == read("test", report=JUNIT, code=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flood",
    [
        b"x" + b"\n" * (1 << 20) + b"y",
        b"1 passed in " + b" " * (1 << 20) + b"!",
        b"".join(b'{"Action":"fail","Package":"p%d"}\n' % number for number in range(100_000)),
        b'{"auditReportVersion":2,"vulnerabilities":{%s}}' % b",".join(b'"p%d":{}' % each for each in range(100_000)),
    ],
    ids=["lines", "blanks", "packages", "audited"],
)
def test_flood_is_read_in_time_that_grows_with_its_length(flood):
    """Each of these took hours when the time grew with the square of it, and the server stood still meanwhile."""
    assert read("test", flood, code=1).findings


def test_names_with_escapes_show_nothing_hidden():
    nasty = "evil\x1b[2J\u202e\nFAKE LINE" + "a" * 10_000
    sarif = {"runs": [{"results": [{"ruleId": nasty, "level": "error", "message": {"text": nasty}}]}]}
    for told in (
        read("lint", json.dumps(sarif)),
        read(
            "lint", json.dumps([{"code": nasty, "filename": nasty, "message": nasty, "location": {"row": "x"}}]), code=1
        ),
        read("test", json.dumps({"Action": "fail", "Package": nasty, "Test": nasty}) + "\n", code=1),
        read("build", b"\x1b]0;title\x07\xff\xfe oh no \x1b[31m", code=3),
    ):
        (found,) = told.findings
        for text in (found.rule, found.path, found.text):
            assert len(text) <= 400
            assert not set(text) & {"\x1b", "\u202e", "\n", "\x07"}


def test_too_many_findings_are_cut_and_then_nothing_is_resolved():
    many = [{"code": f"E{n}", "filename": "a.py", "message": "x", "location": {"row": 1}} for n in range(2000)]
    told = read("lint", json.dumps(many), code=1)
    assert len(told.findings) == MOST_FINDINGS
    assert not told.complete


@pytest.mark.parametrize(("exit_code", "complete"), [(0, True), (1, True), (2, False), (137, False)])
def test_sarif_of_a_program_that_broke_off_is_not_complete(exit_code, complete):
    told = {"runs": [{"results": [{"ruleId": "a", "level": "error", "message": {"text": "b"}}]}]}
    assert read_report("security", json.dumps(told).encode(), b"", b"", exit_code).complete is complete


def test_sarif_levels_and_places():
    run = {
        "results": [
            {
                "ruleId": "py/sql",
                "level": "error",
                "message": {"text": "SQL injection"},
                "locations": [
                    {"physicalLocation": {"artifactLocation": {"uri": "a/b.py"}, "region": {"startLine": 7}}}
                ],
            },
            {"ruleId": "quiet", "message": {"text": "x"}, "suppressions": [{"kind": "inSource"}]},
            {"ruleId": "note", "level": "note", "message": {"text": "y"}},
        ]
    }
    told = read("security", json.dumps({"version": "2.1.0", "runs": [run]}))
    assert [(f.rule, f.path, f.line, f.severity) for f in told.findings] == [
        ("py/sql", "a/b.py", 7, "error"),
        ("note", "", 0, "info"),
    ]
    failed = {"runs": [{"invocations": [{"executionSuccessful": False}], "results": []}]}
    assert not read("security", json.dumps(failed)).complete


def test_ruff_and_eslint():
    ruff = [
        {
            "cell": None, "code": "F401", "filename": "/home/x/patrol_1m7nn/site/src/a.py", "fix": None,
            "location": {"column": 8, "row": 1}, "message": "`os` imported but unused", "noqa_row": 1,
        },
        {"code": None, "filename": "b.py", "location": {"row": 2}, "message": "SyntaxError: Expected"},
    ]  # fmt: skip
    told = read("lint", json.dumps(ruff), code=1)
    assert [(f.rule, f.path, f.severity) for f in told.findings] == [
        ("F401", "src/a.py", "warning"),
        ("syntax", "b.py", "error"),
    ]
    eslint = [{"filePath": "/w/patrol_1/x/src/a.js", "messages": [{"ruleId": "no-undef", "severity": 2, "line": 3}]}]
    told = read("lint", json.dumps(eslint), code=1)
    assert [(f.rule, f.path, f.line, f.severity) for f in told.findings] == [("no-undef", "src/a.js", 3, "error")]
    assert read("lint", "[]").findings == ()


def test_the_same_finding_on_another_line_has_the_same_fingerprint():
    def prints(row):
        made = [{"code": "F401", "filename": "a.py", "location": {"row": row}, "message": f"on {row}"}]
        return [f.fingerprint("site", "lint") for f in read("lint", json.dumps(made), code=1).findings]

    assert prints(1) == prints(9)


PYTEST = """.F.E                                                     [100%]
=================================== FAILURES ===================================
=========================== short test summary info ============================
FAILED tests/test_a.py::test_bad - AssertionError: assert 1 == 2
ERROR tests/test_a.py::test_worse - RuntimeError: x
1 failed, 2 passed, 1 skipped, 1 error in 0.05s
"""


def test_output_of_pytest():
    told = read("test", PYTEST, code=1)
    assert (told.format, told.passed, told.failed, told.skipped) == ("pytest", 2, 2, 1)
    assert [f.rule for f in told.findings] == ["tests/test_a.py::test_bad", "tests/test_a.py::test_worse"]
    assert told.complete
    assert not read("test", "==== 2 errors in 0.1s ====", code=2).complete


def test_cargo_messages_and_its_tests():
    lines = [
        {"reason": "compiler-artifact"},
        {
            "reason": "compiler-message",
            "message": {
                "level": "warning", "message": "unused variable: `x`", "code": {"code": "unused_variables"},
                "spans": [{"file_name": "src/main.rs", "line_start": 2}],
            },
        },
        {"reason": "compiler-message", "message": {"level": "warning", "message": "1 warning", "spans": []}},
        {"reason": "build-finished", "success": True},
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, lines))
    tests = "\ntest it_works ... ok\ntest it_fails ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; x"
    told = read("test", text + tests, code=101)
    assert [(f.rule, f.path) for f in told.findings] == [("unused_variables", "src/main.rs"), ("it_fails", "")]
    assert (told.format, told.passed, told.failed) == ("cargo", 1, 1)
    assert read("build", json.dumps(lines[1]), code=101).format == "raw"  # it never finished


def test_go_tests():
    lines = [
        {"Action": "run", "Package": "x/y", "Test": "TestA"},
        {"Action": "output", "Package": "x/y", "Test": "TestA", "Output": "    a_test.go:5: wrong\n"},
        {"Action": "fail", "Package": "x/y", "Test": "TestA"},
        {"Action": "pass", "Package": "x/y", "Test": "TestB"},
        {"Action": "fail", "Package": "x/y"},
        {"Action": "fail", "Package": "x/z"},
    ]
    told = read("test", "\n".join(map(json.dumps, lines)), code=1)
    assert (told.passed, told.failed) == (1, 1)
    assert [(f.rule, f.path) for f in told.findings] == [("TestA", "x/y"), ("build", "x/z")]
    assert "a_test.go:5: wrong" in told.findings[0].text


# Audits


def test_skipped_package_is_not_audited_although_the_program_calls_it_clean():
    told = read(
        "deps",
        json.dumps({"dependencies": [{"name": "mine", "skip_reason": "not on PyPI"}], "fixes": []}),
        errors=b"No known vulnerabilities found",
    )
    assert "skipped" in told.unaudited
    assert not told.complete
    assert read("deps", "No known vulnerabilities found\n").unaudited
    assert read("deps", json.dumps({"dependencies": []})).unaudited


def test_pip_audit_findings():
    vuln = {"id": "PYSEC-2018-66", "fix_versions": ["0.12.3"], "aliases": [], "description": "x"}
    told = read("deps", json.dumps({"dependencies": [{"name": "flask", "version": "0.5", "vulns": [vuln]}]}), code=1)
    assert not told.unaudited
    assert told.complete
    (found,) = told.findings
    assert (found.rule, found.path) == ("PYSEC-2018-66", "flask")
    assert "fixed in 0.12.3" in found.text


def test_registry_that_only_reads_means_not_audited():
    refused = {"message": "405 Method Not Allowed", "method": "POST", "error": {"summary": "", "detail": ""}}
    for told in (
        refused,
        {"error": {"code": "ENOAUDIT", "summary": "Your configured registry does not support audit"}},
    ):
        assert read("deps", json.dumps(told), code=1).unaudited
    via = {
        "source": 1,
        "title": "Prototype Pollution",
        "url": "https://github.com/advisories/GHSA-x",
        "severity": "high",
    }
    good = {
        "auditReportVersion": 2,
        "vulnerabilities": {
            "minimist": {"severity": "critical", "via": [via]},
            "mkdirp": {"severity": "critical", "via": ["minimist"]},
        },
    }
    told = read("deps", json.dumps(good), code=1)
    assert [(f.path, f.severity) for f in told.findings] == [("minimist", "critical")]


def test_cargo_audit_without_a_database_is_not_audited():
    advisory = {"advisory": {"id": "RUSTSEC-1", "title": "bad"}, "package": {"name": "time", "version": "0.1"}}
    told = {
        "database": {"advisory-count": 5},
        "lockfile": {"dependency-count": 3},
        "vulnerabilities": {"found": True, "list": [advisory]},
    }
    assert [f.rule for f in read("deps", json.dumps(told), code=1).findings] == ["RUSTSEC-1"]
    assert read("deps", json.dumps({"lockfile": {}, "vulnerabilities": {}})).unaudited


# Whatever comes


@given(
    st.sampled_from(["lint", "test", "build", "deps", "security"]),
    st.binary(max_size=300) | st.sampled_from([b"{", b"[", b"<", b'{"runs": [1]}', b'[{"messages": 3}]', b"[" * 5000]),
    st.integers(0, 255),
)
def test_no_output_makes_it_raise_and_a_failing_command_is_never_silent(kind, data, code):
    told = read(kind, data, report=data, code=code)
    assert code == 0 or told.findings or told.unaudited


@pytest.mark.parametrize(
    "told",
    [
        {"runs": [{"results": [None, 3, {"message": "x", "locations": "y"}], "invocations": 4}]},
        {"dependencies": [{"name": 3, "vulns": [{"fix_versions": [None, 1]}]}]},
        {"auditReportVersion": 2, "vulnerabilities": {"a": 3, "b": {"via": [{"title": 7}], "severity": []}}},
        {"database": 3, "lockfile": [], "vulnerabilities": {"list": [{"advisory": 1}]}},
        {"dependencies": [{"name": "a", "vulns": [{"fix_versions": 5}]}]},
        {"Action": [], "Package": {}, "Test": 3},
        {"runs": [{"results": [{"level": [], "ruleId": {}, "message": {"text": []}}]}]},
        {"reason": [], "message": {"level": {}, "spans": 3}},
    ],
)
def test_wrong_types_within_a_known_format_do_no_harm(told):
    read("deps", json.dumps(told), code=1)


# Finding commands


def test_tables_of_a_pyproject_are_found_without_reading_the_rest_of_it():
    hostile = b"a." * 130_000 + b"a = 1\n"  # a parser makes a table of each
    assert detect({"pyproject.toml": hostile}) == {}
    found = detect({"pyproject.toml": b"[project]\nname = 'x'\n[tool.ruff.lint]\n[ tool . pytest.ini_options ]\n"})
    assert found.keys() == {"lint", "test"}
    assert detect({"pyproject.toml": b"[tool.ruffian]\n# [tool.ruff]\n[tools.pytest]\n"}) == {}


def test_commands_are_found_in_the_files_and_the_owners_come_first():
    files = {
        "pyproject.toml": b"[tool.pytest.ini_options]\n[tool.ruff]\n",
        "package.json": b'{"scripts": {"test": "vitest", "build": "vite build", "lint": "x"}}',
        "package-lock.json": b"{}",
        "Makefile": b"build:\n\ttrue\n",
    }
    found = detect(files)
    assert found["test"].startswith("python3 -m pytest")
    assert found["lint"].startswith("ruff check")
    assert found["build"] == "npm run --silent build"
    assert found["deps"].startswith("npm audit")
    assert commands_of({"test": "tox", "build": "off"}, files).get("test") == "tox"
    assert "build" not in commands_of({"build": "off"}, files)
    assert detect({"Cargo.toml": b"", "Cargo.lock": b""})["deps"].startswith("cargo audit")
    assert detect({"go.mod": b""})["test"] == "go test -json ./..."
    assert detect({"pyproject.toml": b"\xff[", "package.json": b"[" * 100_000, "Makefile": b"\xff"}) == {}
