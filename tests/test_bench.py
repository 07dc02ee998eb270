"""The benchmarks run and write what they say they write. What they measure is never asserted here."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bench.panel import chromium
from bench.run import ROWS

from tests.missing import lacks

ROOT = Path(__file__).resolve().parent.parent
ROW_FIELDS = {
    "group", "what", "unit", "measured", "against_what", "against", "ratio", "ratio_of_mins", "goal", "ok", "note",
}  # fmt: skip


def _bench(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(ROOT / "bench" / "run.py"), *options],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


@pytest.mark.slow
def test_a_quick_bench_prints_a_table_and_writes_json(tmp_path: Path):
    results = tmp_path / "results.json"
    done = _bench("--quick", "--rows", "policy", "--json", str(results))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| what | measured: median (min) | against |")
    report = json.loads(results.read_text())
    assert report["quick"] is True
    assert report["rounds"] == 3
    assert report["skipped"] == []
    assert report["rows"]
    for row in report["rows"]:
        assert set(row) == ROW_FIELDS
        assert row["group"] == "policy"
        assert set(row["measured"]) == {"min", "median", "samples"}
        assert row["measured"]["min"] <= row["measured"]["median"]
        assert f"| {row['what']}" in done.stdout
    assert any(row["goal"] for row in report["rows"])


@pytest.mark.slow
@pytest.mark.timeout(1300)  # thirty groups one after the other: minutes on a quiet machine
def test_every_group_runs_and_has_rows(tmp_path: Path):
    if shutil.which("bwrap") is None:
        lacks("bubblewrap", "Install the package bubblewrap.")
    groups = [name for name in ROWS if name != "panel" or chromium()]
    results = tmp_path / "results.json"
    done = _bench("--quick", "--rounds", "1", "--rows", *groups, "--json", str(results))
    assert done.returncode == 0, done.stderr
    report = json.loads(results.read_text())
    assert report["skipped"] == []
    assert {row["group"] for row in report["rows"]} == set(groups)


def test_a_group_that_does_not_exist_is_refused_with_the_names_of_those_that_do():
    done = _bench("--rows", "nothing")
    assert done.returncode == 2
    assert "policy" in done.stderr
