"""kill -9 at every boundary of a run: nothing is done twice, nothing is lost, what cannot be known is said."""

import asyncio
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from coilclaw.ledger.chain import list_receipts
from coilclaw.store.actions import actions_of_turn, load_action
from coilclaw.store.sops import load_run
from tests.features.sops.sop_life import WORDS, Life

ROOT = Path(__file__).resolve().parents[3]
NAMES = (
    "proposed", "decided", "claiming", "begun", "starting", "done", "finishing", "finished", "copying", "copied",
    "sop_step_begun", "sop_step_ended", "sop_over",
)  # fmt: skip


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A home with a run that was stored and not worked on yet, and every boundary such a run reaches."""
    base = tmp_path_factory.mktemp("life")
    life = Life(base / "made")
    run_id = life.begin()
    life.app.close()
    shutil.copytree(base / "made", base / "tried", symlinks=True)
    seen = Counter()
    trial = Life(base / "tried", lambda name: seen.update([name]))
    assert trial.go_on(run_id).run.state == "DONE"
    assert trial.marks() == Counter(WORDS)
    trial.app.close()
    return base / "made", run_id, seen


def kill_at(base, run_id, name, number):
    command = [sys.executable, "-m", "tests.features.sops.sop_life", str(base), run_id, name, str(number)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=280)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()[-2000:]


def bring_to_rest(life, run_id):
    """What a restart does; whatever nobody can know is answered by the owner, who looked."""
    for _ in range(6):
        moved = life.go_on(run_id)
        if moved.stop != "waiting":
            return moved
        life.say_yes()
        for action_id in moved.waiting:
            action = load_action(life.app.db.reader, action_id)
            if action.status == "APPROVED":
                continue
            assert action.status == "UNKNOWN", action
            word = action.call.args_bytes.decode().split('"')[3]
            verdict = "executed" if life.marks()[word] else "not-executed"
            asyncio.run(life.app.approvals(life.procedures.conveyor).resolve(action, verdict, by="terminal"))
    raise AssertionError(moved)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_killed_at_every_boundary_a_run_ends_and_nothing_is_done_twice(begun, tmp_path, name):
    made, run_id, seen = begun
    assert seen[name], f"no run reaches {name}"
    for number in range(1, seen[name] + 1):
        base = tmp_path / str(number)
        shutil.copytree(made, base, symlinks=True)
        kill_at(base, run_id, name, number)
        life = Life(base)
        try:
            moved = bring_to_rest(life, run_id)
            marks = life.marks()
            assert max(marks.values(), default=0) <= 1, (number, marks)
            if moved.run.state == "DONE":
                # The agent's own call may be known to have had no effect; then the model was told, and answered.
                assert marks["first"] == marks["last"] == 1, (number, marks)
                assert (life.app.workspace / "intel" / "life.md").read_text() == "marked"
            else:
                assert "UNKNOWN" in moved.run.reason or "RESOLVED" in moved.run.reason, moved
            for action in actions_of_turn(life.app.db.reader, moved.run.turn_id):
                assert action.status not in ("PENDING", "APPROVED"), action
            receipts = Counter(
                each.action_id for each in list_receipts(life.app.db.reader, 100) if each.status == "allowed"
            )
            assert max(receipts.values(), default=0) <= 1
            assert load_run(life.app.db.reader, run_id).worker is None
        finally:
            life.app.close()


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    """A home with a run that waits for a call which was approved and not carried out."""
    base = tmp_path_factory.mktemp("gated") / "made"
    life = Life(base)
    run_id = life.begin("gated")
    assert life.go_on(run_id).stop == "waiting"
    life.say_yes()
    assert life.go_on(run_id).stop == "waiting"
    life.say_yes()
    life.app.close()
    return base, run_id


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decided", "claiming", "begun", "starting", "done", "finishing", "finished"])
def test_killed_while_an_approved_call_is_carried_out_it_is_done_at_most_once(gated, tmp_path, name):
    made, run_id = gated
    for number in (1, 2):
        base = tmp_path / str(number)
        shutil.copytree(made, base, symlinks=True)
        kill_at(base, run_id, name, number)
        life = Life(base)
        try:
            moved = bring_to_rest(life, run_id)
            marks = life.marks()
            assert max(marks.values(), default=0) <= 1, (number, marks)
            if moved.run.state == "DONE":
                assert marks == Counter(["guarded", "last"])
            else:
                assert "RESOLVED_NOT_EXECUTED" in moved.run.reason, moved
        finally:
            life.app.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["proposed", "decided", "waiting", "sop_step_begun", "sop_step_ended"])
def test_killed_on_the_way_to_a_question_it_is_asked_once(tmp_path, name):
    life = Life(tmp_path)
    run_id = life.begin("gated")
    life.app.close()
    kill_at(tmp_path, run_id, name, 1)
    life = Life(tmp_path)
    try:
        assert life.go_on(run_id).stop == "waiting"
        assert len(actions_of_turn(life.app.db.reader, load_run(life.app.db.reader, run_id).turn_id)) == 1
        assert bring_to_rest(life, run_id).run.state == "DONE"
        assert life.marks() == Counter(["guarded", "last"])
    finally:
        life.app.close()


@pytest.mark.slow
def test_two_processes_that_resume_at_once_do_not_run_a_step_twice(begun, tmp_path):
    made, run_id, _ = begun
    base = tmp_path / "both"
    shutil.copytree(made, base, symlinks=True)
    command = [sys.executable, "-m", "tests.features.sops.sop_life", str(base), run_id, "never", "1"]
    pair = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    for process in pair:
        process.communicate(timeout=280)
    life = Life(base)
    try:
        assert load_run(life.app.db.reader, run_id).state == "DONE"
        assert life.marks() == Counter(WORDS)
        assert len(actions_of_turn(life.app.db.reader, load_run(life.app.db.reader, run_id).turn_id)) == 4
    finally:
        life.app.close()
