"""A box dies with whoever started it, at whatever moment that is; what is left all the same is ended by the next."""

import json
import os
import signal
import subprocess
import time

import msgspec
import pytest

from tests.sandbox.conftest import processes_with

DIES = """
import asyncio, json, os, signal, sys
import msgspec
from coilclaw.packets.box import BoxSpec
from coilclaw.sandbox.box import open_box
from coilclaw.sandbox.process_tree import descendants

def die():
    print(json.dumps(descendants(os.getpid())), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    box = open_box(hide=(), prefer=sys.argv[1])
    warm = BoxSpec(command="true", workspace=sys.argv[2], cwd=sys.argv[2])
    await box.run(warm)
    await box.run(msgspec.json.decode(sys.argv[3], type=BoxSpec), released=die)

asyncio.run(main())
"""
"""Is killed at the very moment when its box, which is complete, would be released."""

STARTS = """
import asyncio, sys
import msgspec
from coilclaw.packets.box import BoxSpec
from coilclaw.sandbox.box import open_box

async def main():
    box = open_box(hide=(), prefer=sys.argv[1])
    spec = msgspec.json.decode(sys.argv[3], type=BoxSpec)
    await box.run(BoxSpec(command="true", workspace=sys.argv[2], cwd=sys.argv[2]))
    print("now", flush=True)
    await box.run(spec)

asyncio.run(main())
"""

COLLECTS = "from coilclaw.sandbox.abandoned import end_abandoned; print(end_abandoned())"


def started(box, interpreters, script, command):
    box.own()
    spec = msgspec.json.encode(box.spec(command)).decode()
    return interpreters(box.uid).start(script, box.tier, str(box.workspace), spec)


def until_gone(pids):
    """Wait for the ends of processes that are not ours."""
    deadline = time.monotonic() + 280
    while alive := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.01)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as source:
            return source.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def test_a_box_whose_maker_dies_before_the_release_is_over_and_ran_nothing(box, interpreters):
    process = started(box, interpreters, DIES, "touch began; sleep 600")
    told, _ = process.communicate(timeout=280)
    assert process.returncode == -signal.SIGKILL
    boxed = json.loads(told)
    assert boxed
    until_gone(boxed)
    assert not (box.workspace / "began").exists()


def test_whoever_comes_next_ends_what_a_killed_process_left(box, interpreters):
    """Killed at any moment of a start. What the kernel does not take along is ended by its mark."""
    token = f"6{os.getpid()}{os.urandom(3).hex()}"
    killed = []
    for number in range(12):
        process = started(box, interpreters, STARTS, f"sleep 600; : {token}")
        assert process.stdout.readline() == b"now\n"
        time.sleep(number / 1000)
        process.kill()
        process.communicate()
        killed.append(process.pid)
    assert collected(box, interpreters) >= 0
    until_gone(marked(killed))
    until_gone(processes_with(token))


def marked(owners):
    """What still carries the mark of one of these processes."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as source:
                bears = source.read().partition(b"COILCLAW_BOX=")[2].partition(b"\0")[0]
        except OSError:
            continue
        if bears and int(bears.split(b"-")[1]) in owners:
            found.append(int(name))
    return found


def collected(box, interpreters):
    done = interpreters(box.uid).start(COLLECTS)
    told, _ = done.communicate(timeout=280)
    assert done.returncode == 0
    return int(told)


def abandoned_by(owner):
    """A process that bears the mark of another."""
    return subprocess.Popen(["/bin/sleep", "600"], env={"COILCLAW_BOX": owner})


@pytest.mark.parametrize("case", ["gone", "another start", "alive", "another namespace"])
def test_only_what_bears_the_mark_of_the_dead_is_ended(case):
    from coilclaw.sandbox.abandoned import end_abandoned, mark

    namespace, number, began = mark()["COILCLAW_BOX"].split("-")
    over = subprocess.Popen(["/bin/true"])
    over.wait()
    owners = {
        "gone": f"{namespace}-{over.pid}-{began}",
        "another start": f"{namespace}-{number}-{int(began) - 1}",
        "alive": f"{namespace}-{number}-{began}",
        "another namespace": f"{int(namespace) + 1}-{over.pid}-{began}",
    }
    left = abandoned_by(owners[case])
    while left.pid not in marked({int(owners[case].split("-")[1])}):  # until it has begun
        pass
    try:
        end_abandoned()
        if case in ("gone", "another start"):
            assert left.wait(timeout=280) == -signal.SIGKILL
        else:
            assert left.poll() is None
    finally:
        left.kill()
        left.wait()


def test_a_command_does_not_bear_the_mark(box):
    assert "COILCLAW_BOX" not in box.text("env; cat /proc/self/environ")
