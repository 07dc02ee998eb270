"""The watcher with real processes: launches, judges, falls back, holds, merges and goes back."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coilclaw.features.evolve.watcher.agent import is_alive
from tests.features.evolve import watcher_world as says
from tests.features.evolve.watcher_world import COMMS, WATCHER, World
from tests.missing import lacks

pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path):
    worlds = []

    def make(runner=says.SLEEPS, **settings):
        worlds.append(World(tmp_path, runner, **settings))
        return worlds[-1]

    yield make
    for world in worlds:
        world.end()


def test_main_is_launched_from_fresh_files_and_reaches_success(made):
    world = made()
    world.start()
    world.wait_running("main")
    assert world.state()["sha"] == world.first
    assert (world.volume / "main/coilclaw/infra/runner.py").read_text() == says.SLEEPS
    assert f"SUCCESS main {world.first}" in world.boots()
    world.wait(lambda: world.record.last_good() == world.first)


def test_a_second_watcher_does_not_start(made):
    world = made()
    world.start()
    world.wait_running("main")
    words = [sys.executable, "-I", "-S", str(WATCHER), str(world.home / "settings.json")]
    assert subprocess.run(words, check=False).returncode == 75


def test_the_agent_ends_with_the_watcher_however_it_ends(made):
    world = made()
    for end in (world.end, world.kill):
        world.start()
        world.wait_running("main")
        pid = int(str(world.state()["pid"]))
        end()
        world.wait(lambda pid=pid: not is_alive(pid), "the launcher is gone")


def test_hop_scotch_bad_branch_falls_back_good_branch_is_merged_and_main_restarts(made):
    world = made()
    world.start()
    world.wait_running("main")
    world.push("agent/bad", {"infra/runner.py": says.EXITS})
    world.send("bootstrap", "agent/bad\n")
    world.wait(lambda: "FALLBACK main" in world.boots())
    assert "FAILED agent/bad" in world.boots()
    world.wait_running("main")
    new = world.push("agent/good", {"infra/runner.py": says.BOOTS_MAIN, "COMMS.md": COMMS + "- it works\n"})
    world.send("bootstrap", "agent/good")
    world.wait(lambda: world.asks("merge"))
    world.wait_running("main")  # it runs on while the owner thinks
    ask = world.asks("merge")[0]
    assert (ask["branch"], ask["new"]) == ("agent/good", new)
    assert (world.volume / "agent/good/coilclaw").is_dir()
    world.record.merge("agent/good", str(ask["old"]), new)
    world.answer(ask, ok=True)
    world.wait(lambda: world.state().get("sha") not in {"", world.first})
    world.wait(lambda: not (world.volume / "agent/good").exists(), "the merged branch's folder is removed")
    assert world.record.descends(world.record.main(), new)
    assert "- agent/good: it works" in world.record.comms()
    assert "agent/good was merged into main" in world.record.comms()
    assert not list((world.home / "desk").glob("ask-merge*"))
    assert ("agent/good", new, False) in {
        (each["branch"], each["sha"], each["refused"]) for each in world.asks("branch")
    }


def test_a_refused_merge_is_reported_and_not_asked_again(made):
    world = made()
    world.start()
    world.wait_running("main")
    world.push("agent/x", {"infra/runner.py": says.BOOTS_MAIN})
    world.send("bootstrap", "agent/x")
    world.wait(lambda: world.asks("merge"))
    world.answer(world.asks("merge")[0], ok=False, why="not now")
    world.wait(lambda: "agent/x was not merged: not now" in world.record.comms())
    world.send("bootstrap", "agent/x")
    world.wait(lambda: "was refused before" in world.record.comms())
    world.wait_running("main")
    assert not world.asks("merge")
    assert world.record.git.text("show", "main:infra/runner.py") == says.SLEEPS.strip()


def test_a_merge_that_nobody_answered_in_time_can_be_asked_for_again(made):
    world = made()
    world.start()
    world.wait_running("main")
    world.push("agent/x", {"infra/runner.py": says.BOOTS_MAIN})
    names = []
    for count in (1, 2):
        world.send("bootstrap", "agent/x")
        world.wait(lambda: world.asks("merge"), "the merge is asked for")
        (ask,) = world.asks("merge")
        names.append(ask["id"])
        world.answer(ask, ok=False, why="The approval has expired.", expired=True)
        world.wait(lambda count=count: world.record.comms().count("nobody answered whether agent/x") == count)
        world.wait_running("main")
    assert len(set(names)) == 2, "each is a question of its own"


def test_boxed_merge_is_waited_for(made):
    world = made(merge_wait=60)
    world.start()
    world.wait_running("main")
    new = world.push("agent/x", {"infra/runner.py": says.BOOTS_MAIN, "b.py": "2\n"})
    world.send("bootstrap", "agent/x")
    world.wait(lambda: world.asks("merge"))
    ask = world.asks("merge")[0]
    assert world.state()["branch"] == ""
    world.record.merge("agent/x", str(ask["old"]), new)
    world.answer(ask, ok=True)
    world.wait(lambda: "launched main" in world.log().split("asks to be merged")[-1])
    assert (world.volume / "main/coilclaw/b.py").read_text() == "2\n"


@pytest.mark.parametrize("runner", [says.EXITS, says.HANGS, "import nothing_of_the_kind\n"])
def test_main_failing_three_times_is_held_until_main_changes(made, runner):
    world = made(runner, start_seconds=0.5)
    world.start()
    world.wait_held()
    assert world.boots().count("FAILED main") == 3
    world.wait(lambda: "HELD: main failed to start 3 times" in world.record.comms())
    assert world.asks("notice")[0]["severity"] == "critical"
    world.end()
    world.start()  # a hold outlives the watcher
    world.wait_held()
    new = world.push("agent/fix", {"infra/runner.py": says.SLEEPS})
    world.record.take_in()
    world.record.merge("agent/fix", world.record.main(), new)
    world.wait_running("main")


def test_a_hold_offers_the_last_main_that_worked_and_an_order_goes_back_to_it(made):
    world = made()
    world.start()
    world.wait_running("main")
    world.wait(lambda: world.record.last_good() == world.first)
    new = world.push("agent/x", {"infra/runner.py": says.EXITS})
    world.record.take_in()
    world.record.merge("agent/x", world.record.main(), new)
    world.wait_held()
    assert f"evolve rollback {world.first[:12]}" in str(world.state()["reason"])
    world.order(kind="rollback", ref=world.first[:12])
    world.wait_running("agent/rollback-1")
    assert world.record.main() != world.first


def test_an_agent_that_crashes_after_success_comes_back_on_main_each_time(made):
    world = made(says.CRASHES)
    world.start()
    world.wait(lambda: world.boots().count("ended with 3 while working") >= 5)
    assert "about to crash" in (world.volume / "logs/errors.log").read_text()
    assert world.state()["phase"] != "held"


def test_rollback_signal_starts_a_branch_at_the_ref_and_an_unknown_ref_changes_nothing(made):
    world = made()
    world.start()
    world.wait_running("main")
    pid = world.state()["pid"]
    world.send("rollback", "nothing-like-it")
    world.wait(lambda: "rollback refused" in world.record.comms())
    assert world.state()["pid"] == pid
    world.wait(lambda: not (world.volume / ".signal/rollback").exists())
    world.send("rollback", "main")
    world.wait_running("agent/rollback-1")
    assert world.record.sha("refs/heads/agent/rollback-1")
    world.kill()  # as ESTOP ends it
    world.start()
    world.wait_running("main")


def test_both_signals_are_handled_rollback_first(made):
    world = made()
    world.volume.mkdir()
    world.send("rollback", world.first)
    world.send("bootstrap", "main")
    world.start()
    world.wait_running("main")
    assert world.record.sha("refs/heads/agent/rollback-1") == world.first
    log = world.log()
    assert log.index("rollback " + world.first) < log.index("bootstrap main")
    assert list((world.volume / ".signal").iterdir()) == []


def test_a_directive_of_the_owners_does_not_restart_main_but_new_code_does(made, tmp_path):
    world = made()
    world.start()
    world.wait_running("main")
    pid = world.state()["pid"]
    said = world.record.say("go on")
    world.wait(lambda: (world.home / "remote.git/refs/heads/main").read_text().strip() == said)
    assert world.state()["pid"] == pid
    world.git("clone", "-q", str(world.home / "bot.git"), str(tmp_path / "mine"))
    (tmp_path / "mine/b.py").write_text("3\n")
    world.git("add", "-A", where=tmp_path / "mine")
    world.git("commit", "-qm", "Mine", where=tmp_path / "mine", who=("owner", "me@example.org"))
    world.git("push", "-q", "origin", "main", where=tmp_path / "mine")
    world.wait(lambda: world.state().get("pid") not in {pid, 0})
    assert (world.volume / "main/coilclaw/b.py").exists()


def test_a_disk_that_is_full_loses_no_signal_and_does_none_twice(tmp_path):
    """A small disk of its own, really full; that is why it runs in namespaces."""
    apart = ("unshare", "--user", "--map-root-user", "--mount")
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], check=False, capture_output=True).returncode:
        lacks("user namespaces and unshare", "Install the package util-linux, and allow user namespaces.")
    words = [*apart, sys.executable, "-m", "tests.features.evolve.full_disk", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=280)
    assert done.stdout == "held\n", done.stderr


def test_the_watcher_is_small_and_imports_only_its_folder(made):
    world = made()
    world.start()
    world.wait_running("main")
    assert world.process is not None
    status = Path(f"/proc/{world.process.pid}/status").read_text()
    assert int(status.partition("VmRSS:")[2].split()[0]) <= 15 * 1024
    lists = "import sys; sys.path.append(sys.argv[1]); import watcher.loop; print(*sys.modules)"
    words = [sys.executable, "-I", "-S", "-c", lists, str(WATCHER.parent)]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    foreign = {name.split(".")[0] for name in shown} - set(sys.stdlib_module_names) - {"watcher", "__main__"}
    assert {name for name in foreign if not name.startswith("_")} == set()
