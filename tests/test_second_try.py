"""What failed in a whole run is tried once more, alone: a report about luck, which passes nothing that fails twice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
RUN = """
set -eu
root=$1 folder=$2 python=$3
. "$root/scripts/lib.sh"
trap tell_luck EXIT
twice "$python" -m pytest -q -p xdist -n 2 -c /dev/null --rootdir "$folder" "$folder"
echo all passed
"""
LUCKY = """
def test_lucky_{0}(request):
    been = request.path.with_name("been-{0}")
    if not been.exists():
        been.touch()
        raise AssertionError("the first time")
"""


def run(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_some.py").write_text("def test_good():\n    pass\n" + tests)
    return subprocess.run(
        ["sh", "-c", RUN, "sh", ROOT, folder, sys.executable],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # other plugins take their time to start
        capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip


def test_what_passes_at_the_second_try_is_named_at_the_end(tmp_path: Path) -> None:
    done = run(tmp_path, LUCKY.format("a") + LUCKY.format("b"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout  # those two alone
    assert done.stderr.endswith(
        "passed only on the second try:\n  test_some.py::test_lucky_a\n  test_some.py::test_lucky_b\n"
    )


def test_what_fails_again_is_a_failure_and_luck_is_named_beside_it(tmp_path: Path) -> None:
    done = run(tmp_path, LUCKY.format("a") + "def test_bad():\n    assert False\n")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "all passed" not in done.stdout
    assert done.stderr.endswith("passed only on the second try:\n  test_some.py::test_lucky_a\n")


def test_more_than_ten_failures_are_not_tried_again(tmp_path: Path) -> None:
    done = run(tmp_path, "".join(LUCKY.format(each) for each in "abcdefghijk"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "11 failed" in done.stdout
    assert "second try" not in done.stderr


def test_a_run_without_failures_says_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_tests_that_cannot_be_collected_are_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path, "import nothing_of_this_name\n")
    assert done.returncode != 0, done.stdout + done.stderr
    assert "second try" not in done.stderr
