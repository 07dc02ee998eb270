"""A hostile agent and its watcher: odd signals, lies, greed, processes that will not end; the watcher outlives all."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from coilclaw.features.evolve.watcher.agent import UsedByTree, descendants, is_alive
from coilclaw.features.evolve.watcher.journal import ASKS, DeskFiles
from coilclaw.features.evolve.watcher.pauses import TOLD
from coilclaw.features.evolve.watcher.settings import WatcherSettings
from coilclaw.features.evolve.watcher.usage import UsageWatch
from coilclaw.features.evolve.watcher.volume import Volume, measure
from tests.features.evolve import watcher_world as says
from tests.features.evolve.watcher_world import World

FORKS_AWAY = (
    says.STARTS
    + """
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        with open(volume + "/away", "a") as file:
            file.write(f"{os.getpid()}\\n")
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for number in range(3, 100):
            try:
                os.close(number)
            except OSError:
                pass
        time.sleep(1000)
"""
)
FLOODS = says.STARTS + 'log("SUCCESS")\nwhile True:\n    sys.stdout.write("x" * 65536)\n'
BURNS = says.STARTS + 'log("SUCCESS")\nwhile True:\n    pass\n'
FILLS = says.STARTS + 'log("SUCCESS")\nopen(volume + "/big", "wb").write(os.urandom(8 << 20))\nwhile True:\n    pass\n'
ASIDE = (
    says.STARTS
    + """
log("SUCCESS")
while True:
    if not os.path.lexists(volume + "/.signal/rollback"):
        os.mkdir(volume + "/.signal/new")
        with open(volume + "/.signal/new/big", "wb") as file:
            file.write(os.urandom(2 << 20))
        os.rename(volume + "/.signal/new", volume + "/.signal/rollback")
"""
)
DELETES = (
    says.STARTS
    + """
log("SUCCESS")
file = open(volume + "/big", "wb")
os.unlink(volume + "/big")
file.write(os.urandom(8 << 20))
file.flush()
while True:
    pass
"""
)
NAGS = (
    says.STARTS
    + """
log("SUCCESS")
while True:
    try:
        os.mkdir(volume + "/.signal/rollback")
    except OSError:
        time.sleep(0.005)
"""
)
MULTIPLIES = (
    says.STARTS
    + 'log("SUCCESS")\nfor _ in range(20):\n    if os.fork() == 0:\n        time.sleep(1000)\ntime.sleep(1000)\n'
)
OPENS = says.STARTS + 'log("SUCCESS")\nkept = [open("/dev/null") for _ in range(200)]\ntime.sleep(1000)\n'
LIES = (
    says.STARTS
    + """
log("SUCCESS")
os.rename(volume + "/logs", volume + "/gone")
os.symlink("{target}", volume + "/logs")
time.sleep(1000)
"""
)
PINGS = says.STARTS + 'log("SUCCESS")\nsend("bootstrap", "main")\ntime.sleep(1000)\n'


@pytest.fixture
def volume(tmp_path):
    volume = Volume(tmp_path / "bot", tmp_path / "aside", -1, -1)
    volume.prepare()
    return volume


NAMES_NO_REF = [
    b"", b"\n", b"agent/x\nmain", b"a" * 300, b"--upload-pack=touch /tmp/x", b"../main", b"agent/../../x",
    b"agent/x.lock", b"refs/heads/..", b"agent/x\0", b"\xff\xfe", b"main@{0}", b"agent/ x", b"-rf",
    b"agent/x;id", b"/etc/passwd", b":main",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["bootstrap", "rollback"])
@pytest.mark.parametrize("text", NAMES_NO_REF)
def test_a_signal_that_names_no_ref_is_wrong(volume, kind, text):
    (volume.folder / ".signal" / kind).write_bytes(text)
    found = volume.signal(kind)
    assert found is not None
    assert found.wrong or (kind, found.target) == ("rollback", "agent/x.lock")  # that one is unknown to every record


def test_signals_that_are_no_files_are_wrong_and_moved_aside_without_following(volume, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("main")
    place = volume.folder / ".signal" / "bootstrap"
    for make in (
        lambda: place.symlink_to(secret),
        lambda: os.mkfifo(place),
        place.mkdir,
        lambda: place.symlink_to(tmp_path),
    ):
        make()
        found = volume.signal("bootstrap")
        assert found
        assert found.wrong
        volume.refuse_signal(found)
        assert not os.path.lexists(place)
    assert secret.read_text() == "main"
    assert len(list((tmp_path / "aside").iterdir())) == 4


def test_a_signal_folder_that_is_a_link_touches_nothing_behind_it(volume, tmp_path):
    (tmp_path / "host").mkdir()
    (tmp_path / "host/bootstrap").write_text("main")
    (volume.folder / ".signal").rmdir()
    (volume.folder / ".signal").symlink_to(tmp_path / "host")
    found = volume.signal("bootstrap")
    assert found
    assert found.wrong
    volume.refuse_signal(found)
    assert (tmp_path / "host/bootstrap").read_text() == "main"
    assert not os.path.lexists(volume.folder / ".signal")


def test_a_signal_that_was_replaced_is_not_deleted_with_the_one_before(volume):
    place = volume.folder / ".signal" / "bootstrap"
    place.write_text("main")
    first = volume.signal("bootstrap")
    place.with_name(".new").write_text("agent/x")
    place.with_name(".new").rename(place)
    assert first
    volume.drop_signal(first)
    assert place.read_text() == "agent/x"


def test_logs_that_are_links_pipes_or_shared_are_not_written_through(volume, tmp_path):
    host = tmp_path / "host"
    host.write_text("mine")
    log = volume.folder / "logs/errors.log"
    for make in (lambda: log.symlink_to(host), lambda: os.mkfifo(log), lambda: os.link(host, log)):
        make()
        volume.append("errors.log", "theirs", 1 << 20)
        assert host.read_text() == "mine"
        assert "theirs" in log.read_text()
        log.unlink()


def test_folders_of_branches_that_are_links_are_not_entered(volume, tmp_path):
    host = tmp_path / "host"
    (host / "x/coilclaw/infra").mkdir(parents=True)
    (host / "x/coilclaw/infra/runner.py").write_text("mine")
    (volume.folder / "agent").rmdir()
    (volume.folder / "agent").symlink_to(host)
    assert not volume.has_runner("agent/x")
    volume.remove_code("agent/x")
    staged = tmp_path / "staged"
    staged.mkdir()
    volume.replace_code("agent/x", staged)
    assert (host / "x/coilclaw/infra/runner.py").read_text() == "mine"
    assert (volume.folder / "agent/x/coilclaw").is_dir()


@pytest.fixture
def made(tmp_path):
    worlds = []

    def make(runner=says.SLEEPS, **settings):
        worlds.append(World(tmp_path, runner, **settings))
        return worlds[-1]

    yield make
    for world in worlds:
        world.end()


def test_nothing_is_hidden_from_the_measure_by_many_folders_or_deep_ones(tmp_path):
    wide = tmp_path / "wide"
    for number in range(700):
        (wide / str(number)).mkdir(parents=True)
        (wide / str(number) / "file").write_bytes(b"x" * 5000)
    assert measure(wide, 1 << 30, 100_000)[0] >= 700 * 5000
    deep = tmp_path / "deep"
    (deep / "/".join(["d"] * 100)).mkdir(parents=True)
    assert measure(deep, 1 << 30, 100_000)[0] > 1 << 30


class Asleep:
    """An agent that uses no processor time, so far as can be told."""

    printed = 0

    def used(self) -> UsedByTree:
        return UsedByTree(0.0, 1, 1, 0)


def test_disk_that_is_taken_without_any_work_is_noticed(tmp_path):
    """Reserving space costs no processor time."""
    (tmp_path / "bot").mkdir()
    watch = UsageWatch(WatcherSettings(str(tmp_path), ("x",), disk_bytes=64 << 20), 0)
    assert watch.excess(Asleep(), 61) == ""
    with (tmp_path / "bot" / "reserved").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 128 << 20)
    assert "filled the disk" in watch.excess(Asleep(), 122)


def test_files_that_are_made_without_much_work_are_noticed_in_the_end(tmp_path):
    watch = UsageWatch(WatcherSettings(str(tmp_path), ("x",), disk_files=100), 0)
    assert watch.excess(Asleep(), 61) == ""
    for number in range(101):
        (tmp_path / f"bot/{number}").mkdir(parents=True)
    assert any("files" in watch.excess(Asleep(), 61.0 * minute) for minute in range(2, 20))


CLOSED = """
import os, sys
from pathlib import Path
from coilclaw.features.evolve.watcher.record import Record
from coilclaw.features.evolve.watcher.volume import Volume, measure
from coilclaw.sandbox import syscalls
if os.geteuid() == 0:
    syscalls.drop_capabilities()  # root opens what is closed
home = Path(sys.argv[1])
volume = Volume(home / "bot", home / "aside", -1, -1)
volume.prepare()
for name in ("main/coilclaw/a/b", "agent/x/coilclaw/infra", "hidden"):
    (volume.folder / name).mkdir(parents=True)
(volume.folder / "hidden/file").write_bytes(b"x" * (1 << 20))
(volume.folder / ".signal/bootstrap").write_text("main")
volume.append("bootstrap.log", "x", 1 << 20)
closed = "remote.git/refs/heads/agent", "bot/main/coilclaw/a", "bot/main", "bot/agent/x/coilclaw", "bot/hidden"
for name in (*closed, "bot/logs/bootstrap.log", "bot/logs", "bot/.signal", "bot/agent", "bot"):
    (home / name).chmod(int(sys.argv[2], 8))

Record(home).take_in()
found = volume.signal("bootstrap")
assert (found.target, found.wrong) == ("main", "")
volume.drop_signal(found)
assert volume.signal("bootstrap") is None
assert measure(volume.folder, 1 << 30, 1000)[0] >= 1 << 20
for name in ("bot/main/coilclaw/a", "bot/main", "bot/agent/x/coilclaw", "bot/logs", "bot/.signal", "bot/agent", "bot"):
    (home / name).chmod(int(sys.argv[2], 8))
volume.prepare()
assert not volume.has_runner("agent/x")
(home / "staged").mkdir()
volume.replace_code("main", home / "staged")
end = volume.log_end("bootstrap.log", 1 << 20)
volume.append("bootstrap.log", "now SUCCESS main", 1 << 20)
assert volume.succeeded("main", end)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["0", "500"])
def test_what_the_agent_closes_to_its_owner_is_opened_up_again(tmp_path, mode):
    world = World(tmp_path)
    done = subprocess.run([sys.executable, "-c", CLOSED, str(world.home), mode], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FAILS = """
import sys
from pathlib import Path
from coilclaw.features.evolve.watcher.loop import Watcher
from coilclaw.features.evolve.watcher.settings import WatcherSettings

class Fails(Watcher):
    left = {times}
    def launch(self, branch):
        if branch != "main" and self.left:
            self.left -= 1
            raise OSError("no space left")
        super().launch(branch)

sys.exit(Fails(WatcherSettings.load(Path(sys.argv[1]))).run())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("times", "branch"), [(1, "agent/x"), (9, "main")])
def test_a_launch_that_fails_is_tried_again_at_once_and_not_days_later(made, times, branch):
    world = made()
    world.push("agent/x", {"infra/runner.py": says.SLEEPS + "# x\n"})
    world.start(sys.executable, "-c", FAILS.format(times=times))
    world.wait_running("main")
    world.send("bootstrap", "agent/x")
    world.wait(lambda: "no space left" in world.log())
    world.wait_running(branch)
    world.wait(lambda: not (world.home / "state/journal.json").exists())
    assert ("could not be launched" in world.log()) == (branch == "main")


def test_merges_that_wait_do_not_keep_a_notice_from_the_owner(tmp_path):
    desk = DeskFiles(tmp_path)
    asked = [desk.ask(f"merge-agent+{number}-0", {"kind": "merge"}) for number in range(ASKS + 1)]
    assert (all(asked[:-1]), asked[-1]) == (True, False)
    assert desk.notice("critical", "HELD")


IDS = """
import subprocess, sys
from coilclaw.features.evolve.watcher.agent import kill_tree
ours = subprocess.Popen(["true"])
ours.wait()
print(kill_tree(int(sys.argv[1]), {which}, seconds=1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("which", ["ours", 'started="1"'])
def test_a_process_that_was_given_the_id_of_an_ended_agent_is_left_alone(which):
    """The stranger is ours and not the script's, as any process of this machine might be."""
    with subprocess.Popen(["sh", "-c", "sleep 1000 & wait"]) as stranger:
        try:
            end = time.monotonic() + says.PATIENCE
            while not (below := descendants(stranger.pid)):
                assert time.monotonic() < end
            words = [sys.executable, "-c", IDS.format(which=which), str(stranger.pid)]
            done = subprocess.run(words, capture_output=True, check=True, timeout=says.PATIENCE)
            assert done.stdout == b"True\n"
            assert [is_alive(pid) for pid in (stranger.pid, *below)] == [True, True]
        finally:
            for pid in descendants(stranger.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            stranger.kill()


@pytest.mark.slow
def test_bad_signals_are_reported_and_the_agent_runs_on(made, tmp_path):
    world = made()
    world.start()
    world.wait_running("main")
    pid = world.state()["pid"]
    (world.volume / ".signal/bootstrap").symlink_to(tmp_path)
    (world.volume / ".signal/rollback").mkdir()
    world.wait(lambda: "bootstrap signal was moved aside" in world.record.comms())
    world.wait(lambda: "rollback signal was moved aside" in world.record.comms())
    assert world.state()["pid"] == pid


@pytest.mark.slow
def test_an_agent_that_is_reported_all_the_time_does_not_fill_the_record(made):
    world = made(NAGS, poll_seconds=0.01)
    world.start()
    world.wait(lambda: world.log().count("was moved aside") > TOLD + 10)
    comms = world.record.comms()
    assert comms.count("was moved aside") <= TOLD
    assert comms.count("more follows") == 1


@pytest.mark.slow
def test_the_watcher_ends_with_its_parent_in_the_longest_pause_too(made):
    world = made(poll_seconds=600, longest_pause=600)
    words = [sys.executable, "-I", "-S", str(says.WATCHER), str(world.home / "settings.json")]
    with subprocess.Popen(["sh", "-c", '"$@" & wait', "sh", *words]) as parent:
        world.wait(lambda: "launched main" in world.log())
        left = descendants(parent.pid)
        parent.kill()
    world.wait(lambda: not any(is_alive(pid) for pid in left))


@pytest.mark.slow
def test_a_branch_that_was_never_pushed_ends_on_main(made):
    world = made()
    world.start()
    world.wait_running("main")
    world.send("bootstrap", "agent/nothing")
    world.wait(lambda: "agent/nothing cannot be started" in world.record.comms())
    world.wait_running("main")
    assert "FAILED agent/nothing" in world.boots()


@pytest.mark.slow
def test_processes_that_fork_away_are_found_and_killed(made):
    world = made(FORKS_AWAY, start_seconds=2)
    world.start()
    world.wait(lambda: (world.volume / "away").exists() and len((world.volume / "away").read_text().split()) >= 2)
    away = [int(pid) for pid in (world.volume / "away").read_text().split()]
    world.wait(lambda: "FAILED main" in world.boots())
    world.wait(lambda: not any(is_alive(pid) for pid in away), "all of them are dead")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runner", "settings", "why"),
    [
        (FLOODS, {"log_per_minute": 1 << 20, "log_bytes": 1 << 16}, "printed more than"),
        (BURNS, {"cpu_share": 0.01, "cpu_seconds": 0.2}, "of the processors"),
        (FILLS, {"disk_bytes": 6 << 20}, "filled the disk"),
        (DELETES, {"disk_bytes": 6 << 20}, "filled the disk"),
        (ASIDE, {"disk_bytes": 6 << 20}, "filled the disk"),
        (MULTIPLIES, {"processes": 12}, "processes"),
        (OPENS, {"open_files": 150}, "open files"),
    ],
)
def test_an_agent_that_uses_too_much_is_ended_and_the_second_time_held(made, runner, settings, why):
    world = made(runner, watch_seconds=0.1, **settings)
    world.start()
    world.wait_held()
    assert why in str(world.state()["reason"])
    assert "2 times in an hour" in str(world.state()["reason"])
    assert world.process is not None
    world.wait(lambda: [ask for ask in world.asks("notice") if ask["severity"] == "critical"])
    watcher = world.process.pid
    world.wait(lambda: not descendants(watcher), "nothing of it runs")
    assert sum(path.stat().st_size for path in (world.volume / "logs").glob("errors.log*")) < 1 << 20


@pytest.mark.slow
def test_an_agent_that_moves_its_logs_away_writes_nowhere_else(made, tmp_path):
    (tmp_path / "host").mkdir()
    world = made(LIES.replace("{target}", str(tmp_path / "host")))
    world.start()
    world.wait((world.volume / "logs").is_symlink)
    world.send("bootstrap", "main")
    world.wait(lambda: "bootstrap main (launch)" in world.log())
    world.wait(lambda: world.log().count("launched main") >= 2)
    assert list((tmp_path / "host").iterdir()) == []


@pytest.mark.slow
def test_an_agent_that_restarts_itself_all_the_time_is_slowed_down(made):
    world = made(PINGS)
    world.start()
    world.wait(lambda: "too many launches" in world.log())
    assert world.state()["phase"] != "held"
    world.fsck()


@pytest.mark.slow
def test_the_owners_order_does_not_wait_for_the_pause_of_an_agent_that_restarts_itself(made):
    world = made(PINGS, first_pause=300.0, longest_pause=600.0)
    world.start()
    world.wait(lambda: "too many launches" in world.log())
    world.order(kind="rollback", ref=world.first[:12])
    world.wait(lambda: "launched agent/rollback-1" in world.log())


@pytest.mark.slow
def test_a_killed_launcher_or_runner_leads_back_to_main(made):
    world = made()
    world.start()
    for count in range(1, 4):
        world.wait_running("main")
        pid = int(str(world.state()["pid"]))
        assert world.process is not None
        below = set(descendants(world.process.pid))
        for other in below & ({pid} if count % 2 else set(descendants(pid))):
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
        world.wait(lambda count=count: world.boots().count("FAILED main") == count)
    world.wait_running("main")


@pytest.mark.slow
def test_a_full_disk_does_not_end_the_watcher(made):
    """Stands for it: no file can be written while the folder of its state is gone."""
    world = made()
    world.start()
    world.wait_running("main")
    (world.home / "state").rename(world.home / "away")
    world.send("bootstrap", "main")
    world.wait(lambda: (world.volume / ".signal/bootstrap").exists() and world.process and world.process.poll() is None)
    (world.home / "away").rename(world.home / "state")
    world.wait(lambda: not (world.volume / ".signal/bootstrap").exists())
    world.wait_running("main")
    assert Path(world.home / "state/watcher.log").exists()


@pytest.mark.slow
def test_a_rollback_to_files_that_must_not_be_written_ends_on_main(made):
    """Only tips are looked at when a branch is taken in; what lies below them is looked at when it is to be started."""
    world = made()
    world.start()
    world.wait_running("main")
    place = world.clone("agent/x")
    world.git("update-index", "--add", "--cacheinfo", f"160000,{world.first},module", where=place)
    world.git("commit", "-qm", "Odd", where=place)
    odd = world.git("rev-parse", "HEAD", where=place)
    world.git("rm", "-q", "--cached", "module", where=place)
    world.git("commit", "-qm", "Even", where=place)
    world.git("push", "-q", "origin", "agent/x", where=place)
    world.wait(lambda: world.record.sha("refs/heads/agent/x"))
    world.send("rollback", odd)
    world.wait(lambda: "could not be done" in world.record.comms())
    world.wait_running("main")
    assert not (world.volume / ".signal/rollback").exists()
