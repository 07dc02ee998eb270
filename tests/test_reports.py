"""A failure whose report cannot be made is one failure, not the end of the run."""

import subprocess
import sys

BROKEN_PLUGIN = """
import pytest

@pytest.hookimpl(trylast=True, wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.excinfo is not None:
        raise SystemError("AST constructor recursion depth mismatch")
    return report
"""
TESTS = """
def test_bad():
    assert 1 == 2

def test_good():
    pass
"""


def test_a_failure_that_cannot_be_shown_does_not_end_the_run(tmp_path):
    (tmp_path / "broken_plugin.py").write_text(BROKEN_PLUGIN)
    (tmp_path / "test_two.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "broken_plugin", "-n", "0",
         "-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path)],
        env={"PYTHONPATH": f"{tmp_path}:.:src", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "assert 1 == 2" in done.stdout
    assert "could not be shown" in done.stdout
