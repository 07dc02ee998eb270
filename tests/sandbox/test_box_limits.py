"""Whatever a command uses up, it ends with the right word and leaves no process behind."""

import os
import secrets
import signal
import time
from pathlib import Path

import msgspec
import pytest

from coilclaw.sandbox.limits import GroupHome, sweep
from tests.sandbox.conftest import SERVER, processes_with

FORKS = """
import os, time
made = 0
try:
    while made < 500:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError as error:
    print(made, "then", error.errno)
"""

HOG = """
held = []
while True:
    held.append(bytearray(4 << 20))
"""


@pytest.fixture
def token() -> str:
    """A number of seconds that no other sleep on this machine has."""
    return f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"


def gone(token: str) -> bool:
    """Whether no process with the token is left; a killed one may take a moment to leave the kernel's list."""
    for _ in range(2000):
        if not processes_with(token):
            return True
        time.sleep(0.02)
    return False


def daemon(token: str) -> str:
    """A shell line that starts a process twice removed, in a session of its own, holding our streams."""
    return f"(setsid sh -c '(trap \"\" TERM HUP INT; sleep {token}) & (setsid sleep {token} &)' &)"


def test_a_command_that_takes_too_long_is_stopped(box, limits, token):
    result = box.run(f"echo begun; sleep {token}", limits=limits(wall_seconds=0.5))
    assert (result.end, result.exit_code, result.stdout) == ("timeout", 137, b"begun\n")
    assert "0.5 seconds" in result.reason
    assert not processes_with(token)


def test_a_stopped_command_takes_everything_it_started_along(box, limits, token):
    result = box.run(f"{daemon(token)}; sleep 0.1; {daemon(token)}; sleep {token}", limits=limits(wall_seconds=0.7))
    assert result.end == "timeout"
    assert not processes_with(token)


def test_a_daemon_does_not_outlive_its_command(box, limits, token):
    result = box.run(f"{daemon(token)}; sleep 0.1; echo done", limits=limits())
    assert (result.end, result.exit_code, result.stdout) == ("left_behind", 137, b"done\n")
    assert "2 processes" in result.reason
    assert "must wait" in result.reason
    assert not processes_with(token)


def test_an_endless_writer_is_stopped_at_the_cap(box, limits):
    result = box.run("yes & yes >&2", limits=limits(output_bytes=100_000))
    assert (result.end, result.exit_code) == ("output_limit", 137)
    assert len(result.stdout) + len(result.stderr) == 100_000
    assert "100000 bytes" in result.reason


def test_output_up_to_the_cap_is_no_reason_to_stop(box, limits):
    result = box.run("head -c 100000 /dev/zero", limits=limits(output_bytes=100_000))
    assert (result.end, result.exit_code, len(result.stdout)) == ("exited", 0, 100_000)


def test_a_memory_hog_is_stopped(box, limits):
    result = box.run(("/usr/bin/python3", "-I", "-c", HOG), limits=limits(memory_bytes=64 << 20))
    if box.as_root and os.path.isdir("/sys/fs/cgroup/memory"):
        assert result.end == "memory_limit"
        assert str(64 << 20) in result.reason
    else:  # without a control group the process is refused memory, or the watch on the whole box is quicker
        assert result.end == "memory_limit" or b"MemoryError" in result.stderr
    assert result.exit_code != 0


def test_memory_is_counted_over_all_processes(box, limits):
    one = "x = bytearray(50 << 20); import time; time.sleep(60)"
    command = "for n in 1 2 3 4; do python3 -I -c '" + one + "' & done; wait"
    result = box.run(command, limits=limits(memory_bytes=100 << 20))
    assert result.end == "memory_limit"


def test_a_fork_bomb_stays_small_and_ends(box, limits, token):
    result = box.run(("/usr/bin/python3", "-I", "-c", FORKS), limits=limits(processes=20))
    count, _, number = result.stdout.decode().split()
    assert 10 <= int(count) <= 22
    assert number == "11"
    counted = box.as_root and os.path.isdir("/sys/fs/cgroup/pids")
    assert result.end in ({"process_limit"} if counted else {"process_limit", "left_behind"})
    assert f"{count} processes" in result.reason
    bomb = f"b() {{ b | b & }}; b; sleep {token}"
    result = box.run(bomb, limits=limits(processes=20, wall_seconds=1.0, output_bytes=10_000))
    assert result.end in {"timeout", "output_limit", "process_limit", "left_behind"}
    assert not processes_with(token)


def test_a_fork_bomb_whose_command_ends_well_has_failed_all_the_same(box, limits):
    result = box.run("b() { b | b & }; b", limits=limits(processes=20, output_bytes=1 << 20))
    assert result.end == "process_limit"
    assert "limit of 20 processes" in result.reason


def test_files_cannot_grow_beyond_the_limit(box, limits):
    result = box.run("head -c 3000000 /dev/zero > big", limits=limits(file_bytes=1_000_000))
    assert result.exit_code != 0
    assert (box.workspace / "big").stat().st_size == 1_000_000


def test_open_files_are_bounded(box, limits):
    script = """
held = []
try:
    while True:
        held.append(open("/dev/null"))
except OSError as error:
    print(error.errno, len(held))
"""
    number, count = box.python(script, limits=limits(open_files=40)).split()
    assert number == "24"
    assert int(count) < 40


def test_the_private_tmp_is_bounded(box, limits):
    seen = box.text(
        "for d in /tmp /dev/shm; do head -c 200000000 /dev/zero > $d/big; done", limits=limits(file_bytes=1 << 30)
    )
    assert seen.count("No space left on device") == 2


@pytest.mark.slow
def test_a_command_that_computes_too_long_is_stopped(box, limits):
    result = box.run(("sh", "-c", "while :; do :; done"), limits=limits(cpu_seconds=1))
    assert (result.end, result.exit_code) == ("cpu_limit", 128 + signal.SIGXCPU)
    assert "1 seconds of CPU" in result.reason


@pytest.mark.parametrize("after", [0.01, 0.4])
def test_cancelling_kills_everything_before_it_is_passed_on(box, limits, token, after):
    box.own()
    spec = box.spec(f"{daemon(token)}; sleep 0.1; sleep {token}", limits=limits())
    assert "cancelled" in box.ask(spec, cancel_after=after)
    assert not processes_with(token)
    assert box.run("echo again").stdout == b"again\n"


def test_our_own_death_kills_everything_inside(box, interpreters, limits, token):
    box.own()
    spec = box.spec(f"{daemon(token)}; sleep {token}", limits=limits())
    asked = {"tier": box.tier, "hide": (), "spec": spec, "cancel_after": 0}
    with interpreters(box.uid).start(SERVER) as parent:
        parent.stdin.write(msgspec.json.encode(asked) + b"\n")
        parent.stdin.flush()
        for _ in range(2000):
            if len(processes_with(f"sleep\0{token}")) >= 3:
                break
            time.sleep(0.02)
        assert processes_with(f"sleep\0{token}"), "the command never began"
        parent.kill()
        parent.wait()
    assert gone(token)


def groups_of(pid: int) -> list[str]:
    """Control groups that a process made and that are still there."""
    tops = [top for top in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.path.isdir(top)]
    return [path for top in tops for path in os.listdir(top) if path.startswith(f"coilclaw-{pid}-")]


def test_groups_are_taken_away_with_their_box(box):
    before = set(groups_of(box.process.pid))
    box.run("true")
    for _ in range(2000):
        if not set(groups_of(box.process.pid)) - before:
            return
        time.sleep(0.02)
    pytest.fail("a control group is left")


def test_limits_are_what_the_kernel_was_told(box, limits):
    script = """
import resource
for name in ("CPU", "FSIZE", "NOFILE", "CORE"):
    print(resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0])
"""
    asked = limits(cpu_seconds=7, file_bytes=12345, open_files=77)
    assert box.python(script, limits=asked).split() == ["7", "12345", "77", "0"]


def test_a_box_that_somebody_kills_is_an_outcome_and_not_a_refusal(box, limits, token):
    box.own()
    asked = {"tier": box.tier, "hide": (), "spec": box.spec(f"sleep {token}", limits=limits()), "cancel_after": 0}
    box.process.stdin.write(msgspec.json.encode(asked) + b"\n")
    box.process.stdin.flush()
    for _ in range(2000):
        if processes_with(f"sleep\0{token}"):
            break
        time.sleep(0.02)
    children = Path(f"/proc/{box.process.pid}/task").glob("*/children")
    monitors = [int(pid) for listed in children for pid in listed.read_text().split()]
    assert len(monitors) == 1
    os.kill(monitors[0], signal.SIGKILL)
    result = msgspec.json.decode(box.process.stdout.readline())["result"]
    assert (result["end"], result["exit_code"]) == ("signalled", 137)
    assert not processes_with(token)


WRITES = """
import os
number = 0
while True:
    number += 1
    with open(f"made{number % %KEEP%}", "wb") as made:
        made.write(b"x" * (1 << 20))
        made.flush()
        os.fsync(made.fileno())
"""


@pytest.mark.parametrize("keep", [1, 10_000])
def test_a_command_that_writes_without_end_is_stopped(box, limits, keep):
    """Whether it fills the disk or writes the same file over and over."""
    script = WRITES.replace("%KEEP%", str(keep))
    result = box.run(("/usr/bin/python3", "-I", "-c", script), limits=limits(write_bytes=32 << 20))
    assert result.end == "write_limit"
    assert str(32 << 20) in result.reason
    assert sum(path.stat().st_size for path in box.workspace.iterdir()) < 8 << 30


def test_writers_that_come_and_go_are_stopped_by_the_room_they_take(box, limits):
    command = "i=0; while :; do i=$((i+1)); head -c 262144 /dev/zero > made$i; done"
    result = box.run(command, limits=limits(write_bytes=64 << 20))
    assert result.end == "write_limit"


def test_files_count_even_when_they_hold_nothing(box, limits):
    script = "number = 0\nwhile True:\n    number += 1\n    open(f'made{number}', 'w').close()\n"
    if os.statvfs(box.workspace).f_files == 0:
        pytest.skip("this file system does not count files")
    result = box.run(("/usr/bin/python3", "-I", "-c", script), limits=limits(write_bytes=8 << 20))
    assert result.end == "write_limit"


def test_the_throw_away_places_of_a_box_are_bounded(box, limits):
    script = """
for place in ("/tmp", "/dev/shm", "/tmp/.home"):
    try:
        for number in range(400):
            with open(f"{place}/made{number}", "wb") as made:
                made.write(b"x" * (1 << 20))
        print("UNBOUNDED", place)
    except OSError as error:
        print("full", error.errno)
"""
    assert "UNBOUNDED" not in box.python(script, limits=limits())


def test_a_command_that_writes_less_is_left_alone(box, limits):
    result = box.run("head -c 8000000 /dev/zero > made; sleep 0.2; rm made", limits=limits(write_bytes=256 << 20))
    assert result.end == "exited"


def test_only_groups_of_dead_processes_of_this_pid_namespace_are_swept(tmp_path: Path):
    here = os.stat("/proc/self/ns/pid").st_ino
    dead = max(int(name) for name in os.listdir("/proc") if name.isdigit()) + 4_000_000
    names = {
        "ours and dead": f"coilclaw-{dead}-{here}-ab", "ours and alive": f"coilclaw-{os.getpid()}-{here}-ab",
        "of another namespace": f"coilclaw-{dead}-{here + 1}-ab", "of others": "somebody-1",
    }  # fmt: skip
    for name in names.values():
        (tmp_path / name).mkdir()
    sweep(GroupHome(version=2, memory=str(tmp_path), processes=str(tmp_path)))
    assert set(os.listdir(tmp_path)) == {names[what] for what in names if what != "ours and dead"}
