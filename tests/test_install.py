"""What installing runs: wheels of the locked hashes, and no code of a package before it is used."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = [path for folder in ("scripts", ".ci") for path in sorted((ROOT / folder).glob("*")) if path.is_file()]
LINES = [
    (path.name, line)
    for path in FILES
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    if re.search(r"\bpip install\b", line) and not line.lstrip().startswith(("#", "stop "))
]


def test_the_lines_that_install_are_known() -> None:
    assert {name for name, _ in LINES} == {"lib.sh", "panel"}
    assert len(LINES) == 6


@pytest.mark.parametrize(("name", "line"), LINES, ids=lambda each: each[:40])
def test_nothing_is_built_while_installing_but_this_project(name: str, line: str) -> None:
    if "--only-binary :all:" in line:
        assert "--require-hashes" in line
        assert " -r " in line
    else:
        assert "--no-deps --no-build-isolation -e" in line
        assert '-e "$root"' in line


def test_another_interpreter_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(sys.executable)
    found = subprocess.run(
        ["sh", "-c", ". scripts/lib.sh; find_python"],
        cwd=ROOT,
        env={**os.environ, "COILCLAW_PYTHON": str(tmp_path / "other")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(tmp_path / "other")
