"""A command that leaves something running has failed, however it hides it; one that tidies up has not."""

import secrets
import shutil

import pytest

from tests.sandbox.conftest import processes_with

PYTHON = "/usr/bin/python3 -I -c"

HEADLESS = """
import ctypes, os, threading, time
if os.fork() == 0:
    os.setsid()
    threading.Thread(target=time.sleep, args=(3600,)).start()
    ctypes.CDLL(None).pthread_exit(None)  # the first thread is a zombie now, the process is not over
time.sleep(0.1)
"""

HOLDER = """
import os, time
if os.fork() == 0:
    for number in range(256):
        try:
            os.close(number)
        except OSError:
            pass
    os.setsid()
    if os.fork() == 0:
        time.sleep(3600)
    os._exit(0)
"""

THROUGH_THE_FIRST = """
import os
for name in sorted(os.listdir("/proc/1/fd"), key=int):
    if int(name) > 2:
        try:
            os.open("/proc/1/fd/" + name, os.O_RDWR)
        except OSError as error:
            print(name, "refused")
        else:
            print(name, "OPENED")
"""

LEAVING = {
    "in the background": "sleep {token} &",
    "in a session of its own": "setsid sleep {token} &",
    "twice removed": "(setsid sh -c '(setsid sleep {token} &)' &)",
    "deaf to signals": "(trap '' TERM HUP INT QUIT; sleep {token}) &",
    "stopped": "sleep {token} & kill -STOP $!",
    "by a command that fails": "sleep {token} & exit 3",
    "by a command that is killed": "sleep {token} & kill -9 $$",
    "by a command that was replaced": "sleep {token} & exec true",
    "late": "sleep 0.2; (setsid sleep {token} &); sleep 0.1",
    "with the streams closed": "setsid sleep {token} < /dev/null > /dev/null 2>&1 &",
    "without any descriptor": f"{PYTHON} '{HOLDER}'",
    "without its first thread": f"{PYTHON} '{HEADLESS}'",
}

TIDY = {
    "a pipe cut short": "yes | head -1",
    "a long pipe": "seq 20000 | sort -R | sort -n | tail -1",
    "a wait": "for n in 1 2 3; do sleep 0.05 & done; wait",
    "subshells": "(echo a; (echo b; (echo c)))",
    "a substitution": "echo $(echo $(echo x))",
    "what ends with the command": "(sleep 0.03 &) ; true",
    "a killed helper": "sleep 60 & kill $!; wait; true",
    "an orphan that is over": "(true &); (sh -c 'true &' &); true",
    "children gathered by nobody": f"{PYTHON} 'import os; [os.fork() or os._exit(0) for n in range(20)]'",
    "children of a program": (
        f'{PYTHON} \'import subprocess, sys; subprocess.run([sys.executable, "-c", "1"], check=True)\''
    ),
    "a longer life": "sleep 0.4",
}


@pytest.fixture
def token() -> str:
    """A number of seconds that no other sleep on this machine has."""
    return f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"


@pytest.mark.parametrize("how", LEAVING)
def test_whatever_is_left_running_is_ended_and_told(box, limits, token, how):
    result = box.run(LEAVING[how].replace("{token}", token), limits=limits())
    assert (result.end, result.exit_code) == ("left_behind", 137), result
    assert "It left a process" in result.reason
    assert not processes_with(token)


@pytest.mark.parametrize("how", TIDY)
def test_a_command_that_tidies_up_is_not_accused(box, limits, how):
    result = box.run(TIDY[how], limits=limits())
    assert (result.end, result.exit_code, result.reason) == ("exited", 0, ""), result


def test_a_process_substitution_may_end_after_its_shell(box, limits):
    result = box.run(("bash", "-c", "echo kept > >(cat > kept)"), limits=limits())
    assert (result.end, result.exit_code) == ("exited", 0)
    assert (box.workspace / "kept").read_text() == "kept\n"


def test_git_and_make_start_and_gather_their_children(box, limits):
    (box.workspace / "Makefile").write_text("all: a b c\na b c:\n\t@sleep 0.05; echo $@\n")
    command = "git init -q r && cd r && git -c user.name=n -c user.email=e commit -q --allow-empty -m x && git log"
    assert box.run(command, limits=limits()).end == "exited"
    if shutil.which("make"):
        result = box.run("make -j3", limits=limits())
        assert (result.end, sorted(result.stdout.split())) == ("exited", [b"a", b"b", b"c"])


def test_the_code_of_a_command_is_its_own_when_nothing_is_left(box, limits):
    assert box.run("(sleep 0.05 &); exit 7", limits=limits()).exit_code == 7
    assert box.run(("no-such-program",), limits=limits()).exit_code == 127


def test_the_wires_of_the_first_process_are_out_of_reach(box, limits):
    seen = box.text(("/usr/bin/python3", "-I", "-c", THROUGH_THE_FIRST), limits=limits())
    assert "OPENED" not in seen
    inside = box.text("ls /proc/self/fd", limits=limits()).split()
    assert len(inside) == 4  # the three streams, and the directory that is being listed
