"""The short form of scripts/torture: killed at every boundary and at random, nothing is lost and nothing done twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture.life import POINTS
from tests.torture.run import VARIANTS

ROOT = Path(__file__).resolve().parents[2]


def run_torture(folder: Path, *options: str):
    results = folder / "tallies.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture.run", "--json", str(results), "--workers", "2", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    return done, {(tally["how"], tally["variant"]): tally for tally in json.loads(results.read_text())}


@pytest.mark.slow
def test_killed_anywhere_nothing_is_lost_or_done_twice(tmp_path):
    done, tallies = run_torture(tmp_path, "--kills", "2", "--random", "30", "--races", "6")
    assert done.returncode == 0, done.stdout + done.stderr
    for point in POINTS:
        for variant in VARIANTS:
            assert tallies[point, variant]["kills"] == 2
    assert sum(tallies["random", variant]["kills"] for variant in VARIANTS) == 30
    for (_, variant), tally in tallies.items():
        assert (tally["lost"], tally["duplicated"], tally["wrong"]) == (0, 0, 0), tally["said"]
        assert variant == "neither" or not tally["unknown"]
    assert sum(tallies[point, "neither"]["unknown"] for point in ("begun", "starting", "done", "finishing")) > 0


@pytest.mark.slow
def test_a_receiver_that_only_says_it_deduplicates_is_caught(tmp_path):
    """What would be found if something were done twice."""
    options = ("--kills", "6", "--random", "0", "--races", "0", "--receivers", "liar", "--folder", str(tmp_path))
    done, tallies = run_torture(tmp_path, *options)
    assert done.returncode == 1
    assert sum(tally["duplicated"] for tally in tallies.values()) > 0
