"""The short form of scripts/torture: killed at every boundary and at random, nothing is lost and nothing done twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture import earlier, evolve, github, held, mails, pulls, questions, resumed, sessions
from tests.torture.life import POINTS
from tests.torture.run import VARIANTS, make_template

ROOT = Path(__file__).resolve().parents[2]


def run_torture(folder: Path, *options: str):
    results = folder / "tallies.json"
    short = (
        "--workers",
        "2",
        "--flips",
        "0",
        "--files",
        "0",
        "--boxes",
        "0",
        "--stops",
        "0",
        "--resumes",
        "0",
        "--pulls",
        "0",
        "--sessions",
        "0",
        "--mails",
        "0",
        "--evolve",
        "0",
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture.run", "--json", str(results), *short, "--no-earlier", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    return done, {(tally["how"], tally["variant"]): tally for tally in json.loads(results.read_text())}


@pytest.mark.slow
def test_killed_anywhere_nothing_is_lost_or_done_twice(tmp_path):
    done, tallies = run_torture(tmp_path, "--kills", "2", "--random", "30", "--races", "6", "--boxes", "0")
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
    options = (
        "--kills",
        "6",
        "--random",
        "0",
        "--races",
        "0",
        "--boxes",
        "0",
        "--receivers",
        "liar",
        "--folder",
        str(tmp_path),
    )
    done, tallies = run_torture(tmp_path, *options)
    assert done.returncode == 1
    assert sum(tally["duplicated"] for tally in tallies.values()) > 0


@pytest.mark.slow
def test_killed_around_a_box_nothing_is_left_and_unknown_means_it_may_have_begun(tmp_path):
    """On a disk: the workspace must be one that root can lend."""
    options = (
        "--kills",
        "0",
        "--random",
        "0",
        "--races",
        "0",
        "--flips",
        "0",
        "--files",
        "0",
        "--boxes",
        "25",
        "--folder",
        str(tmp_path),
    )
    done, _ = run_torture(tmp_path, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left behind: 0 boxes, 0 locks" in done.stdout


@pytest.mark.slow
def test_a_turn_that_waits_and_continues_is_killed_anywhere_and_loses_and_repeats_nothing(tmp_path):
    options = ("--kills", "0", "--random", "0", "--races", "0", "--resumes", "2", "--seed", "20261117")
    done, _ = run_torture(tmp_path, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    for point in (*resumed.POINTS, "race"):
        assert f"| {point} | 2 | " in done.stdout


@pytest.mark.slow
def test_a_pull_request_is_killed_anywhere_and_merged_once(tmp_path):
    make_template(tmp_path / "template")
    for point in pulls.POINTS:
        tally = pulls.kill_pulls(tmp_path / point, tmp_path / "template", point, 1)
        assert (tally.kills, tally.lost, tally.twice, tally.said) == (1, 0, 0, []), point


@pytest.mark.slow
@pytest.mark.parametrize("point", github.POINTS)
def test_a_pull_request_on_github_is_killed_anywhere_and_stands_and_merges_there_once(tmp_path, point):
    make_template(tmp_path / "template")
    tally = github.kill_between(tmp_path / point, tmp_path / "template", point, 1)
    assert (tally.kills, tally.lost, tally.twice, tally.said) == (1, 0, 0, [])


@pytest.mark.slow
@pytest.mark.parametrize("tool", mails.TOOLS)
@pytest.mark.parametrize("part", range(4))
def test_a_mail_is_killed_anywhere_and_written_once(tmp_path, tool, part):
    make_template(tmp_path / "template")
    for number, point in list(enumerate(mails.POINTS))[part::4]:
        mood = mails.MOODS[number % len(mails.MOODS)]
        tally = mails.kill_mail(tmp_path / point, tmp_path / "template", point, tool, mood)
        assert tally.said == []


@pytest.mark.slow
def test_writers_that_are_stopped_with_the_lock_lose_nothing(tmp_path):
    assert held.stop_writers(tmp_path, 6, 20261116) == []


@pytest.mark.slow
def test_a_home_of_an_earlier_commit_works_with_the_code_of_today(tmp_path):
    commits = earlier.known_commits()
    if not commits:
        pytest.skip("a checkout without history has no earlier commits")
    assert earlier.try_home(commits[len(commits) // 2], tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", ["session_kept", "session_recorded", "session_ending", "keeper", "nursery"])
def test_a_killed_server_or_keeper_leaves_no_line_missing_or_doubled_and_no_end_without_receipt(tmp_path, how):
    make_template(tmp_path / "template")
    tally = sessions.kill_sessions(tmp_path / "home", tmp_path / "template", how, 1, 1)
    assert tally.wrong == []
    assert tally.kills


@pytest.mark.slow
@pytest.mark.parametrize("way", ["begun", "hook_decided", "leaving: begun", "leaving: session_pull_kept"])
def test_a_killed_server_lets_no_program_act_without_a_receipt_and_nothing_leave_twice(tmp_path, way):
    make_template(tmp_path / "template")
    tally = questions.kill_questions(tmp_path / "home", tmp_path / "template", way, 1, 1)
    assert tally.wrong == []
    assert tally.kills


@pytest.mark.slow
@pytest.mark.parametrize("change", evolve.CHANGES)
def test_a_killed_watcher_loses_no_signal_and_does_none_twice(tmp_path, change):
    tally = evolve.torture_change(tmp_path / change, change, 1, 1, 2, every=4)
    assert tally.kills >= 2
    assert tally.wrong == []
