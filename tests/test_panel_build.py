"""The panel's build: made once, not again when nothing changed, and part of the wheel."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.panel.house import build_panel

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "src" / "coilclaw" / "panel"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def panel():
    build_panel()


def test_nothing_is_built_again_when_nothing_changed():
    before = (BUILT / "files.json").stat()
    without_node = {**os.environ, "PANEL_NODE": "/there/is/none"}  # whoever would build has to fail
    ran = subprocess.run(
        [ROOT / "scripts" / "panel", "build"], env=without_node, capture_output=True, text=True, timeout=280
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    after = (BUILT / "files.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_story_that_is_named_runs_alone():
    one = "tests/panel/test_markdown.py"
    ran = subprocess.run(
        [ROOT / "scripts" / "panel", "story", one, "--collect-only"],
        env={**os.environ, "TEST_JOBS": "0"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert {line.partition("::")[0] for line in ran.stdout.splitlines() if "::" in line} == {one}


def test_the_wheel_has_the_panel_whole(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if name.startswith("coilclaw/panel/")}
    there = {f"coilclaw/panel/{path.relative_to(BUILT).as_posix()}" for path in BUILT.rglob("*") if path.is_file()}
    assert {"coilclaw/panel/index.html", "coilclaw/panel/sw.js", "coilclaw/panel/files.json"} <= packed
    assert there - packed <= {"coilclaw/panel/.stamp"}
